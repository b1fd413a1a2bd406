"""Procedures of Change Data Capture beside an open transaction: with one writer a database they can wait, but not for ever.

Nor for nothing, and what ends the wait leaves everything as it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.cdc.capture.scan_turn import JOB_SESSION
from emulators.sqlserver.cdc.extension import CdcExtension
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Cancelled, ErrorMessage, LoginRequest, Session


@pytest.fixture
def engine() -> Iterator[SqlEngine]:
    made = build_engine(users={"sa": "secret"}, databases=["demo"], capture_interval=3600)
    yield made
    made.close()


def login(engine: SqlEngine) -> Session:
    return engine.login(LoginRequest("sa", "secret", "demo"))


def errors(session: Session, sql: str) -> list[int]:
    return [event.number for event in session.batch(sql, {}, lambda: False) if isinstance(event, ErrorMessage)]


@pytest.fixture
def session(engine: SqlEngine) -> Session:
    made = login(engine)
    assert not errors(
        made,
        "CREATE TABLE t (id int PRIMARY KEY) CREATE TABLE other (id int) EXEC sys.sp_cdc_enable_db "
        "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL EXEC sys.sp_cdc_stop_job",
    )
    return made


def test_a_scan_of_an_empty_log_waits_for_nobody(engine: SqlEngine, session: Session) -> None:
    holder = login(engine)
    assert not errors(holder, "BEGIN TRAN INSERT other VALUES (1)")
    assert not errors(session, "EXEC sys.sp_cdc_scan")  # would never return


def test_a_scan_with_work_waits_as_long_as_its_session_waits_for_locks(engine: SqlEngine, session: Session) -> None:
    holder = login(engine)
    assert not errors(session, "INSERT t VALUES (1)")
    assert not errors(holder, "BEGIN TRAN INSERT other VALUES (1)")
    assert errors(session, "SET LOCK_TIMEOUT 0 EXEC sys.sp_cdc_scan") == [1222]
    assert not errors(holder, "COMMIT")
    assert not errors(session, "EXEC sys.sp_cdc_scan")


def test_a_scan_that_waits_can_be_cancelled(engine: SqlEngine, session: Session) -> None:
    holder = login(engine)
    assert not errors(session, "INSERT t VALUES (1)")
    assert not errors(holder, "BEGIN TRAN INSERT other VALUES (1)")
    with pytest.raises(Cancelled):
        list(session.batch("EXEC sys.sp_cdc_scan", {}, lambda: True))


def test_a_scan_of_an_empty_log_waits_for_no_job_that_waits_for_a_writer(engine: SqlEngine, session: Session) -> None:
    """The job's first cycle looks into the log whatever is there, and may find a transaction open in its way."""
    holder = login(engine)
    assert not errors(holder, "BEGIN TRAN INSERT other VALUES (1)")
    assert not errors(session, "EXEC sys.sp_cdc_start_job")
    assert isinstance(engine.extension, CdcExtension)
    [cdc] = engine.extension.states()
    while cdc.turn.holder != JOB_SESSION:
        time.sleep(0.001)
    assert not errors(session, "EXEC sys.sp_cdc_scan")  # would never return
    assert not errors(holder, "COMMIT")


def test_disabling_that_may_not_wait_leaves_capture_as_it_was(engine: SqlEngine, session: Session) -> None:
    holder = login(engine)
    assert not errors(holder, "BEGIN TRAN INSERT t VALUES (1)")
    assert errors(session, "SET LOCK_TIMEOUT 0 EXEC sys.sp_cdc_disable_db") == [1222]
    assert not errors(session, "IF USER_ID(N'cdc') IS NULL RAISERROR(N'its user is gone', 16, 1)")
    assert not errors(holder, "COMMIT")
    assert not errors(
        session, "EXEC sys.sp_cdc_scan IF (SELECT COUNT(*) FROM cdc.dbo_t_CT) <> 1 RAISERROR(N'lost', 16, 1)"
    )
    assert not errors(session, "EXEC sys.sp_cdc_disable_db EXEC sys.sp_cdc_enable_db")


def test_enabling_that_may_not_wait_leaves_nothing_behind(engine: SqlEngine, session: Session) -> None:
    holder = login(engine)
    assert not errors(session, "EXEC sys.sp_cdc_disable_db")
    assert not errors(holder, "BEGIN TRAN INSERT t VALUES (1)")
    assert errors(session, "SET LOCK_TIMEOUT 0 EXEC sys.sp_cdc_enable_db") == [1222]
    assert not errors(holder, "COMMIT")
    assert not errors(session, "EXEC sys.sp_cdc_enable_db")


def test_an_instance_that_another_session_made_outlives_a_wait_that_ended(engine: SqlEngine, session: Session) -> None:
    """The one that gave up put the instances back that were there when it began to wait."""
    holder, other = login(engine), login(engine)
    assert not errors(holder, "BEGIN TRAN INSERT other VALUES (1)")

    def meanwhile() -> bool:
        if not done:
            done.append(True)
            assert not errors(holder, "COMMIT")
            assert not errors(other, "EXEC sys.sp_cdc_enable_table N'dbo', N'other', @role_name = NULL")
        return True

    done: list[bool] = []
    enable = "EXEC sys.sp_cdc_enable_table N'dbo', N't', @role_name = NULL, @capture_instance = N'second'"
    with pytest.raises(Cancelled):
        list(session.batch(enable, {}, meanwhile))
    assert not errors(holder, "INSERT other VALUES (2)")
    assert not errors(
        session, "EXEC sys.sp_cdc_scan IF (SELECT COUNT(*) FROM cdc.dbo_other_CT) <> 1 RAISERROR(N'lost', 16, 1)"
    )
