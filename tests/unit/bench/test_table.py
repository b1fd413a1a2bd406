"""`make bench`'s table: ratios, words where a figure is worse, failed parts, and the run that is kept on a page."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as program
from bench import archive
from bench.table import kept, parts
from bench.table.figures import Failed, Figure, number, row, text, worse
from bench.table.kept import BEGIN, END, Run, keep, last, merged, parsed, with_table, written
from bench.table.parts import PARTS, Part, bottleneck, chosen
from ingester.spark.kept.archive import VARIABLE

COST = Figure("fetch", 30.0, "µs", 20.0)
RATE = Figure("1 table", 900.0, "changes/s", 1000.0, more_is_better=True, remark="ceiling: send")
RUN = Run("2026-11-23", "abc", 2, (1.0, 3.5), False, (COST, RATE))


def test_a_figure_stands_beside_the_last_one_and_its_floor() -> None:
    assert row(COST, {"fetch": 15.0}) == ("fetch, µs", "30.0", "15.0", "2.00", "20.0", "1.50", "worse")
    assert row(RATE, {}) == ("1 table, changes/s", "900", "", "", "1,000", "0.90", "ceiling: send")


def test_a_figure_without_a_floor_has_none() -> None:
    assert row(Figure("start", 5.0, "s"), {"start": 0.0})[2:] == ("0.00", "", "", "", "")


@pytest.mark.parametrize(
    ("figure", "before", "word"),
    [
        (COST, 29.0, ""),
        (COST, 20.0, "worse"),
        (COST, 90.0, ""),
        (RATE, 1000.0, ""),
        (RATE, 2000.0, "worse"),
        (RATE, 100.0, ""),
        (RATE, None, ""),
    ],
)
def test_only_what_is_clearly_worse_is_called_so(figure: Figure, before: float | None, word: str) -> None:
    assert worse(figure, before) == word


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0.00"), (0.01234, "0.012"), (1.234, "1.23"), (12.34, "12.3"), (12345.6, "12,346")]
)
def test_numbers_have_the_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


def test_the_columns_stand_below_each_other_and_a_failed_part_is_named() -> None:
    lines = text([COST, RATE, Failed("start", "exit status 1")], {"fetch": 15.0}).splitlines()
    assert len({line.index(cell) + len(cell) for line, cell in zip(lines, ("last", "15.0"), strict=False)}) == 1
    assert lines[3].split() == ["start", "failed", "exit", "status", "1"]


def test_a_kept_run_is_read_as_it_was_written() -> None:
    assert parsed(written(RUN)) == RUN
    assert json.loads(written(RUN)) == json.loads(json.dumps(dataclasses.asdict(RUN)))
    assert sum('"name"' in line for line in written(RUN).splitlines()) == len(RUN.figures)


@pytest.mark.parametrize("wrong", ["{}", "[]", '{"figures": [{"name": "x"}]}', "no JSON"])
def test_something_else_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        parsed(wrong)


def test_each_kept_figure_says_when_and_where_it_was_measured(tmp_path: Path) -> None:
    new = dataclasses.replace(
        RUN, date="2026-12-01", commit="def", load=(0.0, 9.0), figures=(Figure("start", 4.0, "s"),)
    )
    run = merged(new, RUN)
    assert [(each.name, each.date, each.commit) for each in run.figures] == [
        ("fetch", "2026-11-23", "abc"),
        ("1 table", "2026-11-23", "abc"),
        ("start", "2026-12-01", "def"),
    ]
    assert parsed(written(run)) == run
    assert merged(new, run) == run
    lines = with_table(f"{BEGIN}{END}", run).splitlines()
    assert any(line.startswith("| fetch, µs |") and "2026-11-23, abc" in line for line in lines)
    assert any(line.startswith("| start, s |") and "abc" not in line for line in lines), (
        "as the line above the table says"
    )


@pytest.mark.parametrize("quick", [True, False])
def test_a_short_run_and_a_full_one_are_not_mixed(quick: bool) -> None:
    old = dataclasses.replace(RUN, quick=not quick)
    with pytest.raises(ValueError, match="short form"):
        merged(dataclasses.replace(RUN, quick=quick, figures=(Figure("start", 4.0, "s"),)), old)


def test_some_parts_leave_the_other_figures() -> None:
    new = Figure("start", 4.0, "s")
    run = merged(dataclasses.replace(RUN, commit="def", figures=(dataclasses.replace(COST, value=25.0), new)), RUN)
    assert run.commit == "def"
    assert run.values == {"fetch": 25.0, "1 table": 900.0, "start": 4.0}


def test_the_page_gets_the_table_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    assert last(tmp_path) is None
    keep(RUN, tmp_path)
    assert last(tmp_path) == RUN
    lines = page.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "old" not in lines
    assert "| fetch, µs | 30.0 | 20.0 | 1.50 |  |" in lines
    again = page.read_text(encoding="utf-8")
    assert with_table(again, RUN) == again


def test_the_repositorys_page_shows_the_kept_run() -> None:
    page, run = (kept.FOLDER / "README.md").read_text(encoding="utf-8"), last()
    assert page.count(BEGIN) == page.count(END) == 1
    assert run is None or with_table(page, run) == page


def test_the_process_that_all_wait_for_is_named() -> None:
    each = {"changes_s": 10_000.0, "processor_us_a_change.sqlserver": 95.0, "processor_us_a_change.workers": 60.0}
    assert bottleneck(each, 2) == "bound by SQL Server's emulator, one process: 0.95 of a core"
    each["processor_us_a_change.sqlserver"] = 80.0
    assert bottleneck(each, 2) == ""
    each["processor_us_a_change.workers"] = 110.0
    assert bottleneck(each, 2) == "bound by the machine: 1.90 of 2 cores"


def test_parts_are_chosen_by_name() -> None:
    assert chosen(None) == list(PARTS)
    assert [part.name for part in chosen("start, ours")] == ["start", "ours"]
    for wrong in ("nothing", "", "ours,nothing"):
        with pytest.raises(ValueError, match="the parts are ours"):
            chosen(wrong)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_names_a_program_that_is_there(part: Part) -> None:
    module = part.command(quick=True)[1]
    assert (Path(program.__file__).parents[1] / module.replace(".", "/")).with_suffix(".py").exists()


def test_figures_are_taken_from_a_programs_json() -> None:
    found: dict[str, Any] = {"ours": {"fetch": 20.0, "rest": 1.0}, "floor": {"fetch": 15.0}}
    assert [(each.value, each.bound) for each in parts.ours(found, 2)] == [(20.0, 15.0), (1.0, None)]
    found = {"idle": {"tables": 5000, "poll_s": 5.0, "probes_s": 0.0, "other_statements_s": 0.3}}
    found["idle"] |= {f"cores.{name}": 0.01 for name in ("driver", "jvm", "workers", "sqlserver")}
    assert next(iter(parts.idle(found, 2))).name == "5,000 idle tables: ours"
    assert [each.bound for each in parts.idle(found, 2)] == [None, None, 0.2]


def test_a_part_that_takes_too_long_ends_with_all_that_it_has_started(capsys: pytest.CaptureFixture[str]) -> None:
    """What it has started holds the same pipe."""
    code = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)']); time.sleep(120)"
    begun = time.monotonic()
    (found,) = program.ran(Part("slow", ["-c", code], [], [], parts.console, 1.0), quick=True)
    assert isinstance(found, Failed)
    assert time.monotonic() - begun < 90.0
    capsys.readouterr()


def test_no_archive_of_the_jvm_is_made_beside_what_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for own, value in ((tmp_path / "none", "off"), (tmp_path, str(tmp_path))):
        monkeypatch.setenv(VARIABLE, "")
        monkeypatch.delenv(VARIABLE)
        archive.settle(own)
        assert os.environ[VARIABLE] == value
    archive.settle(tmp_path / "none")
    assert os.environ[VARIABLE] == str(tmp_path)


def test_a_part_that_fails_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def failed(code: str, seconds: float = 60.0) -> str:
        (found,) = program.ran(Part("broken", ["-c", code], [], [], parts.console, seconds), quick=True)
        assert isinstance(found, Failed)
        return found.reason

    assert failed("raise SystemExit(3)") == "exit status 3: no word"
    assert failed("raise SystemExit('busy')") == "exit status 1: busy"
    assert failed("import time; time.sleep(60)", 0.3) == "not over after 0 s"
    assert failed("print('done')") == "its last line is not JSON"
    assert failed("pass") == "its last line is not JSON"
    assert failed("print('[]')").startswith("no such figure")
    (good,) = program.ran(Part("good", ["-c", "print('{\"a\": 1}')"], [], [], parts.console), quick=True)
    assert good == Figure("console: a", 1, "ms")
    capsys.readouterr()


def test_an_interruption_shows_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(part: Part, *, quick: bool) -> list[Figure | Failed]:
        if part.name == "start":
            raise KeyboardInterrupt
        return [Figure("a change", 50.0, "µs")]

    monkeypatch.setattr(program, "ran", ran)
    monkeypatch.setattr(archive, "settle", lambda: None)
    monkeypatch.setattr("sys.argv", ["bench", "--parts", "ours,start", "--quick"])
    assert program.main() == 130
    said = capsys.readouterr()
    assert "a change, µs" in said.out
    assert "nothing is kept" in said.err
