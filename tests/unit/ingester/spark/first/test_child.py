"""The process for the first slices, in a program of its own: tests/worlds/first_slices.py."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingester.spark.first.child import alone
from tests.worlds.story import story


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere none is forked")
def test_its_slices_are_given_up_it_dies_alone_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.worlds.first_slices", str(tmp_path)], capture_output=True, text=True, timeout=170
    )
    assert ran.returncode == 0, ran.stderr
    told = story(ran.stdout)
    assert told["hung"] == [["Hung", "overdue"], ["Hung", "transient"], ["Quick", None]]
    assert told["killed"]
    assert told["died"] == [["Fatal", "worker lost"]]
    assert told["reaped"]
    assert told["idle"] == "was killed (signal 9)", "it was never given anything"
    assert told["ends"] == ["was ended, because a slice did not come back", "has ended with status 3"]
    assert told["frozen"] == [
        [["Quick", "transient"], ["Seen", "transient"]],
        True,
        "was ended, because it has not answered for 10 s",
    ]
    assert told["slept"] == [["Quick", None]], "nobody has waited for it"
    seen = told["seen"]
    assert seen["group"], "a terminal's Ctrl-C is the driver's"
    assert seen["signals"] == [True, True, True]
    assert seen["files"].count("pipe") == 2, "its own alone: the JVM's input ends with the driver"
    assert "/dev/null" in seen["files"], "no number is given to another file, which an inherited object could close"
    assert seen["driver's settings"]
    assert seen["stopping"]
    assert told["ended"]
    assert told["second"], "with threads nothing is forked"
    assert told["input"] == 0
    deadline = time.monotonic() + 60
    while Path("/proc", str(told["orphan"])).exists():  # the driver ended without a word
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_where_nobody_can_count_threads_nothing_is_forked(tmp_path: Path) -> None:
    assert not alone(tmp_path / "no-such")
