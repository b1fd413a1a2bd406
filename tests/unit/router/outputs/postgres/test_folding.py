"""A run of changes leaves of each row what applying them one by one would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.outputs.postgres.changes import DELETE, INSERT, UPDATE, Change
from router.outputs.postgres.folding import Folded, folded
from router.outputs.postgres.table import Column, Table

TABLE = Table("s", "t", tuple(Column(name, "text", "text", 0 if name == "k" else None) for name in "kab"), "p")


def change(
    operation: int, at: int, row: dict[str, Any], before: dict[str, Any] | None = None, **metadata: Any
) -> Change:
    return Change(at, b"", operation, "", f"{at:04}", orjson.dumps(row).decode(), row, before, metadata)


def fold(*changes: Change) -> Folded:
    return folded(changes, TABLE.layout)


def rows(found: Folded) -> dict[str, Any]:
    return {key[0]: state.row() for key, state in found.rows.items() if state.put is not None}


def test_the_last_by_position_counts_whatever_the_order() -> None:
    one, two = change(INSERT, 1, {"k": "x", "a": "1"}), change(UPDATE, 2, {"k": "x", "a": "2"})
    assert rows(fold(one, two)) == rows(fold(two, one)) == {"x": {"k": "x", "a": "2"}}


def test_columns_without_a_value_are_those_of_the_change_before() -> None:
    found = fold(change(INSERT, 1, {"k": "x", "a": "1", "b": "2"}), change(UPDATE, 2, {"k": "x", "a": "3"}))
    assert rows(found) == {"x": {"k": "x", "a": "3", "b": "2"}}
    [(layout, [state])] = found.written().items()
    assert (layout.names, state.position) == (("k", "a", "b"), "0002")


def test_a_row_that_comes_back_has_nothing_of_the_old_one() -> None:
    found = fold(
        change(INSERT, 1, {"k": "x", "a": "1", "b": "2"}),
        change(DELETE, 2, {"k": "x"}),
        change(INSERT, 3, {"k": "x", "a": "3"}),
    )
    assert rows(found) == {"x": {"k": "x", "a": "3"}}
    assert found.deleted() == [(("x",), "0002", False)]


def test_a_delete_is_remembered_and_an_older_write_does_not_count() -> None:
    found = fold(change(DELETE, 2, {"k": "x"}), change(INSERT, 1, {"k": "x", "a": "1"}))
    assert rows(found) == {}
    assert found.deleted() == [(("x",), "0002", True)]


def test_an_update_of_the_key_deletes_the_old_one() -> None:
    found = fold(change(UPDATE, 5, {"k": "new"}, before={"k": "old"}, ChangedColumns=["k"]))
    assert rows(found) == {"new": {"k": "new"}}
    assert found.deleted() == [(("old",), "0005", True)]
    assert found.doubtful == 0


@pytest.mark.parametrize(("changed", "doubtful"), [(["k"], 1), (["a"], 0), ([], 0)])
def test_an_update_without_the_row_before_is_doubtful_where_it_wrote_the_key(changed: list[str], doubtful: int) -> None:
    assert fold(change(UPDATE, 5, {"k": "x"}, ChangedColumns=changed)).doubtful == doubtful


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (True, "true"), ("a", "a"), (1.5, "1.5")])
def test_keys_are_texts(value: Any, text: str) -> None:
    assert list(fold(change(INSERT, 1, {"k": value})).rows) == [(text,)]


_OPERATIONS = st.lists(st.tuples(st.sampled_from([DELETE, INSERT, UPDATE]), st.sampled_from("xy")), max_size=8)


@given(_OPERATIONS, st.randoms())
def test_any_order_and_any_copies_end_as_the_log_does(operations: Sequence[tuple[int, str]], random: Any) -> None:
    log = [change(kind, at, {"k": key, "a": str(at), "b": "b"}) for at, (kind, key) in enumerate(operations)]
    expected: dict[str, Any] = {}
    for each in log:
        expected.pop(each.row["k"], None)
        if each.operation != DELETE:
            expected[each.row["k"]] = each.row
    come = [*log, *random.sample(log, len(log) // 2)]
    random.shuffle(come)
    assert rows(fold(*come)) == expected
