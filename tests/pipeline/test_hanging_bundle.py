"""On a real Spark: a slice that never ends is given up and its worker killed, its neighbour's result is there before, and slots are not lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.story import story


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for the worker in /proc")
def test_a_hung_slice_is_given_up_and_everything_else_goes_on(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.worlds.hanging_bundle"],
        capture_output=True,
        text=True,
        env={**os.environ, "HANGS": str(tmp_path / "pid")},
        timeout=170,
    )
    assert ran.returncode == 0, ran.stderr
    told = story(ran.stdout)
    first, *between, last = told["story"]
    assert first == last == ["Later", None]
    assert between[0] == ["Quick", None], "the neighbour's result does not wait for the one that hangs"
    assert between[1:] == [["Hung", "overdue"], ["Hung", "overdue"]]
    assert told["gone"], "Spark kills the worker of a job that was cancelled"
    assert told["check"] is None
    assert told["died"] == [["Fatal", "worker lost"], ["Fatal", "worker lost"], ["Fatal", "kills worker"]]
    assert told["cleared"], "a job that touches no table runs: the worker that died says nothing of the executor"
