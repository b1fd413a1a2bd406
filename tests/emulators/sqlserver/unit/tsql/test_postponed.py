"""What of a select list SQLite leaves to Python, and that both make the same of it."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.row_stream import _finisher
from emulators.sqlserver.results import Value
from emulators.sqlserver.tsql.planning.postponed import taken_off
from emulators.sqlserver.tsql.values.calls import register
from emulators.sqlserver.tsql.values.conversions.steps import null_kept

ADD = register("tests: add", lambda: lambda one, other: None if None in (one, other) else one + other)
OCTET = register("tests: octet", lambda: null_kept(lambda value: bytes((int(str(value)),))))


@pytest.mark.parametrize(
    ("item", "columns", "rows"),
    [
        (f'fn({ADD}, s1."a", s2."b")', ['s1."a"', 's2."b"'], {(1, 2): 3, (1, None): None}),
        (f'fn({ADD}, fn({ADD}, s1."a", s1."a"), -4)', ['s1."a"'], {(3,): 2}),
        (f'fn({OCTET}, s1."a""] ")', ['s1."a""] "'], {(7,): b"\7", (None,): None}),
        ('ifnull(s1."a", s1.c0)', ['s1."a"', "s1.c0"], {(None, 5): 5, (0, 5): 0, (None, None): None}),
        (
            f'CAST(x\'00\' || fn({OCTET}, s1."a") || s1."b" AS BLOB)',
            ['s1."a"', 's1."b"'],
            {(1, b"z"): b"\0\1z", (None, b"z"): None, (1, None): None},
        ),
        (
            f"ifnull(CAST(x'00' || fn({OCTET}, s1.\"a\") AS BLOB), x'0100')",
            ['s1."a"'],
            {(9,): b"\0\x09", (None,): b"\1\0"},
        ),
    ],
)
def test_an_expression_over_columns_becomes_python(
    item: str, columns: list[str], rows: dict[tuple[Value, ...], Value]
) -> None:
    selected, later = taken_off(['s1."id"', item])
    assert selected == ['s1."id"', *columns]
    assert _finisher(later)([("id", *row) for row in rows]) == [("id", found) for found in rows.values()]


@pytest.mark.parametrize(
    "item",
    [
        's1."a"',
        f"fn({ADD}, 1, 2)",
        f'fn({ADD}, ?1, s1."a")',
        f'fn({ADD}, s1."a", 1.5)',
        f'(CASE WHEN 1 = 1 THEN fn({OCTET}, s1."a") END)',
        f"sfn('x', fn({OCTET}, s1.\"a\"))",
        f'fn({OCTET}, s1."a") || s1."b"',
        "CAST(x'00' || s1.\"a\" AS TEXT)",
    ],
)
def test_what_is_more_than_that_stays_with_sqlite(item: str) -> None:
    assert taken_off([item]) == ([item], ())
    assert taken_off([item, f'fn({OCTET}, s1."b")'])[0] == [item, 's1."b"']
