"""The consumer on the page about snapshots works: it ends with the table's rows, whatever was lost, and sees messages twice."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")


def copy() -> Any:
    """The class on the page."""
    [source] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, Any] = {}
    exec(source, found)
    return found["Copy"](["ID"])


def message(
    kind: str, key: int = 0, name: str = "", snapshot: tuple[str, int, bool] | None = None, lsn: int = 1
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"OperationType": kind, "LSN": f"{lsn:020x}"}
    if snapshot is not None:
        metadata["Snapshot"] = dict(zip(("Id", "Chunk", "Last"), snapshot, strict=True))
    return {"data": {} if kind == "Gap" else {"ID": key, "Name": name}, "metadata": metadata}


def names(made: Any) -> dict[int, str]:
    return {key[0]: row["Name"] for key, (_, row) in made.rows.items()}


def gap(lsn: int = 5) -> dict[str, Any]:
    return message("Gap", lsn=lsn)


def read(snapshot: str, rows: dict[int, str], lsn: int = 5) -> list[dict[str, Any]]:
    """All of a snapshot. `lsn`: where the table's changes stand."""
    last = max(rows)
    return [message("Read", key, rows[key], (snapshot, 1 + key // 2, key == last), lsn) for key in sorted(rows)]


def fed(*said: dict[str, Any], times: int = 1) -> dict[int, str]:
    """What a copy holds in the end that gets each message `times` times."""
    made = copy()
    for each in said:
        for _ in range(times):
            made.apply(each)
    return names(made)


@pytest.mark.parametrize("times", [1, 2])
def test_after_a_gap_the_rows_that_were_deleted_in_it_are_gone(times: int) -> None:
    made = copy()
    said = [message("Insert", key, "old") for key in range(6)]
    said += [gap(), *read("b", {0: "new", 2: "new", 3: "old"}), message("Update", 3, "newer")]
    for each in said:
        for _ in range(times):
            made.apply(each)
    assert names(made) == {0: "new", 2: "new", 3: "newer"}


def test_a_change_between_the_chunks_is_kept() -> None:
    made = copy()
    first, second, third = read("b", {0: "a", 4: "b", 9: "c"})
    for each in (gap(), first, message("Insert", 2, "between", lsn=6), message("Delete", 0), second, third):
        made.apply(each)
    assert names(made) == {2: "between", 4: "b", 9: "c"}


def test_without_a_gap_nothing_is_swept() -> None:
    made = copy()
    for each in (message("Insert", 1, "a"), *read("a", {5: "only these"})):
        made.apply(each)
    assert names(made) == {1: "a", 5: "only these"}


def test_the_rest_of_a_snapshot_from_before_the_gap_sweeps_nothing_that_a_later_one_shows() -> None:
    chance = random.Random(7)
    for _ in range(50):
        rows = dict.fromkeys(chance.sample(range(20), 8), "now")
        made = copy()
        old = read("a", dict.fromkeys(range(20), "then"), lsn=1)
        cut = chance.randrange(20)
        for each in (*old[:cut], gap(), *read("b", rows)):
            made.apply(each)
        assert names(made) == rows


def inserted(*keys: int) -> list[dict[str, Any]]:
    return [message("Insert", key, "old") for key in keys]


@pytest.mark.parametrize("times", [1, 2])
def test_a_snapshot_that_began_before_the_gap_leaves_the_sweep_to_the_next_one(times: int) -> None:
    first, last = read("x", {1: "x", 3: "x"}, lsn=2)
    last["metadata"]["LSN"] = f"{5:020x}"
    said = [*inserted(1, 2, 3), first, gap(5), last, *read("b", {2: "b", 3: "b"}, lsn=5)]
    assert fed(*said, times=times) == {2: "b", 3: "b"}


def test_a_snapshot_that_began_before_the_gap_removes_nothing() -> None:
    """Row 1 was read before the gap, so that the snapshot does not show it again."""
    first, last = read("x", {1: "x", 3: "x"}, lsn=2)
    last["metadata"]["LSN"] = f"{5:020x}"
    assert fed(*inserted(1, 2, 3), first, gap(5), last) == {1: "x", 2: "old", 3: "x"}


@pytest.mark.parametrize("times", [1, 2])
def test_a_gap_during_the_snapshot_of_another_is_swept_by_the_snapshot_behind_both(times: int) -> None:
    first, last = read("b", {2: "b", 3: "b"}, lsn=5)
    last["metadata"]["LSN"] = f"{9:020x}"
    said = [*inserted(1, 2, 3), gap(5), first, gap(9), last, *read("c", {3: "c"}, lsn=9)]
    assert fed(*said[:-1], times=times) == {1: "old", 2: "b", 3: "b"}
    assert fed(*said, times=times) == {3: "c"}


def test_a_page_that_comes_twice_with_its_gap_is_swept_all_the_same() -> None:
    first, *rest = read("b", {2: "b", 3: "b", 4: "b"}, lsn=5)
    assert fed(*inserted(1, 2, 3), gap(5), first, gap(5), first, *rest) == {2: "b", 3: "b", 4: "b"}


def test_a_last_that_comes_again_removes_nothing_that_came_since() -> None:
    *rest, last = read("b", {2: "b", 3: "b"}, lsn=5)
    said = [*inserted(1, 2), gap(5), *rest, last, message("Insert", 7, "new", lsn=6), message("Delete", 2)]
    assert fed(*said, last) == {3: "b", 7: "new"}
    assert fed(*said, gap(5), *rest, last) == {2: "b", 3: "b", 7: "new"}  # its delete comes again as well


def test_a_gap_that_was_overtaken_by_its_snapshot_sweeps_when_it_comes() -> None:
    said = [*inserted(1, 2), *read("b", {2: "b"}, lsn=5), message("Insert", 7, "new", lsn=6)]
    assert fed(*said, gap(5)) == {2: "b", 7: "new"}


def test_a_row_that_the_snapshot_left_to_its_change_is_kept() -> None:
    """With `exact`, a chunk of which all rows changed sends none of them."""
    said = [*inserted(1, 2, 3), gap(5), message("Update", 1, "changed", lsn=6), *read("b", {3: "b"}, lsn=7)]
    assert fed(*said) == {1: "changed", 3: "b"}
