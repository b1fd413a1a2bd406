"""The group of processes that ends with who made it; at the end of a whole ingester: tests/pipeline/test_spark_left.py."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from ingester.spark.group import Group

_MEMBER = 'trap "" HUP INT TERM; echo begun; while :; do sleep 600; done'


def member(group: Group) -> subprocess.Popen[bytes]:
    """It heeds no signal that it can ignore."""
    process = subprocess.Popen(["/bin/sh", "-c", _MEMBER], stdout=subprocess.PIPE, process_group=group.number)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    return process


@pytest.mark.parametrize("shell", ["/bin/sh", "/no/shell"])
def test_a_kill_ends_all_that_is_in_it(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingester.spark.group._SHELL", shell)
    group = Group()
    with member(group) as process:
        group.kill()
        assert process.wait(60) == -9
    group.kill()  # by now the number may belong to another


@pytest.mark.parametrize("shell", ["/bin/sh", "/no/shell"])
def test_it_ends_with_its_owner_and_keeps_nobody_waiting_for_what_that_has_printed(shell: str) -> None:
    program = f"""\
import os, subprocess
from ingester.spark import group as of_groups
of_groups._SHELL = {shell!r}
group = of_groups.Group()
there = subprocess.Popen(["/bin/sh", "-c", 'trap "" HUP INT TERM; while :; do sleep 600; done'],
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=group.number)
print(group.number, flush=True)
os._exit(9)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 9
    deadline = time.monotonic() + 60
    while _lives(int(ran.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(group: int) -> bool:
    return subprocess.run(["pgrep", "-g", str(group)], stdout=subprocess.DEVNULL, check=False).returncode == 0
