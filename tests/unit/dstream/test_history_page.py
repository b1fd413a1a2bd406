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


def message(kind: str, key: int = 0, name: str = "", snapshot: tuple[str, int, bool] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"OperationType": kind}
    if snapshot is not None:
        metadata["Snapshot"] = dict(zip(("Id", "Chunk", "Last"), snapshot, strict=True))
    return {"data": {} if kind == "Gap" else {"ID": key, "Name": name}, "metadata": metadata}


def names(made: Any) -> dict[int, str]:
    return {key[0]: row["Name"] for key, (_, row) in made.rows.items()}


def read(snapshot: str, rows: dict[int, str]) -> list[dict[str, Any]]:
    last = max(rows)
    return [message("Read", key, rows[key], (snapshot, 1 + key // 2, key == last)) for key in sorted(rows)]


@pytest.mark.parametrize("times", [1, 2])
def test_after_a_gap_the_rows_that_were_deleted_in_it_are_gone(times: int) -> None:
    made = copy()
    said = [message("Insert", key, "old") for key in range(6)]
    said += [message("Gap"), *read("b", {0: "new", 2: "new", 3: "old"}), message("Update", 3, "newer")]
    for each in said:
        for _ in range(times):
            made.apply(each)
    assert names(made) == {0: "new", 2: "new", 3: "newer"}


def test_a_change_between_the_chunks_is_kept() -> None:
    made = copy()
    first, second, third = read("b", {0: "a", 4: "b", 9: "c"})
    for each in (message("Gap"), first, message("Insert", 2, "between"), message("Delete", 0), second, third):
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
        old = read("a", dict.fromkeys(range(20), "then"))
        cut = chance.randrange(20)
        for each in (*old[:cut], message("Gap"), *read("b", rows)):
            made.apply(each)
        assert names(made) == rows
