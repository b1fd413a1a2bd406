"""Which tables are under Change Data Capture: what patterns in `tables` choose from."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import count

import pytest

from common.errors import ConnectionLost, PermanentError, TransientError
from common.names import TableName
from emulators.sqlserver.faults.catalogue import LockTimeout
from emulators.sqlserver.server import SqlServerEmulator
from ingester.finding.matches import UnderCdc
from ingester.sqlserver.catalog.under_cdc import tables_under_cdc
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place

ORDERS = TableName("sales", "Orders")

_numbers = count(1)


def test_tables_come_with_their_capture_in_the_order_in_which_they_were_made(places: Places) -> None:
    place = places()
    place.execute("CREATE SCHEMA [a.b]")
    for table in ("[a.b].[Z z]", "[a.b].Y", "dbo.X"):
        place.execute(f"CREATE TABLE {table} (ID int PRIMARY KEY)")
    assert tables_under_cdc(place.connection) == UnderCdc((PERSONS,))
    for table in ("X", "Y", "Z z"):
        schema = "dbo" if table == "X" else "a.b"
        place.execute(f"EXEC sys.sp_cdc_enable_table N'{schema}', N'{table}', @role_name = NULL")
    place.execute("EXEC sys.sp_cdc_enable_table N'dbo', N'X', @role_name = NULL, @capture_instance = N'another'")
    found = (PERSONS, TableName("a.b", "Z z"), TableName("a.b", "Y"), TableName("dbo", "X"))
    assert tables_under_cdc(place.connection) == UnderCdc(found)
    place.execute("EXEC sys.sp_cdc_disable_table N'a.b', N'Y', N'all'")
    place.execute("DROP TABLE dbo.X")
    assert tables_under_cdc(place.connection) == UnderCdc(found[:2])


def test_a_database_without_capture_has_none(places: Places) -> None:
    place = places()
    place.execute("EXEC sys.sp_cdc_disable_db")
    assert tables_under_cdc(place.connection) == UnderCdc()


@pytest.mark.parametrize(
    ("grant", "found"),
    [
        ("SELECT ON OBJECT::dbo.Persons", UnderCdc((PERSONS,), 1)),
        ("SELECT ON SCHEMA::sales", UnderCdc((ORDERS,), 1)),
        ("VIEW DEFINITION ON SCHEMA::sales", UnderCdc((ORDERS,), 1)),
    ],
)
def test_only_tables_that_the_login_may_see_are_found_and_the_others_are_counted(
    places: Places, grant: str, found: UnderCdc
) -> None:
    place = places()
    place.execute("CREATE SCHEMA sales")
    place.execute("CREATE TABLE sales.Orders (ID int PRIMARY KEY)")
    place.execute("EXEC sys.sp_cdc_enable_table N'sales', N'Orders', @role_name = NULL")
    with closing(reader(place, grant, "SELECT ON SCHEMA::cdc")) as connection:
        assert tables_under_cdc(connection) == found
    with closing(reader(place, grant)) as connection, pytest.raises(PermanentError) as refused:
        tables_under_cdc(connection)
    assert "GRANT SELECT ON SCHEMA::cdc" in (refused.value.hint or "")


def reader(place: Place, *grants: str) -> Connection:
    """Of a login with these rights and nothing else."""
    name, password = f"reader{next(_numbers)}", "Reader-Password-1"
    place.execute(f"CREATE LOGIN {name} WITH PASSWORD = N'{password}'")
    place.execute(f"CREATE USER {name} FOR LOGIN {name}")
    for grant in grants:
        place.execute(f"GRANT {grant} TO {name}")
    return Connection(Place.address_of(replace(place.login, user=name, password=password)))


def test_a_locked_catalog_ends_the_look_soon_and_keeps_the_connection(
    server: SqlServerEmulator, places: Places
) -> None:
    place = places()
    with (
        server.inject(LockTimeout(100, "FROM cdc.change_tables")),
        pytest.raises(TransientError, match="error 1222") as refused,
    ):
        tables_under_cdc(place.connection)
    assert not isinstance(refused.value, ConnectionLost)
    assert tables_under_cdc(place.connection) == UnderCdc((PERSONS,))


def test_a_renamed_table_is_known_by_its_offset(places: Places) -> None:
    """The offset has the table's id and its date, which a rename leaves as they are; so has that of a name that went to another table."""
    place = places()
    place.execute("CREATE SCHEMA sales")
    for table in ("Orders", "Items", "Stage"):
        place.execute(f"CREATE TABLE sales.{table} (ID int PRIMARY KEY)")
        place.execute(f"EXEC sys.sp_cdc_enable_table N'sales', N'{table}', @role_name = NULL")
    offsets = SqlServerOffsets(place.connection, "the queue")
    offsets.ensure()
    for each in (ORDERS, PERSONS):
        offsets.claim(each, 1, place.source.states([each])[each].instances[0].source)
    place.execute("EXEC sp_rename N'sales.Orders', N'Sales'")
    place.execute("EXEC sp_rename N'sales.Stage', N'Orders'")
    found = tables_under_cdc(place.connection)
    assert found.with_offset == {PERSONS, ORDERS}
    assert found.former == {TableName("sales", "Sales"): "sales.Orders"}
    # as it is stored once the name has gone over to the other table
    place.execute(
        "UPDATE dbo.cdc_offsets SET table_name = source_object + N' ' + table_name WHERE table_name = N'sales.Orders'"
    )
    assert tables_under_cdc(place.connection).former == {TableName("sales", "Sales"): "sales.Orders"}
