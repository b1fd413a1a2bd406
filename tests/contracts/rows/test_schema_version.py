"""The version of a table's columns: one for its changes and its rows, for every type, and another one after an ALTER."""

from __future__ import annotations

from common.names import TableName
from ingester.history.rows import RowsQuery
from ingester.schema.version import SchemaColumn, schema_version
from ingester.shape.versions import version_of
from ingester.source import PageQuery, ProbeRequest
from tests.contracts.rows.conftest import RowsPlace

TYPES = (
    *("bit", "tinyint", "int", "bigint", "decimal(9,4)", "numeric(38,0)", "money", "float", "real", "char(5)"),
    *("varchar(20)", "varchar(max)", "text", "nchar(3)", "nvarchar(50)", "nvarchar(max)", "ntext", "xml", "date"),
    *("time(3)", "datetime", "smalldatetime", "datetime2(7)", "datetimeoffset(0)", "binary(4)", "varbinary(max)"),
    *("image", "uniqueidentifier"),
)


def version_of_rows(place: RowsPlace, table: str) -> str:
    return version_of(place.rows.page(RowsQuery(place.table(table), 10)).columns)


def versions_of_changes(place: RowsPlace, table: str) -> dict[str, set[str]]:
    """By capture instance."""
    found: dict[str, set[str]] = {}
    name = TableName("dbo", table)
    for one in place.source.states([name])[name].instances:
        upto = place.source.probe([ProbeRequest(one, None)]).upto
        assert upto is not None
        page = place.source.page(PageQuery(one, after=one.start, upto=upto, rows=100))
        found[one.name] = {change.schema_version for change in page.changes}
    return found


def test_changes_and_rows_of_every_type_have_the_version_of_what_was_declared(place: RowsPlace) -> None:
    columns = [SchemaColumn(f"c{n}", type_) for n, type_ in enumerate(TYPES)]
    declared = ", ".join(f"c{n} {type_} NULL" for n, type_ in enumerate(TYPES))
    place.make("T1", f"ID INT PRIMARY KEY, {declared}, Twice AS ID * 2, Version rowversion")
    place.execute("INSERT INTO dbo.T1 (ID) VALUES (1)")
    place.scan()
    expected = schema_version([SchemaColumn("ID", "int", 1), *columns, SchemaColumn("Version", "binary(8)")])
    assert versions_of_changes(place, "T1") == {"dbo_T1": {expected}}
    assert version_of_rows(place, "T1") == expected
    assert version_of(place.instance(TableName("dbo", "T1")).columns) == expected


def test_two_capture_instances_with_the_same_columns_have_one_version(place: RowsPlace) -> None:
    place.make("T2", "ID INT PRIMARY KEY, A INT, B NVARCHAR(20)")
    place.enable(table="T2", capture_instance="again", captured_column_list="B, A, ID")
    place.execute("INSERT INTO dbo.T2 VALUES (1, 2, N'x')")
    place.scan()
    found = versions_of_changes(place, "T2")
    assert found["dbo_T2"] == found["again"]
    assert len(found["again"]) == 1


def test_an_altered_column_is_another_version_also_for_a_reader_with_the_old_catalog(place: RowsPlace) -> None:
    place.make("T3", "ID INT PRIMARY KEY, A DECIMAL(9,2)")
    known, table = place.instance(TableName("dbo", "T3")), place.table("T3")
    before = version_of(known.columns)
    place.execute("ALTER TABLE dbo.T3 ALTER COLUMN A DECIMAL(9,4)")
    place.execute("INSERT INTO dbo.T3 VALUES (1, 2)")
    place.scan()
    altered = schema_version([SchemaColumn("ID", "int", 1), SchemaColumn("A", "decimal(9,4)")])
    assert before == schema_version([SchemaColumn("ID", "int", 1), SchemaColumn("A", "decimal(9,2)")])
    upto = place.source.probe([ProbeRequest(known, None)]).upto
    assert upto is not None
    page = place.source.page(PageQuery(known, after=known.start, upto=upto, rows=100))
    assert {change.schema_version for change in page.changes} == {version_of(page.columns)} == {altered}
    assert version_of(place.rows.page(RowsQuery(table, 10)).columns) == altered
