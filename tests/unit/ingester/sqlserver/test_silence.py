"""Why nothing comes, from what the server told."""

from __future__ import annotations

from typing import Any

import pytest

from ingester.capture_status import Explanation, Silence
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs, Scan, explain

JOBS = CaptureJobs(capture=True, polling=5.0, retention=259_200.0)


def scan(ended: float | None = 3.0, **more: Any) -> Scan:
    return Scan(
        **{"began": (ended or 0) + 1, "ended": ended, "transactions": 0, "latency": 0.0, "failed": False, **more}
    )


def explained(
    *scans: Scan, jobs: CaptureJobs | None = JOBS, newest: float | None = 500.0, seen: bool = True, **more: Any
) -> Explanation:
    facts = CaptureFacts(**{"enabled": True, "log_wait": "NOTHING", "scans": scans if seen else None, **more})
    return explain(facts, jobs, newest)


def test_scans_that_find_nothing_are_idleness() -> None:
    found = explained(scan())
    assert found == Explanation(
        Silence.IDLE, "nothing to read: the newest change was committed 8 min ago, and the log was last scanned 3 s ago"
    )


def test_an_idle_database_whose_log_happens_to_wait_for_replication_is_idle_all_the_same() -> None:
    """The column is as of the last truncation, and stays so while nothing happens."""
    assert explained(scan(), log_wait="REPLICATION").state is Silence.IDLE


@pytest.mark.parametrize(
    ("polling", "ended", "state"),
    [
        (5.0, 60.0, Silence.IDLE),
        (5.0, 61.0, Silence.STOPPED),
        (100.0, 299.0, Silence.IDLE),
        (100.0, 301.0, Silence.STOPPED),
        (None, 9_000.0, Silence.IDLE),
    ],
)
def test_capture_is_stopped_when_it_missed_three_of_its_scans(
    polling: float | None, ended: float, state: Silence
) -> None:
    assert explained(scan(ended), jobs=CaptureJobs(True, polling, None)).state is state


def test_where_the_interval_is_not_to_be_seen_patience_is_longer() -> None:
    assert explained(scan(299.0), jobs=None).state is Silence.IDLE
    assert explained(scan(301.0), jobs=None).state is Silence.STOPPED


def test_a_stopped_capture_is_told_with_the_remedy_and_what_it_does_to_the_log() -> None:
    found = explained(scan(700.0), log_wait="REPLICATION")
    assert (
        found.text
        == "capture has stopped: the log was last scanned 12 min ago; the transaction log cannot be truncated and grows"
    )
    assert "sys.sp_cdc_start_job" in (found.hint or "")


def test_a_database_whose_first_table_is_still_to_come_is_idle() -> None:
    """sys.sp_cdc_enable_table creates the jobs, for the first table."""
    found = explained(newest=None, jobs=CaptureJobs(False, None, None), tracked=False)
    assert (found.state, "no table" in found.text) == (Silence.IDLE, True)


def test_a_server_that_has_not_scanned_since_its_start() -> None:
    assert explained(newest=None).state is Silence.STOPPED
    assert explained(newest=4_000.0).state is Silence.STOPPED
    assert explained(newest=20.0).state is Silence.IDLE


def test_scans_that_fail_move_nothing() -> None:
    found = explained(scan(failed=True), scan())
    assert (found.state, "its scans fail" in found.text) == (Silence.STOPPED, True)
    assert explained(scan(), scan(failed=True)).state is Silence.IDLE


@pytest.mark.parametrize(("latency", "state"), [(60.0, Silence.IDLE), (61.0, Silence.LAGGING)])
def test_changes_that_were_captured_late_are_a_lag(latency: float, state: Silence) -> None:
    assert explained(scan(20.0, transactions=3, latency=latency), scan(30.0)).state is state


def test_a_lag_is_over_once_a_scan_is_in_time_or_finds_nothing_more() -> None:
    late = scan(20.0, transactions=3, latency=100.0)
    assert explained(scan(), late).state is Silence.IDLE
    assert explained(scan(transactions=2, latency=4.0), late).state is Silence.IDLE
    assert explained(scan(failed=True), late).state is not Silence.LAGGING
    assert explained(scan(transactions=2, latency=70.0), late).state is Silence.LAGGING


def test_the_latency_of_a_scan_of_yesterday_is_none_of_today() -> None:
    by_hand = CaptureJobs(True, None, 259_200.0)  # a job that runs by a schedule of its own may rest for that long
    assert explained(scan(301.0, transactions=3, latency=900.0), jobs=by_hand).state is Silence.IDLE


def test_one_scan_that_does_not_end_is_a_lag() -> None:
    assert explained(scan(None, began=10.0)).state is Silence.IDLE
    found = explained(scan(None, began=600.0))
    assert (found.state, "running for 10 min" in found.text) == (Silence.LAGGING, True)


def test_cdc_that_is_off_and_a_job_that_is_not_there() -> None:
    assert "sp_cdc_enable_db" in (explained(enabled=False).hint or "")
    found = explained(scan(), jobs=CaptureJobs(False, None, None))
    assert (found.state, "sys.sp_cdc_add_job" in (found.hint or "")) == (Silence.STOPPED, True)


@pytest.mark.parametrize(
    ("newest", "state"), [(None, Silence.UNKNOWN), (900.0, Silence.IDLE), (901.0, Silence.UNKNOWN)]
)
def test_what_may_not_be_seen_is_not_guessed(newest: float | None, state: Silence) -> None:
    found = explained(seen=False, newest=newest)
    assert found.state is state
    assert ("VIEW DATABASE STATE" in (found.hint or "")) is (state is Silence.UNKNOWN)


@pytest.mark.parametrize("seen", [True, False])
def test_times_that_cannot_be_read_are_not_taken_for_a_capture_that_found_nothing(seen: bool) -> None:
    found = explained(scan(), newest=None, seen=seen)
    assert "nothing was captured yet, or this login may not read when" in found.text
