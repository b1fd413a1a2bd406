"""Processes that are started and stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dstream.children import Process, lifeline, start, start_stage, stop_all

OBEYS = "print('ready', flush=True); import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + OBEYS
STAGE = """
import os
print(os.environ["COLOUR"], os.environ["DSTREAM_STOPS_WITH_STDIN"], os.environ["HOME"], os.getpgid(0) == os.getpid(), flush=True)
print(os.read(0, 1), flush=True)
"""


@pytest.fixture
def children() -> Iterator[list[Process]]:
    made: list[Process] = []
    yield made
    for child in made:
        child.kill()
        child.communicate()


def begun(children: list[Process], code: str) -> Process:
    child = start(
        [sys.executable, "-S", "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    children.append(child)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def test_all_are_asked_to_stop_and_one_that_does_not_is_killed(children: list[Process]) -> None:
    both = [begun(children, DEAF), begun(children, OBEYS)]
    stop_all(both, within=0.5)
    assert [child.returncode for child in both] == [-signal.SIGKILL, -signal.SIGTERM]


def test_one_that_has_ended_keeps_its_status(children: list[Process]) -> None:
    ended, running = begun(children, "print('ready'); raise SystemExit(3)"), begun(children, OBEYS)
    assert ended.wait(30) == 3
    stop_all([ended, running], within=30, how=signal.SIGKILL)
    stop_all([ended, running], within=30)
    assert [child.returncode for child in (ended, running)] == [3, -signal.SIGKILL]


def test_a_stage_has_its_variables_a_group_of_its_own_and_an_input_that_says_nothing(
    children: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/here")
    reading, writing = os.pipe()
    child = start_stage([sys.executable, "-S", "-c", STAGE], {"COLOUR": "blue"}, output=writing)
    children.append(child)
    os.close(writing)
    with os.fdopen(reading, "rb") as output:
        assert output.readline() == b"blue 1 /here True\n"
        assert child.poll() is None  # it reads
        assert not os.get_inheritable(lifeline())
        stop_all([child], within=30)
        assert output.read() == b""
