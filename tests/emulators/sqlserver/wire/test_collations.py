"""Collations as unmodified drivers see them: text in the code page of its column, names and comparisons of a database, changes
captured there, and what the ingester reads of them. On the emulator and, where DSTREAM_TEST_SQLSERVER names one, on a real server.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pymssql
import pytds
import pytest
from pydantic import SecretStr

from common.names import TableName
from common.sqladdress import SqlAddress
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.change import Change
from ingester.source import PageQuery, ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.source import SqlServerSource

Connect = Callable[[str], Any]


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    """Where to connect: the real server (sqlserver://user:password@host:port), or an emulator."""
    address = os.environ.get("DSTREAM_TEST_SQLSERVER")
    if address:
        parts = urlsplit(address)
        yield {
            "server": parts.hostname or "",
            "port": str(parts.port or 1433),
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
        }
        return
    with closing(build_engine(users={"sa": "secret"})) as engine, SqlServerEmulator(engine) as server:
        yield {"server": "127.0.0.1", "port": str(server.port), "user": "sa", "password": "secret"}


@pytest.fixture(params=["pymssql", "pytds"])
def connect(request: pytest.FixtureRequest, options: dict[str, Any]) -> Connect:
    if request.param == "pymssql":
        return lambda database: pymssql.connect(**options, database=database, autocommit=True, charset="UTF-8")
    return lambda database: pytds.connect(
        options["server"],
        database,
        options["user"],
        options["password"],
        port=int(options["port"]),
        autocommit=True,
    )


@contextmanager
def database(connect: Connect, collation: str) -> Iterator[Any]:
    """A connection to a new database of this collation, which goes with it."""
    name = f"collated_{uuid.uuid4().hex[:12]}"
    with closing(connect("master")) as connection:
        execute(connection, f"CREATE DATABASE {name} COLLATE {collation}")
        execute(connection, f"USE {name}")
        try:
            yield connection
        finally:
            if rows(connection, "SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()") == [(True,)]:
                execute(connection, "EXEC sys.sp_cdc_disable_db")
            execute(connection, "USE master")
            execute(connection, f"DROP DATABASE {name}")


def execute(connection: Any, sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)


def rows(connection: Any, sql: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return [tuple(row) for row in cursor.fetchall()]


def error(connection: Any, sql: str) -> int:
    with pytest.raises((pymssql.Error, pytds.Error)) as refused:
        rows(connection, sql)
    number = getattr(refused.value, "number", 0) or refused.value.args[0]
    return int(number)


@pytest.mark.parametrize(
    ("collation", "text"),
    [
        ("Turkish_CI_AS", "ığüşöçİĞ"),
        ("Cyrillic_General_CI_AS", "Привет"),
        ("Greek_CS_AS", "Ωμέγα"),
        ("Polish_BIN2", "żółć"),
        ("Japanese_CI_AS", "日本語テ"),
        ("SQL_Latin1_General_CP1254_CI_AS", "şİ"),
    ],
)
def test_varchar_travels_in_the_code_page_of_its_column(connect: Connect, collation: str, text: str) -> None:
    with closing(connect("master")) as connection:
        travels(connection, collation, text)


def test_utf_8_travels_as_such_to_a_driver_that_knows_it(options: dict[str, Any]) -> None:
    """python-tds does not: it takes the bytes for those of the locale's code page."""
    with closing(pymssql.connect(**options, autocommit=True)) as connection:
        travels(connection, "Latin1_General_100_CI_AS_SC_UTF8", "ß中ğ\U0001f600")


def travels(connection: Any, collation: str, text: str) -> None:
    execute(connection, f"CREATE TABLE #t (a varchar(40) COLLATE {collation}, b varchar(max) COLLATE {collation})")
    execute(connection, f"INSERT INTO #t VALUES (N'{text}', N'{text}')")
    assert rows(connection, "SELECT a, b, CAST(a AS nvarchar(40)) FROM #t") == [(text, text, text)]


def test_varchar_literals_and_parameters_keep_what_the_databases_code_page_has(connect: Connect) -> None:
    with database(connect, "Turkish_CI_AS") as connection:
        execute(connection, "CREATE TABLE dbo.Names (Ad varchar(20))")
        execute(connection, "INSERT INTO dbo.Names VALUES ('ığşİ'), ('hz')")
        execute(connection, "INSERT INTO dbo.Names VALUES (%s)", "ŞIŞLİ")
        assert rows(connection, "SELECT Ad FROM dbo.Names ORDER BY Ad") == [("hz",), ("ığşİ",), ("ŞIŞLİ",)]
        assert rows(connection, "SELECT Ad FROM dbo.Names WHERE Ad = 'IĞŞi'") == [("ığşİ",)]
        assert rows(connection, "SELECT Ad FROM dbo.Names WHERE Ad = %s", "şışli") == [("ŞIŞLİ",)]


def test_using_another_database_changes_the_collation_of_literals(connect: Connect) -> None:
    same = "SELECT CASE WHEN 'i' = 'I' THEN 1 ELSE 0 END, 'ş'"
    with database(connect, "Turkish_CI_AS") as connection:
        assert rows(connection, same) == [(0, "ş")]
        execute(connection, "USE master")
        assert rows(connection, same) == [(1, "?")]
        execute(connection, "USE tempdb")


def test_a_binary_database_tells_names_and_values_apart_by_case(connect: Connect) -> None:
    with database(connect, "Latin1_General_BIN2") as connection:
        execute(connection, "CREATE TABLE dbo.Persons (ID int NOT NULL PRIMARY KEY, Name nvarchar(20) NOT NULL UNIQUE)")
        execute(connection, "CREATE TABLE dbo.persons (ID int)")
        execute(connection, "INSERT INTO dbo.Persons VALUES (1, N'a'), (2, N'A')")
        assert error(connection, "INSERT INTO dbo.Persons VALUES (3, N'a')") == 2627
        assert rows(connection, "SELECT ID FROM dbo.Persons WHERE Name = N'A'") == [(2,)]
        assert rows(connection, "SELECT Name FROM dbo.Persons ORDER BY Name") == [("A",), ("a",)]
        assert rows(connection, "SELECT count(*) FROM dbo.persons") == [(0,)]
        assert error(connection, "SELECT 1 FROM dbo.PERSONS") == 208
        assert error(connection, "SELECT id FROM dbo.Persons") == 207
        assert rows(connection, "SELECT collation_name FROM sys.databases WHERE name = DB_NAME()") == [
            ("Latin1_General_BIN2",)
        ]


def test_a_collation_that_does_not_exist_is_refused(connect: Connect) -> None:
    with closing(connect("master")) as connection:
        assert error(connection, "SELECT 'a' COLLATE Nowhere_CI_AS") == 448
        assert error(connection, "CREATE TABLE #t (a varchar(3) COLLATE Nowhere_CI_AS)") == 448
        execute(
            connection, "CREATE TABLE #u (a varchar(3) COLLATE Greek_CI_AS, b varchar(3) COLLATE Latin1_General_CS_AS)"
        )
        assert error(connection, "SELECT 1 FROM #u WHERE a = b") == 468


# -- captured changes


@pytest.mark.parametrize("collation", ["Latin1_General_BIN2", "Turkish_CI_AS", "Latin1_General_CS_AS"])
def test_changes_are_captured_under_every_collation(connect: Connect, collation: str) -> None:
    """Keys that only a collation like these tells apart; a change of case is a change."""
    with database(connect, collation) as connection:
        execute(connection, "EXEC sys.sp_cdc_enable_db")
        execute(
            connection,
            "CREATE TABLE dbo.Items (ID nvarchar(9) NOT NULL PRIMARY KEY, Info varchar(20) COLLATE Greek_CI_AS)",
        )
        execute(
            connection, "EXEC sys.sp_cdc_enable_table N'dbo', N'Items', @role_name = NULL, @supports_net_changes = 1"
        )
        execute(connection, "INSERT INTO dbo.Items VALUES (N'I', N'ω')")
        execute(connection, "INSERT INTO dbo.Items VALUES (N'i', N'b')")
        execute(connection, "UPDATE dbo.Items SET Info = N'Ω' WHERE ID = N'I' AND Info = N'Ω'")
        execute(connection, "EXEC sys.sp_cdc_scan")
        window = "sys.fn_cdc_get_min_lsn(N'dbo_Items'), sys.fn_cdc_get_max_lsn()"
        assert rows(
            connection,
            "SELECT [__$operation], ID, Info, sys.fn_cdc_has_column_changed(N'dbo_Items', N'Info', [__$update_mask]) "
            f"FROM cdc.fn_cdc_get_all_changes_dbo_Items({window}, N'all update old') "
            "ORDER BY [__$start_lsn], [__$seqval], [__$operation]",
        ) == [(2, "I", "ω", True), (2, "i", "b", True), (3, "I", "ω", True), (4, "I", "Ω", True)]
        assert rows(
            connection,
            f"SELECT [__$operation], ID, Info FROM cdc.fn_cdc_get_net_changes_dbo_Items({window}, N'all') ORDER BY Info DESC",
        ) == [(2, "I", "Ω"), (2, "i", "b")]
        assert rows(
            connection,
            "SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID(N'cdc.dbo_Items_CT') "
            "AND name IN (N'ID', N'Info')",
        ) == [(collation,), ("Greek_CI_AS",)]


def test_capture_instances_of_tables_that_differ_in_case_are_two(connect: Connect) -> None:
    with database(connect, "Latin1_General_BIN2") as connection:
        execute(connection, "EXEC sys.sp_cdc_enable_db")
        for number, table in enumerate(("Items", "items")):
            execute(connection, f"CREATE TABLE dbo.{table} (ID int NOT NULL PRIMARY KEY)")
            execute(connection, f"EXEC sys.sp_cdc_enable_table N'dbo', N'{table}', @role_name = NULL")
            execute(connection, f"INSERT INTO dbo.{table} VALUES ({number})")
        execute(connection, "EXEC sys.sp_cdc_scan")
        assert rows(connection, "SELECT ID FROM cdc.dbo_Items_CT") == [(0,)]
        assert rows(connection, "SELECT ID FROM cdc.dbo_items_CT") == [(1,)]
        assert rows(connection, "SELECT capture_instance FROM cdc.change_tables ORDER BY capture_instance") == [
            ("dbo_Items",),
            ("dbo_items",),
        ]


@pytest.mark.parametrize(
    ("collation", "spelled", "letter"),
    [
        ("Latin1_General_BIN2", "Items", "?"),
        ("Turkish_CI_AS", "ITEMS", "ş"),
        ("Latin1_General_100_CI_AS_SC_UTF8", "ITEMS", "ş"),
    ],
)
def test_the_ingester_reads_databases_of_any_collation(
    options: dict[str, Any], collation: str, spelled: str, letter: str
) -> None:
    """`spelled`: how the configuration may write the table's name; `letter`: what a varchar keeps of a letter s with a cedilla."""
    with database(lambda name: pymssql.connect(**options, database=name, autocommit=True), collation) as connection:
        execute(connection, "EXEC sys.sp_cdc_enable_db")
        execute(connection, "CREATE TABLE dbo.Items (ID int NOT NULL PRIMARY KEY, Info varchar(20), Name nvarchar(20))")
        execute(connection, "EXEC sys.sp_cdc_enable_table N'dbo', N'Items', @role_name = NULL")
        execute(connection, "INSERT INTO dbo.Items VALUES (1, N'ş', N'İ')")
        execute(connection, "UPDATE dbo.Items SET Name = N'i'")
        execute(connection, "EXEC sys.sp_cdc_scan")
        ((name,),) = rows(connection, "SELECT DB_NAME()")
        address = SqlAddress(
            options["server"], int(options["port"]), None, name, options["user"], SecretStr(options["password"])
        )
        with closing(Connection(address)) as its:
            source = SqlServerSource(its)
            table = TableName("dbo", spelled)
            assert [(change.operation.name, change.data) for change in read(source, table)] == [
                ("INSERT", {"ID": 1, "Info": letter, "Name": "İ"}),
                ("UPDATE", {"ID": 1, "Info": letter, "Name": "i"}),
            ]
            other = TableName("dbo", "ITEMS")
            assert source.states([other])[other].exists is (collation != "Latin1_General_BIN2")


def read(source: SqlServerSource, table: TableName) -> list[Change]:
    (instance,) = source.states([table])[table].instances
    probe = source.probe([ProbeRequest(instance, None)])
    assert probe.upto is not None
    after, upto = instance.start, probe.upto
    return list(source.page(PageQuery(instance, after=after, upto=upto, rows=100)).changes)
