"""How wide a row can be, by its columns alone."""

from __future__ import annotations

import math

import pytest

from ingester.source import CapturedColumn
from ingester.sqlserver.pages.meter import widest


def test_a_row_is_as_wide_as_its_columns() -> None:
    columns = [CapturedColumn("a", "int", 1, length=4), CapturedColumn("b", "nvarchar", 2, length=100)]
    assert widest(columns) == 104
    assert widest([]) == 0


@pytest.mark.parametrize(("name", "length", "arrives"), [("varchar", 100, 200), ("char", 9, 18), ("decimal", 5, 41)])
def test_what_counts_is_how_a_value_arrives(name: str, length: int, arrives: int) -> None:
    assert widest([CapturedColumn("a", name, 1, length=length)]) == arrives


@pytest.mark.parametrize(
    "column",
    [
        CapturedColumn("c", "nvarchar", 3, large=True, length=-1),
        CapturedColumn("c", "image", 3, length=16),
        CapturedColumn("c", "int", 3),
    ],
    ids=["without a limit", "declared as a pointer", "not known"],
)
def test_a_column_without_a_known_limit_makes_a_row_of_any_width(column: CapturedColumn) -> None:
    assert widest([CapturedColumn("a", "int", 1, length=4), column]) == math.inf
