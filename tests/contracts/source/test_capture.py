"""The promises of ingester/capture_status.py, kept by pymssql on a SQL Server: capture that is stopped, late, failing, or hidden from the login."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic import SecretStr

from common.errors import PermanentError
from common.names import TableName
from common.sqladdress import SqlAddress
from emulators.sqlserver.cdc.faults import capture_failing, capture_lagging
from emulators.sqlserver.engine.server_engine import SqlEngine
from ingester.capture_status import Silence
from ingester.position import Position
from ingester.sqlserver.capture import SqlServerCapture
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.sqlserver.silence import CaptureJobs
from tests.contracts.source.conftest import Log, Places
from tests.contracts.source.test_rights import DIRECT, PASSWORD
from tests.contracts.source.test_source import PERSONS, Place

ORDERS = TableName("dbo", "Orders")


class Observed:
    """A place, and what the product may learn of its capture."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.offsets = SqlServerOffsets(place.connection)
        self.offsets.ensure()
        self.view = SqlServerCapture(place.connection)

    def commit(self, *ids: int) -> None:
        for number in ids:
            self.place.execute(f"INSERT INTO dbo.Persons (ID) VALUES ({number})")

    def read_to(self, position: Position, table: TableName = PERSONS) -> None:
        seen = self.offsets.claim(table, 1).position
        self.offsets.commit(table, 1, seen=seen, position=position)

    def state(self) -> tuple[Silence, str]:
        self.view.retention()
        found = self.view.silence(self.view.times().newest)
        return found.state, found.text


@pytest.fixture
def observed(places: Places) -> Observed:
    return Observed(places())


def age(observed: Observed, seconds: int) -> None:
    """All that was captured so far was committed so long ago."""
    observed.place.execute(
        f"UPDATE cdc.lsn_time_mapping SET tran_end_time = DATEADD(second, -{seconds}, tran_end_time)"
    )


def test_before_the_first_capture_nothing_is_old(observed: Observed) -> None:
    observed.offsets.claim(PERSONS, 1)
    times = observed.view.times()
    assert (times.newest, dict(times.offsets)) == (None, {})


def test_an_offset_is_as_old_as_its_transaction_and_waits_for_the_next_one(observed: Observed) -> None:
    observed.commit(1)
    observed.place.scan()
    first = observed.place.read()[-1].position
    observed.read_to(first)
    observed.read_to(LogPosition.end_of(in_the_log(first).lsn), ORDERS)
    assert observed.view.times().offsets["dbo.Persons"].waiting is None
    age(observed, 900)
    observed.commit(2)
    observed.place.scan()
    age(observed, 100)
    times = observed.view.times()
    assert times.newest is not None
    assert 100 <= times.newest < 200
    for name in ("dbo.Persons", "dbo.Orders"):
        found = times.offsets[name]
        assert 890 <= found.age < 1000
        assert found.waiting is not None
        assert 100 <= found.waiting < 200


def test_an_offset_that_cleanup_overtook_is_as_old_as_the_oldest_entry(observed: Observed) -> None:
    observed.commit(1)
    observed.place.scan()
    age(observed, 500)
    observed.read_to(observed.place.instance().start)
    observed.commit(2)
    observed.place.scan()
    assert 490 <= observed.view.times().offsets["dbo.Persons"].age < 600


def test_the_jobs_tell_interval_and_retention(observed: Observed) -> None:
    observed.place.execute("EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 60")
    observed.place.execute("EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 7")
    assert observed.view.jobs() == CaptureJobs(capture=True, polling=7.0, retention=3600.0)
    observed.place.execute("EXEC sys.sp_cdc_drop_job @job_type = N'cleanup'")
    observed.place.execute("EXEC sys.sp_cdc_change_job @job_type = N'capture', @continuous = 0")
    assert observed.view.jobs() == CaptureJobs(capture=True, polling=None, retention=None)


def test_a_dropped_capture_job_is_told(observed: Observed) -> None:
    observed.place.execute("EXEC sys.sp_cdc_drop_job @job_type = N'capture'")
    state, text = observed.state()
    assert state is Silence.STOPPED
    assert "no capture job" in text


def test_a_capture_that_scans_and_finds_nothing_is_idle(observed: Observed) -> None:
    observed.place.scan()
    state, text = observed.state()
    assert (state, "nothing to read" in text) == (Silence.IDLE, True)


def test_a_database_that_is_not_under_cdc_any_more_is_told(observed: Observed) -> None:
    observed.place.execute("EXEC sys.sp_cdc_disable_db")
    assert observed.view.facts().enabled is False
    with pytest.raises(PermanentError, match="lsn_time_mapping"):
        observed.view.times()
    observed.place.execute("EXEC sys.sp_cdc_enable_db")


def test_a_database_without_a_captured_table_is_idle_and_wants_no_job(observed: Observed) -> None:
    observed.place.execute("EXEC sys.sp_cdc_disable_db")
    observed.place.execute("EXEC sys.sp_cdc_enable_db")
    assert observed.state() == (Silence.IDLE, "nothing to read: no table of the database is under Change Data Capture")


def test_failing_scans_are_told_with_number_and_text(observed: Observed, log: Log) -> None:
    with capture_failing(log(observed.place), "the log is unreadable"):
        with pytest.raises(Exception, match="unreadable"):
            observed.place.scan()
        (error,) = observed.view.facts().errors
        assert (error.number, error.text) == (22859, "the log is unreadable")
        state, text = observed.state()
    assert state is Silence.STOPPED
    assert "its scans fail" in text


def test_a_log_that_another_session_keeps_is_an_error_of_capture_unless_ingesters_scan_it(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that somebody forgot keeps capture from its log: that is the one line that says why it stands."""
    monkeypatch.setattr("ingester.sqlserver.sql.capture.ERRORS", "SELECT 22903, N'another connection is running'")
    (error,) = observed.view.facts().errors
    assert error.number == 22903
    beside = SqlServerCapture(observed.place.connection, beside_scans=True)
    assert beside.facts().errors == ()


def test_the_latency_of_a_capture_that_lags_is_seen(observed: Observed, log: Log) -> None:
    """Held back for a second, which the real server measures in whole ones as well."""
    with capture_lagging(log(observed.place), seconds=1.0):
        observed.commit(1)
        deadline = 200
        while not (scans := observed.view.facts().scans) or not scans[0].transactions:
            observed.place.scan()
            deadline -= 1
            assert deadline
            observed.place.execute("WAITFOR DELAY '00:00:00.050'")
    assert scans[0].latency >= 1
    assert scans[0].ended is not None


@pytest.fixture
def stranger(observed: Observed, engine: SqlEngine) -> Iterator[SqlServerCapture]:
    """A login with the ingester's rights and no others."""
    place = observed.place
    user = f"watcher_{place.login.database}"
    place.execute(f"CREATE LOGIN {user} WITH PASSWORD = N'{PASSWORD}'")
    place.execute(f"CREATE USER watcher FOR LOGIN {user}")
    for grant in (*DIRECT, "SELECT ON OBJECT::dbo.cdc_offsets"):
        place.execute(f"GRANT {grant} TO watcher")
    login = replace(place.login, user=user, password=PASSWORD)
    address = SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))
    view = SqlServerCapture(Connection(address))
    yield view
    view.close()


def test_a_login_with_the_ingesters_rights_learns_of_times_and_no_more(
    observed: Observed, stranger: SqlServerCapture
) -> None:
    observed.commit(1)
    observed.place.scan()
    assert stranger.times().newest is not None
    facts = stranger.facts()
    assert (facts.enabled, facts.scans, facts.errors) == (True, None, ())
    assert stranger.jobs() is None


def test_the_documented_grants_open_the_rest(observed: Observed, stranger: SqlServerCapture) -> None:
    observed.place.scan()
    observed.place.execute("GRANT VIEW DATABASE STATE TO watcher")
    user = f"watcher_{observed.place.login.database}"
    observed.place.execute(
        f"USE msdb; CREATE USER {user} FOR LOGIN {user}; GRANT SELECT ON OBJECT::dbo.cdc_jobs TO {user}"
    )
    observed.place.execute(f"USE {observed.place.login.database}")
    facts = stranger.facts()
    assert facts.scans is not None
    assert facts.scans[0].transactions == 0
    assert stranger.jobs() == CaptureJobs(capture=True, polling=3600.0, retention=4320 * 60.0)
