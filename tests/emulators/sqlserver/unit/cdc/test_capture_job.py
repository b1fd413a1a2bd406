"""The capture job's thread and its rhythm. Sources: the pages sys.sp_cdc_add_job, sp_cdc_change_job, sp_cdc_stop_job (D)."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from emulators.sqlserver.cdc import metadata
from emulators.sqlserver.cdc.capture import capture
from emulators.sqlserver.cdc.capture.capture import CaptureJob
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.results import Cancel, SqlError
from tests.emulators.sqlserver.unit.cdc.conftest import INT, Lab, person
from tests.fakes.sql_database import FakeSqlDatabase


def state_of(lab: Lab) -> DatabaseCdc:
    found = lab.extension.find(lab.database)
    assert found is not None
    return found


def job_of(lab: Lab, idle: float = 300.0) -> CaptureJob:
    """A job that is driven by hand, cycle by cycle."""
    state = state_of(lab)
    return CaptureJob(state, state.job_settings(), idle, lambda: lab.seconds)


def captured(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a scan has moved something."""
    done = threading.Event()
    original: Callable[..., int] = capture.scan_once

    def scan_once(*arguments: object) -> int:
        moved = original(*arguments)
        if moved:
            done.set()
        return moved

    monkeypatch.setattr(capture, "scan_once", scan_once)
    return done


def test_the_job_starts_with_the_first_enabled_table_and_captures_by_itself(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D."""
    done = captured(lab, monkeypatch)
    state_of(lab).options = CdcOptions(capture_interval=0.01)
    lab.run("sp_cdc_enable_table", source_schema="dbo", source_name="Persons", role_name=None)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    assert done.wait(10)
    assert len(lab.changes()) == 1


def test_a_stopped_job_captures_nothing_and_a_started_one_catches_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """D."""
    lab.enable()
    done = captured(lab, monkeypatch)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    assert not state_of(lab).job_running
    lab.run("sp_cdc_start_job", job_type="capture")
    assert done.wait(10)
    lab.run("sp_cdc_stop_job", job_type="capture")
    assert not state_of(lab).job_running
    assert len(lab.changes()) == 1


def test_starting_a_running_job_and_stopping_a_stopped_one_are_refused(lab: Lab) -> None:
    """SQL Server Agent's error 22022."""
    lab.enable()
    lab.run("sp_cdc_start_job")
    with pytest.raises(SqlError, match="already running"):
        lab.run("sp_cdc_start_job")
    lab.run("sp_cdc_stop_job")
    with pytest.raises(SqlError, match="not currently running"):
        lab.run("sp_cdc_stop_job")


def test_an_idle_log_gets_an_entry_without_transaction(lab: Lab) -> None:
    """D: entries without changes are possible; Debezium filters those with tran_id 0x00."""
    lab.enable()
    job = job_of(lab)
    lab.seconds = 299.0
    job.cycle()
    assert lab.entries() == []
    lab.seconds = 300.0
    job.cycle()
    job.cycle()
    (entry,) = lab.entries()
    assert entry["tran_id"] == b"\0"
    assert lab.call("fn_cdc_get_max_lsn") == entry["start_lsn"]


def test_a_captured_transaction_puts_off_the_idle_entry(lab: Lab) -> None:
    lab.enable()
    job = job_of(lab)
    lab.seconds = 200.0
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    job.cycle()
    lab.seconds = 400.0
    job.cycle()
    assert [e["tran_id"] == b"\0" for e in lab.entries()] == [False]


def test_an_idle_entry_never_overtakes_a_waiting_transaction(lab: Lab) -> None:
    """Its LSN would make readers believe that capture had come further than it has."""
    lab.enable()
    job = job_of(lab)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    state_of(lab).take_waiting_work()
    lab.seconds = 1000.0
    job.cycle()
    assert lab.entries() == []


def test_a_scan_that_reaches_its_limit_is_followed_by_another(lab: Lab) -> None:
    lab.enable()
    lab.run("sp_cdc_change_job", maxtrans=1, maxscans=1)
    job = job_of(lab)
    for number in range(3):
        with lab.database.transaction() as t:
            t.insert("Persons", person(number))
    for expected in (1, 2, 3):
        job.cycle()
        assert len(lab.changes()) == expected


def test_a_stopped_job_finishes_no_scan(lab: Lab) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    job = job_of(lab)
    job.stop()
    job.cycle()
    assert lab.changes() == []


def test_job_defaults_are_microsofts(tmp_path: Path) -> None:
    """D: pollinginterval 5, maxtrans 500, maxscans 10, retention 4320, threshold 5000."""
    lab = Lab(tmp_path / "other.sqlite")
    try:
        lab.extension._options = CdcOptions()
        lab.database.define("Persons", {"ID": INT}, key=["ID"])
        lab.run("sp_cdc_enable_db")
        lab.enable()
        capturing, cleanup = lab.rows_of("sp_cdc_help_jobs")
    finally:
        lab.close()
    assert (capturing["job_type"], capturing["job_name"]) == ("capture", "cdc.demo_capture")
    assert (capturing["maxtrans"], capturing["maxscans"], capturing["continuous"], capturing["pollinginterval"]) == (
        500,
        10,
        1,
        5,
    )
    assert (cleanup["job_type"], cleanup["retention"], cleanup["threshold"]) == ("cleanup", 4320, 5000)


def test_a_changed_job_keeps_running_with_its_old_settings_until_it_is_restarted(lab: Lab) -> None:
    """D: changes take effect after stop and start."""
    lab.enable()
    lab.run("sp_cdc_start_job")
    running = state_of(lab)._job
    lab.run("sp_cdc_change_job", job_type="capture", pollinginterval=1, maxtrans=7)
    capturing, _ = lab.rows_of("sp_cdc_help_jobs")
    assert (capturing["pollinginterval"], capturing["maxtrans"]) == (1, 7)
    assert running is not None
    assert running._settings.maxtrans == 500
    lab.run("sp_cdc_stop_job")
    lab.run("sp_cdc_start_job")
    restarted = state_of(lab)._job
    assert restarted is not None
    assert (restarted._settings.polling_interval, restarted._settings.maxtrans) == (1.0, 7)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ({"job_type": "other"}, 22992),
        ({"maxtrans": 0}, 22991),
        ({"maxscans": 0}, 22970),
        ({"pollinginterval": 86400}, 22990),
        ({"continuous": 2}, 22998),
        ({"retention": 10}, 22995),
        ({"job_type": "cleanup", "maxtrans": 5}, 22996),
        ({"job_type": "cleanup", "retention": 0}, 22994),
    ],
)
def test_bad_job_settings_are_refused(lab: Lab, arguments: dict[str, int | str], number: int) -> None:
    """D: errors 22970, 22990 to 22998."""
    lab.enable()
    with pytest.raises(SqlError) as refused:
        lab.run("sp_cdc_change_job", **arguments)
    assert refused.value.number == number


def test_closing_the_extension_stops_every_capture_thread(lab: Lab) -> None:
    lab.enable()
    lab.run("sp_cdc_start_job")
    lab.extension.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "cdc.demo_capture"]


def test_a_job_ends_when_its_database_is_closed(lab: Lab) -> None:
    lab.enable()
    state = state_of(lab)
    job = CaptureJob(state, replace(state.job_settings(), polling_interval=0.001), 300.0, lambda: lab.seconds)
    lab.database.close()
    state.work_waits()
    job.start()
    job._thread.join(10)
    assert not job.running


def test_a_failed_scan_is_tried_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.enable()
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    job = job_of(lab)
    with monkeypatch.context() as patched:
        patched.setattr("emulators.sqlserver.cdc.log_store.forget", _broken)
        with pytest.raises(sqlite3.OperationalError):
            job.cycle()
    job.cycle()
    assert len(lab.changes()) == 1


def _broken(connection: sqlite3.Connection, up_to: bytes) -> None:
    raise sqlite3.OperationalError("disk I/O error")


def test_nothing_is_lost_between_writers_the_job_and_readers(lab: Lab) -> None:
    """D: rows and their entry appear together; a transaction has one LSN."""
    state = state_of(lab)
    state.options = replace(state.options, capture_interval=0.001)
    lab.enable()
    lab.run("sp_cdc_start_job")
    done = threading.Event()

    def write(writer: int) -> None:
        for number in range(25):
            with lab.database.transaction() as t:
                for row in range(2):
                    t.insert("Persons", person(writer * 1000 + number * 10 + row))

    def torn() -> int:
        """Commit LSNs that a single read finds on one side only, or with half of their rows."""
        changed, mapped = (metadata.storage(lab.database, name) for name in ("dbo_Persons_CT", "lsn_time_mapping"))
        query = (
            f'SELECT "__$start_lsn" FROM {changed} GROUP BY 1 HAVING COUNT(*) <> 2 '
            f'UNION ALL SELECT "__$start_lsn" FROM {changed} WHERE "__$start_lsn" NOT IN (SELECT start_lsn FROM {mapped}) '
            f'UNION ALL SELECT start_lsn FROM {mapped} WHERE start_lsn NOT IN (SELECT "__$start_lsn" FROM {changed})'
        )
        found = 0
        while not done.wait(0.001):
            found += len(lab.database.reader().execute(query).fetchall())
        return found

    with ThreadPoolExecutor(5) as pool:
        watching = pool.submit(torn)
        for writer in [pool.submit(write, number) for number in range(4)]:
            writer.result()
        done.set()
        assert watching.result() == 0
    lab.scan()
    changes = lab.changes()
    assert len(changes) == 200
    assert set(Counter(c["__$start_lsn"] for c in changes).values()) == {2}
    assert [e["start_lsn"] for e in lab.entries()] == sorted({c["__$start_lsn"] for c in changes})


def test_there_is_no_job_before_the_first_table_is_enabled(lab: Lab) -> None:
    """D: 22997."""
    with pytest.raises(SqlError) as refused:
        lab.run("sp_cdc_start_job")
    assert refused.value.number == 22997


def test_a_job_that_is_not_continuous_scans_once(lab: Lab) -> None:
    """D: @continuous = 0 sets the polling interval to 0."""
    lab.enable()
    lab.run("sp_cdc_change_job", continuous=0, pollinginterval=9)
    capturing, _ = lab.rows_of("sp_cdc_help_jobs")
    assert (capturing["continuous"], capturing["pollinginterval"]) == (0, 0)
    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    job = job_of(lab)
    job.start()
    job._thread.join(10)
    assert not job.running
    assert len(lab.changes()) == 1


def test_a_job_can_be_stopped_while_a_user_holds_the_writer_lock(lab: Lab) -> None:
    """It waits for the lock then; once it gets it, it must not write any more."""
    lab.enable()
    state = state_of(lab)
    waiting = threading.Event()

    class Watched(FakeSqlDatabase):
        @contextmanager
        def writer(self, gives_way: Cancel | None = None) -> Iterator[sqlite3.Connection]:
            waiting.set()
            with super().writer(gives_way) as connection:
                yield connection

    with lab.database.transaction() as t:
        t.insert("Persons", person(1))
    with lab.database.transaction():
        lab.database.__class__ = Watched
        state.start_job()
        job = state._job
        assert job is not None
        assert waiting.wait(10)
        assert state.stop_job()
    job._thread.join(10)
    assert not job._thread.is_alive()
    assert lab.changes() == []
