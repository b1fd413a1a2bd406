"""Before and after: quartiles and ratios of two sides' rounds, and the turns that they take."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import compare
from bench.compare import in_turns
from bench.comparison.sides import Side, both, program
from bench.comparison.spread import Compared, Spread, compared, spread, text

SIDES = Side("before", "/before"), Side("now", "/now")


def test_one_round_is_its_own_median() -> None:
    assert spread([4.0]) == Spread(4.0, 4.0, 4.0)
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(2.0, 3.0, 4.0)


def test_figures_that_both_have_are_compared() -> None:
    before = [{"rate": 100.0, "old": 1.0}, {"rate": 200.0, "old": 1.0}]
    (found,) = compared(before, [{"rate": 300.0, "new": 1.0}])
    assert (found.name, found.before.middle, found.now.middle, found.ratio) == ("rate", 150.0, 300.0, 2.0)
    assert compared(before, []) == []


def test_the_table_has_medians_quartiles_and_the_ratio() -> None:
    nothing, some = Spread(0.0, 0.0, 0.0), Spread(1.0, 2.0, 3.0)
    lines = text([Compared("a", some, Spread(4.0, 5.0, 6.0)), Compared("b", nothing, some)]).splitlines()
    assert lines[2:] == [
        "| a | 2.00 (1.00 to 3.00) | 5.00 (4.00 to 6.00) | 2.50 |",
        "| b | 0.00 (0.00 to 0.00) | 2.00 (1.00 to 3.00) |  |",
    ]


def test_each_round_begins_with_the_other_side(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def measure(side: Side) -> dict[str, float]:
        asked.append(side.name)
        return {"figure": float(len(asked))}

    (found,) = in_turns("part", SIDES, 3, measure)
    assert asked == ["before", "now", "now", "before", "before", "now"]
    assert (found.before.middle, found.now.middle) == (4.0, 3.0)
    assert len(capsys.readouterr().err.splitlines()) == 6


def test_a_checkout_without_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make setup"):
        both(tmp_path)


def test_a_part_that_fails_in_any_way_leaves_the_figures_of_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    some = Compared("rate", Spread(1.0, 1.0, 1.0), Spread(2.0, 2.0, 2.0))

    def good(*_: object) -> Iterator[Compared]:
        yield some

    def broken(*_: object) -> Iterator[Compared]:
        yield some
        raise subprocess.TimeoutExpired("bench", 900)

    monkeypatch.setattr(compare, "PARTS", {"one": broken, "two": good})
    assert compare.all_parts(["one", "two"], SIDES, argparse.Namespace(), tmp_path)
    said = capsys.readouterr()
    assert len(json.loads(said.out.splitlines()[-1])) == 2
    assert "one failed: TimeoutExpired" in said.err


def test_a_program_that_takes_too_long_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
        "time.sleep(120)\n"
    )
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="not over after 1 s"):
        program(Side("now", sys.executable), tmp_path, "slow", seconds=1.0)
    assert time.monotonic() - begun < 90.0
