"""Microsoft's parser as a fixture: one process for all tests of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGES = Path(sys.prefix, "scriptdom")
"""Where `make test` puts tests/scriptdom/requirements.txt."""


class Complaint(NamedTuple):
    """What the parser says about a text; line and column count from 1."""

    number: int
    line: int
    column: int
    message: str


Parse = Callable[[str], list[Complaint]]


@pytest.fixture(scope="session")
def parse() -> Iterator[Parse]:
    """A function that gives Microsoft's complaints about a batch."""
    if not (PACKAGES / ".ready").exists():
        pytest.skip("Microsoft's T-SQL parser is not installed: `make scriptdom` fetches it (x86-64 only)")
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("parse.py"))],
        env=os.environ | {"PYTHONPATH": str(PACKAGES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def ask(sql: str) -> list[Complaint]:
            stdin.write(json.dumps(sql) + "\n")
            stdin.flush()
            return [Complaint(*complaint) for complaint in json.loads(stdout.readline())]

        yield ask
        stdin.close()
        process.wait(20)
