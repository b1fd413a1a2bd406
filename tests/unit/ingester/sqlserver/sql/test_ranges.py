"""The ranges between two keys: every row once and in order, each range with a bound on one column behind equal ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import pytest

from ingester.sqlserver.sql.changes import P, Statement
from ingester.sqlserver.sql.history.keys import KeyColumn
from ingester.sqlserver.sql.history.ranges import EVERYTHING, ranges

_PARAMETER = re.compile(r"CONVERT\(int, \x00\)")
Key = tuple[str, ...]


def columns(directions: Sequence[bool]) -> list[KeyColumn]:
    return [KeyColumn(f"K{at}", "int", "int", None, descending=down) for at, down in enumerate(directions)]


def found(part: Statement, rows: Sequence[Key], equal: str = "") -> list[Key]:
    """The rows that the condition of a range lets pass, computed by Python; `equal`: digits that count as one."""
    text, values = part
    assert text.count(P) == len(values)
    given = iter(values)
    condition = _PARAMETER.sub(lambda _: str(_value(str(next(given)), equal)), text)
    condition = condition.replace(" AND ", " and ").replace(" OR ", " or ").replace("<>", "!=")
    condition = re.sub(r"ct\.\[K(\d)\]", r"k[\1]", re.sub(r"(?<![<>!])=(?!=)", "==", condition))
    return [row for row in rows if eval(condition or "True", {"k": [_value(one, equal) for one in row]})]


def _value(digit: str, equal: str) -> int:
    return int(equal[0]) if digit in equal else int(digit)


@pytest.mark.parametrize("directions", [(False,), (True,), (False, True), (True, False, False), (False, True, True)])
def test_every_row_between_two_keys_is_in_one_range_and_the_ranges_are_in_order(directions: tuple[bool, ...]) -> None:
    keys: list[Key] = [tuple(map(str, key)) for key in product(range(3), repeat=len(directions))]
    keys.sort(key=lambda key: [-int(one) if down else int(one) for one, down in zip(key, directions, strict=True)])
    for low, after in enumerate([None, *keys]):
        for high, upto in enumerate([*keys, None], 1):
            if high >= low:
                parts = ranges(columns(directions), after, upto, "ct")
                rows = [row for part in parts for row in found(part, keys)]
                assert rows == keys[low:high], (after, upto)


def test_texts_that_differ_may_be_equal_to_the_server() -> None:
    """1 and 2 as upper and lower case of a letter: no row is read twice."""
    keys: list[Key] = [("0", "5"), ("1", "4"), ("2", "5"), ("1", "6"), ("2", "7"), ("3", "4")]
    for low in range(len(keys)):
        for high in range(low, len(keys)):
            parts = ranges(columns((False, False)), keys[low], keys[high], "ct")
            rows = [row for part in parts for row in found(part, keys, equal="12")]
            assert rows == keys[low + 1 : high + 1], (keys[low], keys[high])


def test_each_range_bounds_one_column_behind_equal_ones() -> None:
    texts = [text for text, _ in ranges(columns((False, True)), ("1", "2"), None, "ct")]
    assert texts == [
        f"ct.[K0] = CONVERT(int, {P}) AND ct.[K1] < CONVERT(int, {P})",
        f"ct.[K0] > CONVERT(int, {P})",
    ]
    (within,) = ranges(columns((False, True)), ("1", "2"), ("1", "0"), "ct")
    assert within[0].count(" AND ") == 2
    assert ranges(columns((False, True)), None, None, "ct") == [EVERYTHING]
