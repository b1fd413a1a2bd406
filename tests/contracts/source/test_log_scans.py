"""Scans of the log that the ingester asks for: what they capture, when they give way, and what a missing right is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pymssql
import pytest
from pydantic import SecretStr

from common.check import Outcome
from common.errors import PermanentError, TransientError
from common.sqladdress import SqlAddress
from emulators.sqlserver.faults.catalogue import LogTimesLocked
from emulators.sqlserver.server import SqlServerEmulator
from ingester.capture_status import Scanned
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.findings import Session
from ingester.sqlserver.scanning.check import findings
from ingester.sqlserver.scanning.log_scan import SqlServerLogScan
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql.scans import SCAN
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.test_source import Place, what
from tests.worlds.world import wait_until

ROW = "INSERT INTO dbo.Persons (ID) VALUES ({})"


@pytest.fixture
def place(places: Places) -> Place:
    """Its capture job is stopped."""
    return places()


@pytest.fixture
def scans(place: Place) -> Iterator[SqlServerLogScan]:
    with closing(SqlServerLogScan(Connection(Place.address_of(place.login)))) as made:
        yield made


def test_a_scan_captures_what_was_committed_before_it(place: Place, scans: SqlServerLogScan) -> None:
    scans.scan()
    place.execute(ROW.format(1))
    assert scans.scan() is Scanned.CAPTURED
    assert what(place.read()) == [("INSERT", 1)]
    assert scans.scan() is Scanned.EMPTY


def test_the_first_scan_captures_nothing_where_nothing_was_committed(place: Place, scans: SqlServerLogScan) -> None:
    place.execute("EXEC sys.sp_cdc_scan; EXEC sys.sp_replflush")
    assert scans.scan() is Scanned.EMPTY


def test_the_first_scan_captures_what_was_committed_before_it(place: Place, scans: SqlServerLogScan) -> None:
    place.execute(ROW.format(1))
    assert scans.scan() is Scanned.CAPTURED


def test_a_scan_that_meets_another_one_gives_way(place: Place, scans: SqlServerLogScan, log: Log) -> None:
    scans.scan()
    place.execute(ROW.format(1))
    with log(place).scanning(1000):
        assert scans.scan() is Scanned.BUSY
    assert scans.scan() is Scanned.CAPTURED


def test_a_scan_that_gives_way_does_not_wait_for_what_the_other_one_holds(
    server: SqlServerEmulator, place: Place, scans: SqlServerLogScan, log: Log
) -> None:
    """The other one holds the newest row of the log's times until its transaction ends, which may take minutes."""
    scans.scan()
    place.execute(ROW.format(1))
    with log(place).scanning(1000), server.inject(LogTimesLocked()):
        assert scans.scan() is Scanned.BUSY


def test_the_log_is_anybodys_after_a_scan_and_the_connection_stays(
    place: Place, scans: SqlServerLogScan, log: Log
) -> None:
    log(place).options = replace(log(place).options, session_keeps_log=True)
    for _ in range(2):
        scans.scan()
        place.execute("EXEC sys.sp_cdc_scan; EXEC sys.sp_replflush")
    kept = scans._connection._connection
    scans.scan()
    assert kept is scans._connection._connection


def test_a_server_that_cannot_release_the_log_loses_the_connection(
    place: Place, scans: SqlServerLogScan, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(place).options = replace(log(place).options, session_keeps_log=True)
    monkeypatch.setattr("ingester.sqlserver.sql.scans.SCAN", SCAN.replace("sp_replflush", "sp_no_such_procedure"))
    for _ in range(2):
        scans.scan()
        assert scans._connection._connection is None
        wait_until(lambda: _scans(place), "the end of the session is noticed")


def _scans(place: Place) -> bool:
    try:
        place.execute("EXEC sys.sp_cdc_scan; EXEC sys.sp_replflush")
    except pymssql.Error:
        return False
    return True


def test_a_scan_that_leaves_a_transaction_open_is_an_error_and_ends_it(
    place: Place, scans: SqlServerLogScan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ingester.sqlserver.sql.scans.SCAN", SCAN.replace("@maxscans = 10;", "@maxscans = 10; BEGIN TRAN;")
    )
    with pytest.raises(TransientError, match="left a transaction open"):
        scans.scan()
    assert scans._connection._connection is None


def test_a_scan_that_fails_says_what_the_server_says(place: Place, scans: SqlServerLogScan) -> None:
    place.execute("EXEC sys.sp_cdc_disable_db")
    with pytest.raises(TransientError, match=r"scanning the log: .*22901"):
        scans.scan()
    assert scans._connection._connection is None


def test_a_login_that_is_no_owner_learns_which_role_it_needs(place: Place) -> None:
    place.execute("IF SUSER_ID(N'reader') IS NULL CREATE LOGIN reader WITH PASSWORD = N'test-Password-2'")
    place.execute("CREATE USER reader FOR LOGIN reader")
    place.execute(rights.read_changes("reader"))
    login = place.login
    address = SqlAddress(login.host, login.port, None, login.database, "reader", SecretStr("test-Password-2"))
    session = Session(login.database, "reader", "reader")
    with closing(Connection(address)) as connection:
        with pytest.raises(PermanentError, match="22904") as refused:
            SqlServerLogScan(connection).scan()
        assert refused.value.hint == "run ALTER ROLE [db_owner] ADD MEMBER [reader], or remove low_latency"
        (found,) = findings(connection, session)
        assert (found.outcome, found.subject) == (Outcome.WARN, "low latency")
        assert found.text == "the user reader is not a member of db_owner, so the server captures at its own interval"
        assert found.hint == refused.value.hint
        assert found.fix is not None
        for statement in found.fix.commands:
            place.execute(statement)
        place.execute("EXEC sys.sp_cdc_drop_job N'capture'")
        assert [each.outcome for each in findings(connection, session)] == [Outcome.OK]
        assert SqlServerLogScan(connection).scan() in (Scanned.CAPTURED, Scanned.EMPTY)


def test_the_check_warns_of_a_capture_job_that_has_the_log_to_itself(place: Place) -> None:
    login = place.login
    place.execute("EXEC sys.sp_cdc_start_job N'capture'")
    with closing(Connection(Place.address_of(login))) as connection:
        (agent,) = findings(connection, Session(login.database, "dbo", "sa"))
        (service,) = findings(connection, Session(login.database, "dbo", "sa", azure=True))
    assert (agent.outcome, "has the log to itself" in agent.text) == (Outcome.WARN, True)
    assert service.outcome is Outcome.OK


def test_the_check_names_a_capture_job_that_is_stopped(place: Place) -> None:
    session = Session(place.login.database, "dbo", "sa")
    with closing(Connection(Place.address_of(place.login))) as connection:
        (found,) = findings(connection, session)
        assert found.outcome is Outcome.WARN
        assert found.text == "the capture job does not run; only this ingester's scans capture changes"
        assert found.fix is not None
        for statement in found.fix.commands:
            place.execute(statement)
        (found,) = findings(connection, session)
    assert "has the log to itself" in found.text


def test_where_msdb_hides_whether_the_job_runs_the_check_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingester.sqlserver.sql.scans.JOB_RUNS", "SELECT runs FROM msdb.dbo.hidden")
    with closing(Connection(Place.address_of(place.login))) as connection:
        (found,) = findings(connection, Session(place.login.database, "dbo", "sa"))
    assert (found.outcome, "may not see" in found.text) == (Outcome.WARN, True)
