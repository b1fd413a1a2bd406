"""What scans leave in sys.dm_cdc_log_scan_sessions and sys.dm_cdc_errors, whose turn a scan is, and faults of capture.

Sources: the pages of the two views (D); error 22903 (D: the list of errors; measured, M).
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from emulators.sqlserver.cdc.capture.capture import CaptureJob
from emulators.sqlserver.cdc.capture.scan_sessions import ScanSessions, lsn_text
from emulators.sqlserver.cdc.capture.scan_turn import ScanTurn
from emulators.sqlserver.cdc.database import DatabaseCdc
from emulators.sqlserver.cdc.faults import capture_failing, capture_lagging, capture_stopped
from emulators.sqlserver.cdc.options import CdcOptions
from emulators.sqlserver.results import SqlError
from tests.emulators.sqlserver.unit.cdc.conftest import INT, Lab, person
from tests.fakes.sql_database import Named


def state_of(lab: Lab) -> DatabaseCdc:
    found = lab.extension.find(lab.database)
    assert found is not None
    return found


def enable(lab: Lab) -> None:
    """Without what the job's first cycle leaves."""
    lab.enable()
    state_of(lab).sessions = ScanSessions(lab.time)


def view(lab: Lab, name: str) -> list[Named]:
    found = lab.extension.views()[name]
    names = [column.name for column in found.columns]
    return [dict(zip(names, row, strict=True)) for row in found.call(lab.context, ())]


def sessions(lab: Lab) -> list[Named]:
    return view(lab, "sys.dm_cdc_log_scan_sessions")


def insert(lab: Lab, *numbers: int) -> None:
    for number in numbers:
        with lab.database.transaction() as t:
            t.insert("Persons", person(number))


def job_of(lab: Lab) -> CaptureJob:
    return CaptureJob(state_of(lab), state_of(lab).job_settings(), 300.0, lambda: lab.seconds)


def test_before_the_first_scan_there_is_only_the_aggregate(lab: Lab) -> None:
    """D: session_id 0 is always there."""
    (aggregate,) = sessions(lab)
    assert (aggregate["session_id"], aggregate["scan_phase"], aggregate["end_time"]) == (0, "Aggregate", None)
    assert aggregate["start_time"] == lab.time


def test_a_session_tells_what_it_moved(lab: Lab) -> None:
    """D."""
    enable(lab)
    insert(lab, 1, 2)
    lab.time = "2026-01-02 03:04:15.000"
    lab.scan()
    aggregate, session = sessions(lab)
    last = lab.entries()[-1]
    assert (session["session_id"], session["scan_phase"], session["error_count"]) == (1, "Done", 0)
    assert (session["tran_count"], session["command_count"], session["log_record_count"]) == (2, 2, 6)
    assert session["last_commit_cdc_lsn"] == lsn_text(last["start_lsn"])
    assert session["last_commit_cdc_time"] == last["tran_end_time"]
    assert session["end_time"] == lab.time
    assert session["latency"] == 9
    assert session["empty_scan_count"] == 0
    assert (aggregate["tran_count"], aggregate["latency"], aggregate["failed_sessions_count"]) == (2, 9, 0)


def test_lsns_are_shown_as_three_numbers() -> None:
    """D: nvarchar(23)."""
    assert lsn_text(bytes.fromhex("0000002d00000580001d")) == "0000002d:00000580:001d\0"


def test_sessions_without_transactions_are_counted_in_one_row(lab: Lab) -> None:
    """D: empty_scan_count counts consecutive sessions without transactions. That they share a row is unverified."""
    enable(lab)
    for _ in range(3):
        lab.scan()
    insert(lab, 1)
    lab.scan()
    lab.scan()
    assert [(s["empty_scan_count"], s["tran_count"]) for s in sessions(lab)[1:]] == [(3, 0), (0, 1), (1, 0)]


def test_the_job_counts_the_polls_that_find_nothing(lab: Lab) -> None:
    """A reader may wait for a completed empty scan to know that capture has come to the end of the log."""
    enable(lab)
    job = job_of(lab)
    insert(lab, 1)
    for _ in range(3):
        job.cycle()
    assert [(s["empty_scan_count"], s["tran_count"]) for s in sessions(lab)[1:]] == [(0, 1), (2, 0)]


def test_schema_changes_are_counted(lab: Lab) -> None:
    """D."""
    enable(lab)
    with lab.database.transaction() as t:
        t.add_column("Persons", "Age", INT)
    lab.scan()
    assert sessions(lab)[-1]["schema_change_count"] == 1


def test_a_failing_capture_moves_nothing_and_tells_why(lab: Lab) -> None:
    """D: sys.dm_cdc_errors has a row an error."""
    enable(lab)
    insert(lab, 1)
    with capture_failing(state_of(lab), "log record unreadable"):
        with pytest.raises(SqlError, match="log record unreadable"):
            lab.scan()
        with pytest.raises(SqlError):
            job_of(lab).cycle()
    assert lab.changes() == []
    found = [(e["session_id"], e["error_number"], e["error_message"]) for e in view(lab, "sys.dm_cdc_errors")]
    assert found == [(number, 22859, "log record unreadable") for number in (1, 2)]
    assert sessions(lab)[0]["failed_sessions_count"] == 2
    lab.scan()
    assert len(lab.changes()) == 1
    assert [s["failed_sessions_count"] for s in sessions(lab)[1:]] == [1, 1, 0]


def test_errors_are_kept_for_32_sessions(lab: Lab) -> None:
    """D."""
    enable(lab)
    with capture_failing(state_of(lab)):
        for _ in range(40):
            with pytest.raises(SqlError):
                lab.scan()
    assert [e["session_id"] for e in view(lab, "sys.dm_cdc_errors")] == list(range(9, 41))


def test_a_lagging_capture_leaves_the_newest_transactions(lab: Lab) -> None:
    enable(lab)
    insert(lab, 1, 2, 3)
    job = job_of(lab)
    with capture_lagging(state_of(lab), transactions=2):
        job.cycle()
        lab.scan()
        assert [c["ID"] for c in lab.changes()] == [1]
    job.cycle()
    assert [c["ID"] for c in lab.changes()] == [1, 2, 3]


def test_a_capture_that_lags_by_seconds_leaves_what_is_younger(lab: Lab) -> None:
    enable(lab)
    insert(lab, 1)
    lab.time = "2026-01-02 03:04:15.000"
    insert(lab, 2)
    job = job_of(lab)
    with capture_lagging(state_of(lab), seconds=5):
        job.cycle()
        assert [c["ID"] for c in lab.changes()] == [1]
        lab.time = "2026-01-02 03:04:20.000"
        job.cycle()
        assert [c["ID"] for c in lab.changes()] == [1, 2]


def test_a_stopped_capture_starts_again_if_it_ran(lab: Lab) -> None:
    enable(lab)
    state = state_of(lab)
    with capture_stopped(state):
        pass
    assert not state.job_running
    state.start_job()
    with capture_stopped(state):
        assert not state.job_running
    assert state.job_running


def test_a_second_sessions_scan_is_22903_while_the_first_goes_on(lab: Lab) -> None:
    """D: 22903 names the session that has the log."""
    enable(lab)
    with state_of(lab).scanning(77), pytest.raises(SqlError, match="session ID 77 is already running") as refused:
        lab.scan()
    assert refused.value.number == 22903
    lab.scan()


def test_a_sessions_scan_waits_for_the_jobs_cycle_and_the_job_for_a_sessions_scan() -> None:
    turn = ScanTurn()
    inside, order = threading.Event(), []

    def scan() -> None:
        inside.wait(10)
        with turn.of_session(60):
            order.append("session")

    with ThreadPoolExecutor(1) as pool:
        with turn.of_job(lambda: False) as mine:
            assert mine
            scanning = pool.submit(scan)
            inside.set()
            order.append("job")
        scanning.result(10)
    assert order == ["job", "session"]
    with turn.of_session(60), turn.of_job(lambda: True) as mine:
        assert not mine


def test_a_job_that_keeps_the_log_refuses_every_other_scan(lab: Lab) -> None:
    """M: as on the real server, when the option asks for it."""
    state_of(lab).options = CdcOptions(capture_interval=3600.0, job_keeps_log=True)
    enable(lab)
    lab.scan()
    lab.run("sp_cdc_start_job")
    with pytest.raises(SqlError) as refused:
        lab.scan()
    assert refused.value.number == 22903


def test_a_session_that_keeps_the_log_refuses_others_until_it_lets_go(lab: Lab) -> None:
    """D: "If a client has log reader access, executing sp_replflush causes the client to release its access"."""
    state_of(lab).options = CdcOptions(capture_interval=3600.0, session_keeps_log=True)
    enable(lab)
    with state_of(lab).scanning(77):
        pass
    state_of(lab).turn.release(76)
    with pytest.raises(SqlError, match="session ID 77") as refused:
        lab.scan()
    assert refused.value.number == 22903
    state_of(lab).turn.release(77)
    lab.scan()
    lab.run("sp_replflush")
    with state_of(lab).scanning(77):
        pass


def test_views_of_a_database_without_capture_are_empty(lab: Lab) -> None:
    lab.run("sp_cdc_disable_db")
    assert sessions(lab) == view(lab, "sys.dm_cdc_errors") == view(lab, "msdb.dbo.cdc_jobs") == []
