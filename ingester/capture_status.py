"""Port: what the server tells of its own capture: when what was committed, whether anybody scans the log, how long changes are kept.

Ages are in seconds and are the server's: both ends of a difference come from its clock. They are off by the hour while summer time begins or
ends, since the server keeps local times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OffsetTimes:
    """Of a stored offset. `age`: from its transaction's commit to the newest captured one's, which is what cleanup counts by.

    `waiting`: since the commit of the first captured transaction after it, of whatever table; None if there is none.
    """

    age: float
    waiting: float | None


@dataclass(frozen=True, slots=True)
class LogTimes:
    """`newest`: since the commit of the newest captured transaction; None before the first. `offsets`: by the names in dbo.cdc_offsets."""

    newest: float | None
    offsets: Mapping[str, OffsetTimes]


@dataclass(frozen=True, slots=True)
class CaptureJobs:
    """The settings of the jobs. `polling`: seconds between two scans, None where a scan is not followed by another of the same run.

    `capture`: there is a capture job. `retention`: seconds that changes are kept, None without a cleanup job: then nothing is removed.
    """

    capture: bool
    polling: float | None
    retention: float | None


@dataclass(frozen=True, slots=True)
class Scan:
    """A row of sys.dm_cdc_log_scan_sessions. `ended`: seconds ago, None while it runs. `latency`: from commit to capture, if it captured."""

    began: float
    ended: float | None
    transactions: int
    latency: float
    failed: bool


@dataclass(frozen=True, slots=True)
class CaptureError:
    """A row of sys.dm_cdc_errors."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """`scans`: the latest first; None where this login may not see them. `log_wait`: log_reuse_wait_desc of sys.databases.

    `tracked`: some table is under CDC; the first one brings the database its jobs.
    """

    enabled: bool
    log_wait: str
    scans: tuple[Scan, ...] | None
    errors: tuple[CaptureError, ...] = ()
    tracked: bool = True


class CaptureView(Protocol):
    """Not thread-safe. Every method is one question or two, and raises TransientError or PermanentError."""

    def times(self) -> LogTimes:
        """Of every stored offset, whoever owns its table."""
        ...

    def jobs(self) -> CaptureJobs | None:
        """None where this login may not see them."""
        ...

    def facts(self) -> CaptureFacts: ...

    def close(self) -> None: ...
