"""A table's rows as they are sent, beside what the contract suite reads from a server."""

from __future__ import annotations

import pytest

from common.errors import PermanentError
from common.names import TableName
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.history.reader import BaseRowReader
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.sql.history.base_table import BaseColumn, ChosenIndex, IndexColumn, SqlServerTable, chosen_key

START = LogPosition.before(Lsn(bytes(10)))


def column(
    number: int, name: str, sql_type: str = "int", *, captured: bool = True, nullable: bool = False
) -> BaseColumn:
    return BaseColumn(number, name, name if captured else None, sql_type, 4, 10, 0, None, nullable, computed=False)


def instance(*columns: CapturedColumn) -> ChangeTable:
    return ChangeTable(name="i", table=TableName("dbo", "T"), start=START, columns=columns, change_table="i_CT")


def table(captured: ChangeTable, columns: tuple[BaseColumn, ...], indexed: list[IndexColumn]) -> SqlServerTable:
    chosen = chosen_key(captured, columns, indexed)
    return SqlServerTable(
        instance=captured,
        order=tuple(one.name for one in chosen.keys),
        rows=1,
        object_id=1,
        name=captured.table,
        stamp="s",
        columns=columns,
        index=chosen.name,
        keys=chosen.keys,
    )


def test_a_key_column_that_is_also_data_is_selected_once() -> None:
    captured = instance(CapturedColumn("ID", "int", 1, key_ordinal=1), CapturedColumn("A", "int", 2))
    made = table(captured, (column(1, "ID"), column(2, "A", nullable=True)), [IndexColumn("PK", True, 1, False)])
    reader = BaseRowReader(made, decimals_as_numbers=False)
    assert reader.selected == ["ct.[ID]", "ct.[A]"]
    row = reader.row((7, None))
    assert (row.at, row.data, row.key) == (("ID=7",), {"ID": 7, "A": None}, (7,))


def test_a_type_without_a_json_value_is_refused_with_the_column() -> None:
    captured = instance(CapturedColumn("ID", "sql_variant", 1))
    with pytest.raises(PermanentError, match="column 'ID' has type sql_variant"):
        BaseRowReader(table(captured, (column(1, "ID", "sql_variant"),), []), decimals_as_numbers=False)


def test_no_table_is_read_in_the_order_of_a_sql_variant() -> None:
    captured = instance(CapturedColumn("A", "int", 1))
    columns = (
        column(1, "ID", "sql_variant", captured=False),
        column(2, "A"),
        column(3, "H", "hierarchyid", captured=False),
    )
    primary, other = IndexColumn("PK", True, 1, False), IndexColumn("UX", False, 3, True)
    assert chosen_key(captured, columns, [primary]) == ChosenIndex()
    chosen = chosen_key(captured, columns, [primary, other])
    (key,) = chosen.keys
    assert (chosen.name, key.name, key.descending, key.title) == ("UX", "H", True, "H desc=")


ORDERS = (column(1, "ID"), column(2, "Date", "date"), column(3, "Number"))
ACROSS = [IndexColumn("PK", True, 1, False), IndexColumn("PK", True, 2, False, partitions=True)]
ALONG = [IndexColumn("UX_Date", False, 2, False, partitions=True), IndexColumn("UX_Date", False, 3, False)]
WHOLE = [IndexColumn("UX_Number", False, 3, False)]


@pytest.mark.parametrize(
    ("indexed", "name", "partitioned_by"),
    [
        (ACROSS, "PK", "Date"),
        ([*ACROSS, *WHOLE], "UX_Number", None),
        ([*ACROSS, *ALONG], "UX_Date", None),
        ([*ALONG, *ACROSS, *WHOLE], "UX_Number", None),  # the narrower
        ([IndexColumn("PK", True, 2, False, partitions=True), IndexColumn("PK", True, 1, False), *WHOLE], "PK", None),
        ([IndexColumn("PK", True, 1, False, partitions=True)], "PK", None),
    ],
)
def test_an_index_that_partitions_cut_across_its_order_is_the_last_choice(
    indexed: list[IndexColumn], name: str, partitioned_by: str | None
) -> None:
    """Rows in its order are in every partition, so the server sorts all that is left for a page."""
    identified = instance(
        CapturedColumn("ID", "int", 1, key_ordinal=1), CapturedColumn("Date", "date", 2, key_ordinal=2)
    )
    chosen = chosen_key(identified, ORDERS, indexed)
    assert (chosen.name, chosen.partitioned_by) == (name, partitioned_by)
