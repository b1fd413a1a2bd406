"""The promises of ingester/source.py, kept by pymssql on a SQL Server (the emulator; a real one needs the same statements)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from common.errors import PermanentError, TransientError
from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.change import Change
from ingester.source import PageQuery, ProbeRequest
from ingester.sqlserver.change_table import ChangeTable, change_table
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.sqlserver.source import SqlServerSource
from tests.conftest import PASSWORD, USER
from tests.worlds.ports import free_port

PERSONS = TableName("dbo", "Persons")


class Place:
    """A database under CDC with dbo.Persons (ID the key, Name, Bio nvarchar(max)), read by a source."""

    def __init__(self, login: Login, **options: Any) -> None:
        self.login = login
        self._client = login.connect()
        self._cursor = self._client.cursor()
        self.connection = Connection(self.address_of(login))
        self.source = SqlServerSource(self.connection, **options)
        self.execute("EXEC sys.sp_cdc_enable_db")
        self.execute("CREATE TABLE dbo.Persons (ID INT PRIMARY KEY, Name NVARCHAR(50) NULL, Bio NVARCHAR(MAX) NULL)")

    @staticmethod
    def address_of(login: Login) -> SqlAddress:
        """What the source logs in with; the test itself always logs in with the password."""
        return SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))

    def execute(self, sql: str) -> None:
        self._cursor.execute(sql)

    def answers(self, sql: str) -> list[str]:
        """The first column of the first row of each result set."""
        self._cursor.execute(sql)
        found = [self._cursor.fetchone()[0]]
        while self._cursor.nextset():
            found.append(self._cursor.fetchone()[0])
        return found

    def enable(self, schema: str = "dbo", table: str = "Persons", **more: str) -> None:
        extra = "".join(f", @{name} = N'{value}'" for name, value in more.items())
        self.execute(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{table}', @role_name = NULL{extra}"
        )

    def instance(self, table: TableName = PERSONS) -> ChangeTable:
        return change_table(self.source.states([table])[table].instances[0])

    def scan(self) -> None:
        self.execute("EXEC sys.sp_cdc_scan")

    def read(self, rows: int = 100, table: TableName = PERSONS) -> list[Change]:
        """Everything, in pages of `rows`."""
        instance = self.instance(table)
        probe = self.source.probe([ProbeRequest(instance, None)])
        assert probe.upto is not None
        after, upto = instance.start, probe.upto
        found: list[Change] = []
        while True:
            page = self.source.page(PageQuery(instance, after=after, upto=upto, rows=rows))
            found += page.changes
            if page.end is None or not page.full:
                return found
            after = page.end

    def close(self) -> None:
        self.connection.close()
        self._client.close()


@pytest.fixture
def place(login: Login) -> Iterator[Place]:
    made = Place(login)
    yield made
    made.close()


def what(changes: list[Change]) -> list[tuple[str, Any]]:
    return [(change.operation.name, change.data["ID"]) for change in changes]


def test_a_missing_table_and_one_without_cdc_are_answers_not_errors(place: Place) -> None:
    missing = TableName("dbo", "Nobody")
    states = place.source.states([PERSONS, missing])
    assert (states[PERSONS].exists, states[PERSONS].instances) == (True, ())
    assert (states[missing].exists, states[missing].instances) == (False, ())


def test_a_capture_instance_is_found_whatever_it_is_called(place: Place) -> None:
    place.enable(capture_instance="odd name")
    instance = place.instance()
    assert (instance.name, instance.change_table, instance.has_command_id) == ("odd name", "odd name_CT", True)
    assert [(c.name, c.type, c.ordinal, c.large, c.key_ordinal) for c in instance.columns] == [
        ("ID", "int", 1, False, 1),
        ("Name", "nvarchar", 2, False, None),
        ("Bio", "nvarchar", 3, True, None),
    ]


def test_configured_names_are_matched_as_the_database_compares_them(place: Place) -> None:
    place.enable()
    shouted = TableName("DBO", "PERSONS")
    assert place.source.states([shouted])[shouted].instances[0].table == PERSONS


def test_before_the_first_capture_there_is_no_max_lsn_or_nothing_pending(place: Place) -> None:
    place.enable()
    probe = place.source.probe([ProbeRequest(place.instance(), None)])
    assert not probe.answers["dbo_Persons"].pending


def test_a_probe_tells_for_every_table_whether_it_holds_anything_past_its_offset(place: Place) -> None:
    place.execute("CREATE TABLE dbo.Quiet (ID INT PRIMARY KEY)")
    place.enable()
    place.enable(table="Quiet")
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    quiet = place.instance(TableName("dbo", "Quiet"))
    probe = place.source.probe([ProbeRequest(place.instance(), None), ProbeRequest(quiet, None)])
    assert (probe.answers["dbo_Persons"].pending, probe.answers["dbo_Quiet"].pending) == (True, False)
    last = place.read()[-1].position
    again = place.source.probe([ProbeRequest(place.instance(), last)])
    assert again.answers["dbo_Persons"].pending is False
    assert again.answers["dbo_Persons"].low_watermark is not None


def test_a_change_captured_after_the_probe_waits_for_the_next_window(place: Place) -> None:
    place.enable()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    probe = place.source.probe([ProbeRequest(place.instance(), None)])
    assert probe.upto is not None
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    start = place.instance().start
    page = place.source.page(PageQuery(place.instance(), after=start, upto=probe.upto, rows=10))
    assert what(list(page.changes)) == [("INSERT", 1)]


def test_a_window_that_ends_before_a_transaction_leaves_it_out(place: Place) -> None:
    place.enable()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (2)")
    place.scan()
    second = in_the_log(place.read()[1].position).lsn
    start = place.instance().start
    page = place.source.page(PageQuery(place.instance(), after=start, upto=LogPosition.before(second), rows=10))
    assert what(list(page.changes)) == [("INSERT", 1)]


def test_commit_times_are_utc_with_milliseconds(place: Place) -> None:
    place.enable()
    place.execute("INSERT INTO dbo.Persons (ID) VALUES (1)")
    place.scan()
    time = place.read()[0].commit_time
    assert time is not None
    assert len(time) == len("2018-07-13T13:23:45.780Z")
    assert (time[10], time[19], time[-1]) == ("T", ".", "Z")


def test_a_login_that_is_refused_is_permanent_and_names_no_password(sqlserver: SqlServerEmulator) -> None:
    connection = Connection(SqlAddress("127.0.0.1", sqlserver.port, None, "master", "sa", SecretStr("wrong-Password")))
    with pytest.raises(PermanentError, match="login refused for user 'sa'") as caught:
        connection.rows("SELECT 1")
    assert "wrong-Password" not in str(caught.value)
    connection.close()


def test_a_server_that_is_away_is_transient(sqlserver: SqlServerEmulator) -> None:
    connection = Connection(SqlAddress("127.0.0.1", 9, None, "master", "sa", SecretStr("x")))
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:9: the server cannot be reached"):
        connection.rows("SELECT 1")
    connection.close()


def test_a_lost_connection_is_opened_again_at_the_next_use() -> None:
    engine = build_engine(users={"sa": "pw-Long-1"})
    first = SqlServerEmulator(engine, port=free_port())
    first.start()
    connection = Connection(SqlAddress("127.0.0.1", first.port, None, "master", "sa", SecretStr("pw-Long-1")))
    assert connection.rows("SELECT 1") == [(1,)]
    first.stop()
    with SqlServerEmulator(engine, port=first.port):
        with pytest.raises(TransientError):
            connection.rows("SELECT 1")
        assert connection.rows("SELECT 1") == [(1,)]
        connection.close()
    engine.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, "dstream ingester"), ({"app_name": "orders"}, "orders")],
    ids=["our own", "the address's"],
)
def test_a_connection_calls_itself_as_the_address_says(
    sqlserver: SqlServerEmulator, options: dict[str, str], told: str
) -> None:
    connection = Connection(
        SqlAddress("127.0.0.1", sqlserver.port, None, "master", USER, SecretStr(PASSWORD), options=options)
    )
    sql = "SELECT program_name FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    assert connection.rows(sql) == [(told,)]
    connection.close()
