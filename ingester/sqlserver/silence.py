"""Why no changes arrive: nothing is written, capture has stopped, or capture lags. Pure: from the server's answers to a
state and its text.

It does not guess what the login may not see: then the state is UNKNOWN. Sources: the pages
sys.dm_cdc_log_scan_sessions, sys.dm_cdc_errors and
"Administer and monitor change data capture" under https://learn.microsoft.com/sql/relational-databases/
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingester.capture_status import LAG_SECONDS, CaptureError, Explanation, Retention, Silence
from ingester.sqlserver.hints import ADD_JOB, ENABLE_AGAIN, READ_SCHEMA_CDC, SCAN_MORE, SEE_JOBS, SEE_SCANS, START_JOB

_RECENT_SECONDS = 300.0
"""A scan that ended longer ago says nothing about the present latency."""
_PATIENCE_SECONDS = 60.0
"""How long capture may be inactive at least, however short its interval: a restart of the server takes as long."""
_UNKNOWN_INTERVAL_SECONDS = 300.0
"""The same if this login may not see how often capture scans."""
_NOTHING = "nothing was captured yet, or this login may not read when"
_ENTRY_SECONDS = 900.0
"""An idle capture adds an entry to cdc.lsn_time_mapping every few minutes; so long without one is a sign, not a
proof."""


@dataclass(frozen=True, slots=True)
class CaptureJobs:
    """The settings of the jobs. `polling`: seconds between two scans, None for a job that scans once per
    run.

    `capture`: there is a capture job. `retention`: seconds that changes are kept, None without a cleanup job: then
    nothing is removed.
    """

    capture: bool
    polling: float | None
    retention: float | None


@dataclass(frozen=True, slots=True)
class Scan:
    """A row of sys.dm_cdc_log_scan_sessions. `ended`: seconds ago, None while it runs. `latency`: from commit to
    capture, if it captured."""

    began: float
    ended: float | None
    transactions: int
    latency: float
    failed: bool


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """`scans`: the latest first; None where this login may not see them. `log_wait`: log_reuse_wait_desc of
    sys.databases.

    `errors`: rows of sys.dm_cdc_errors. `tracked`: some table is under CDC; the first one brings the database its jobs. None where this
    login may not see it.
    """

    enabled: bool
    log_wait: str
    scans: tuple[Scan, ...] | None
    errors: tuple[CaptureError, ...] = ()
    tracked: bool | None = True


def retention(jobs: CaptureJobs | None) -> Retention:
    """`jobs`: None where this login may not see them."""
    longer = "EXEC sys.sp_cdc_change_job N'cleanup', @retention = MINUTES"
    return Retention(None, longer, SEE_JOBS) if jobs is None else Retention(jobs.retention, longer)


def explain(facts: CaptureFacts, jobs: CaptureJobs | None, newest: float | None) -> Explanation:
    """Why no changes arrive. `jobs`: None where this login may not see them; `newest`: seconds since the newest
    captured commit, None: never, or it cannot be read."""
    return replace(_why(facts, jobs, newest), errors=facts.errors)


def _why(facts: CaptureFacts, jobs: CaptureJobs | None, newest: float | None) -> Explanation:
    if not facts.enabled:
        return Explanation(
            Silence.STOPPED,
            "Change Data Capture is disabled in the database",
            ENABLE_AGAIN,
        )
    if facts.tracked is None:
        text = "this login may not see whether a table is under Change Data Capture"
        return Explanation(Silence.UNKNOWN, text, READ_SCHEMA_CDC)
    if not facts.tracked:
        return Explanation(Silence.IDLE, "nothing to read: no table of the database is under Change Data Capture")
    if jobs is not None and not jobs.capture:
        return Explanation(
            Silence.STOPPED,
            f"the database has no capture job on this server{_held(facts)}",
            ADD_JOB,
        )
    if facts.scans is None:
        return _unseen(newest)
    return _by_scans(facts, facts.scans, jobs, newest)


def _by_scans(
    facts: CaptureFacts, scans: tuple[Scan, ...], jobs: CaptureJobs | None, newest: float | None
) -> Explanation:
    last = scans[0] if scans else None
    if last is None:
        if newest is not None and newest <= _PATIENCE_SECONDS:
            return Explanation(Silence.IDLE, f"nothing to read: the newest change was committed {_age(newest)} ago")
        return _standing(facts, "the log has not been scanned since the server started")
    if last.ended is None:
        if last.began > LAG_SECONDS:
            text = f"one scan of the log has been running for {_age(last.began)}{_held(facts)}"
            return Explanation(
                Silence.LAGGING, text, "a large transaction takes long; check that the capture job is not blocked"
            )
        return _idle(newest, "a scan of the log is running")
    if last.failed:
        return _standing(facts, f"its scans fail, the last one {_age(last.ended)} ago", "see sys.dm_cdc_errors")
    patience = _patience(jobs)
    if patience is not None and last.ended > patience:
        return _standing(facts, f"the log was last scanned {_age(last.ended)} ago")
    behind = _behind(scans)
    if behind > LAG_SECONDS:
        text = f"changes were captured up to {_age(behind)} after their commit{_held(facts)}"
        return Explanation(Silence.LAGGING, text, SCAN_MORE)
    return _idle(newest, f"the log was last scanned {_age(last.ended)} ago")


def _behind(scans: tuple[Scan, ...]) -> float:
    """Seconds from commit to capture of the latest captured changes; 0 once a scan found nothing more in the log.

    Only the newest scan counts: the first one after a standstill captures what had waited, and says nothing of the
    next.
    """
    done = next((scan for scan in scans if scan.ended is not None and not scan.failed), None)
    if done is None or not done.transactions or (done.ended or 0.0) > _RECENT_SECONDS:
        return 0.0
    return done.latency


def _patience(jobs: CaptureJobs | None) -> float | None:
    """How long the log may go without a scan before capture counts as stopped; None for a job with its own schedule."""
    if jobs is None:
        return _UNKNOWN_INTERVAL_SECONDS
    return None if jobs.polling is None else max(_PATIENCE_SECONDS, 3 * jobs.polling)


def _unseen(newest: float | None) -> Explanation:
    if newest is not None and newest <= _ENTRY_SECONDS:
        return Explanation(Silence.IDLE, f"nothing to read: capture was active {_age(newest)} ago")
    told = _NOTHING if newest is None else f"its last entry is {_age(newest)} old"
    return Explanation(
        Silence.UNKNOWN,
        f"there is nothing to read, and this login may not see whether capture is running; {told}",
        SEE_SCANS,
    )


def _standing(facts: CaptureFacts, text: str, hint: str | None = None) -> Explanation:
    return Explanation(Silence.STOPPED, f"capture has stopped: {text}{_held(facts)}", hint or START_JOB)


def _idle(newest: float | None, scanned: str) -> Explanation:
    told = _NOTHING if newest is None else f"the newest change was committed {_age(newest)} ago"
    return Explanation(Silence.IDLE, f"nothing to read: {told}, and {scanned}")


def _held(facts: CaptureFacts) -> str:
    """The effect of a stopped capture on the log. Alone the column proves nothing: it is as of the last truncation."""
    return "; the transaction log cannot be truncated and grows" if facts.log_wait == "REPLICATION" else ""


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
