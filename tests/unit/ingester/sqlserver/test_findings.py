"""What the database's answers mean, where a server is seldom in that state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.check import Outcome
from common.sqladdress import SqlAddress
from ingester.capture_status import CaptureError, LogTimes, OffsetTimes
from ingester.sqlserver.findings import Session, judge_capture, judge_encryption, judge_retention
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs, Scan

DAY = 86_400.0
SESSION = Session("shop", "dstream", "dstream")
JOBS = CaptureJobs(capture=True, polling=5, retention=3 * DAY)
SCAN = Scan(began=3, ended=2, transactions=1, latency=1, failed=False)


def facts(*scans: Scan, enabled: bool = True) -> CaptureFacts:
    return CaptureFacts(enabled, "NOTHING", scans, ())


def test_capture_at_work_is_ok() -> None:
    found = judge_capture(facts(SCAN), JOBS, 10.0, session=SESSION)
    assert (found.outcome, found.text) == (
        Outcome.OK,
        "the newest change was committed 10 s ago, and the log was last scanned 2 s ago",
    )


@pytest.mark.parametrize(
    ("scan", "says"),
    [
        (Scan(began=90_000, ended=86_400, transactions=0, latency=0, failed=False), "capture has stopped"),
        (Scan(began=3, ended=2, transactions=1, latency=1, failed=True), "scans fail"),
        (Scan(began=3, ended=2, transactions=9, latency=3_000, failed=False), "after their commit"),
        (Scan(began=3_000, ended=None, transactions=0, latency=0, failed=False), "one scan"),
    ],
)
def test_capture_that_stands_still_fails_or_lags_is_warned_of_with_the_remedy(scan: Scan, says: str) -> None:
    found = judge_capture(facts(scan), JOBS, 10.0, session=SESSION)
    assert (found.outcome, says in found.text) == (Outcome.WARN, True)
    assert found.hint


@pytest.mark.parametrize(
    ("scans", "jobs"),
    [
        ((Scan(began=90_000, ended=86_400, transactions=0, latency=0, failed=False),), JOBS),
        ((Scan(began=3, ended=2, transactions=9, latency=3_000, failed=False),), JOBS),
        ((), replace(JOBS, capture=False)),
    ],
)
def test_a_service_without_jobs_gets_no_command_about_jobs(scans: tuple[Scan, ...], jobs: CaptureJobs) -> None:
    agent = judge_capture(facts(*scans), jobs, 9_999.0, session=SESSION).fix
    service = judge_capture(facts(*scans), jobs, 9_999.0, session=replace(SESSION, azure=True)).fix
    assert agent is not None
    assert service is not None
    assert (bool(agent.commands), service.commands) == (True, ())


def test_capture_that_cannot_be_seen_is_warned_of() -> None:
    found = judge_capture(CaptureFacts(True, "NOTHING", None, (CaptureError(1, "x"),)), None, None, session=SESSION)
    assert (found.outcome, found.hint) == (Outcome.WARN, "GRANT VIEW DATABASE STATE to the login's user")


def test_an_offset_near_the_end_of_the_retention_is_warned_of_and_others_are_not() -> None:
    times = LogTimes(1.0, {"dbo.Late": OffsetTimes(2.9 * DAY, None), "dbo.Fine": OffsetTimes(60, None)})
    [found] = judge_retention(JOBS, times, ["dbo.Late", "dbo.Fine", "dbo.New"], session=SESSION)
    assert found.outcome is Outcome.WARN
    assert "the offsets of dbo.Late are close to the end of the retention (72h)" in found.text


def test_a_retention_of_less_than_a_day_is_warned_of() -> None:
    [found] = judge_retention(CaptureJobs(True, 5, DAY - 60), None, ["dbo.Persons"], session=SESSION)
    assert (found.outcome, "23h59m" in found.text) == (Outcome.WARN, True)
    [found] = judge_retention(CaptureJobs(True, 5, DAY), None, ["dbo.Persons"], session=SESSION)
    assert found.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("server", "more", "says"),
    [
        ("db.example", "", None),
        ("localhost", "", None),
        ("db.example", "Encrypt=strict;TrustServerCertificate=true", None),
        ("db.example", "TrustServerCertificate=true", "is not verified"),
        ("db.example", "Encrypt=optional", "rows travel in clear text"),
        ("db.example", "Encrypt=disable", "password and rows travel in clear text"),
    ],
)
def test_a_way_that_others_could_read_is_warned_of(server: str, more: str, says: str | None) -> None:
    found = list(judge_encryption(SqlAddress.parse(f"Server={server};Database=d;UID=u;PWD=p;{more}")))
    assert [(one.outcome, says is not None and says in one.text) for one in found] == (
        [(Outcome.WARN, True)] if says else []
    )


@pytest.mark.parametrize(
    ("seen", "jobs", "command"),
    [
        (facts(enabled=False), JOBS, "EXEC sys.sp_cdc_enable_db;"),
        (facts(), CaptureJobs(False, 5, DAY), "EXEC sys.sp_cdc_add_job @job_type = N'capture';"),
        (facts(replace(SCAN, ended=9_999)), JOBS, "EXEC sys.sp_cdc_start_job @job_type = N'capture';"),
        (facts(replace(SCAN, latency=9_999)), JOBS, "EXEC sys.sp_cdc_stop_job @job_type = N'capture';"),
        (CaptureFacts(True, "NOTHING", None, ()), None, "GRANT VIEW DATABASE STATE TO [dstream];"),
    ],
)
def test_capture_that_stands_still_has_the_statement_that_starts_it(
    seen: CaptureFacts, jobs: CaptureJobs | None, command: str
) -> None:
    found = judge_capture(seen, jobs, 9_999.0, session=SESSION)
    assert found.fix is not None
    assert command in found.fix.commands


def test_failing_scans_have_no_command_but_a_place_to_look() -> None:
    found = judge_capture(facts(replace(SCAN, failed=True)), JOBS, 10.0, session=SESSION)
    assert found.fix is not None
    assert (found.fix.commands, found.hint) == ((), "see sys.dm_cdc_errors")


def test_an_offset_close_to_the_end_gets_twice_the_time() -> None:
    times = LogTimes(10.0, {"dbo.Late": OffsetTimes(age=5.8 * DAY, waiting=None)})
    found = list(judge_retention(CaptureJobs(True, 5, 6 * DAY), times, ["dbo.Late"], session=SESSION))
    assert [each.fix and each.fix.commands for each in found] == [
        (f"EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = {12 * 24 * 60};",)
    ]
