"""Two installations that are measured by the same program on the same ground: this checkout's bench and emulators, and the product of each.

A product is run by the interpreter of its own environment. Nothing may be imported from the directory that a process happens to be in, since that
could be the other checkout: so processes run in a folder that holds links to this checkout's `bench` and `emulators`, and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import sessions
from bench.ingestion.ground import Ground
from bench.ingestion.whole import Ingester
from common.names import TableName
from dstream.demo.processes import Service

_ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 900.0


@dataclass(frozen=True, slots=True)
class Side:
    """`python`: the interpreter that has the product."""

    name: str
    python: str


def both(other: Path) -> tuple[Side, Side]:
    """The other checkout and this one. Raises ValueError if the other one has no environment."""
    python = other / ".venv" / "bin" / "python"
    if not python.exists():
        raise ValueError(f"{other} has no .venv/bin/python: run `make setup` there")
    return Side("before", str(python)), Side("now", sys.executable)


def ground_in(folder: Path) -> None:
    """Links to what measures, and this process there."""
    for package in ("bench", "emulators"):
        (folder / package).symlink_to(_ROOT / package)
    os.chdir(folder)


def program(side: Side, folder: Path, *arguments: str, seconds: float = _PATIENCE) -> Any:
    """The JSON that a program of the bench prints last, run over the side's product. Raises RuntimeError."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        [side.python, "-m", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, errors = process.communicate(timeout=seconds)
        except BaseException as error:
            sessions.end(process.pid)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"{side.name}: {' '.join(arguments)}: not over after {seconds:.0f} s") from error
            raise
    if process.returncode != 0:
        raise RuntimeError(f"{side.name}: {' '.join(arguments)}: {(errors.strip() or 'no word').splitlines()[-1]}")
    return json.loads(said.strip().splitlines()[-1])


class _Installed(Service):
    """A stage of another interpreter's product."""

    def __init__(self, python: str, config: Path, log: Path) -> None:
        super().__init__("ingester", config, {}, log)
        self._command = [python, "-m", "dstream", "ingester", "--config", str(config)]


class OtherIngester(Ingester):
    """The ingester of a side."""

    def __init__(self, side: Side, ground: Ground, folder: Path, tables: Sequence[TableName], queue: str) -> None:
        super().__init__(ground, folder, tables, queue=queue)
        self._service = _Installed(side.python, folder / f"{queue}.hcl", folder / f"{queue}.log")
