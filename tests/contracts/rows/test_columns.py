"""Rows of some of the columns: only these are selected, with their key; of tables with an order and without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.errors import PermanentError
from ingester.history.rows import RowPage, RowsQuery
from ingester.sqlserver.sql.history.base_table import SqlServerTable
from tests.contracts.rows.conftest import RowsPlace


def read(place: RowsPlace, table: SqlServerTable, columns: tuple[str, ...] | None) -> RowPage:
    query = RowsQuery(table, 100, columns=columns)
    if table.order:
        return place.rows.page(query)
    with place.rows.in_one_pass(query) as pages:
        return pages.next()


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "in one pass"])
def test_only_the_columns_that_are_asked_for_and_the_key_are_there(place: RowsPlace, ordered: bool) -> None:
    name = "Some" if ordered else "Heap"
    key = " PRIMARY KEY" if ordered else " NULL"
    place.make(name, f"Id INT{key}, Name NVARCHAR(20) NULL, Twice AS Id * 2")
    place.execute(f"INSERT INTO dbo.{name} (Id, Name) VALUES (1, N'one'), (2, N'two')")
    table = place.table(name)
    page = read(place, table, ("Id", "Name"))
    assert [row.data for row in page.rows] == [{"Id": 1, "Name": "one"}, {"Id": 2, "Name": "two"}]
    assert page.unavailable == ("Twice",), "a filter may ask for it"
    page = read(place, table, ("Name", "Twice"))
    assert [set(row.data) for row in page.rows] == [{"Id", "Name"} if ordered else {"Name"}] * 2
    assert page.unavailable == ("Twice",)
    assert [row.key for row in page.rows] == ([(1,), (2,)] if ordered else [(), ()])


def test_a_column_that_cannot_be_read_stops_no_query_that_leaves_it_out(place: RowsPlace) -> None:
    place.make("Odd", "Id INT PRIMARY KEY, Name NVARCHAR(20) NULL")
    place.execute("INSERT INTO dbo.Odd (Id) VALUES (1), (2), (3)")
    table = place.table("Odd")
    odd = replace(
        table, columns=tuple(replace(one, type="sql_variant") if one.name == "Name" else one for one in table.columns)
    )
    with pytest.raises(PermanentError, match="'Name' has type sql_variant"):
        read(place, odd, None)
    assert len(read(place, odd, ("Id",)).rows) == 3
    assert len(place.rows.bounds(RowsQuery(odd, 1), 5)) == 2
