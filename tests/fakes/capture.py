"""A stand-in for what the server reports of its capture."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingester.capture_status import Explanation, LogTimes, OffsetTimes, Retention
from ingester.sqlserver.silence import CaptureFacts, CaptureJobs, Scan, explain, retention


def scanned(ended: float | None = 3.0, *, latency: float = 0.0, failed: bool = False) -> Scan:
    """The last scan; it captured something if it has a latency."""
    return Scan((ended or 0.0) + 1, ended, int(latency > 0), latency, failed)


@dataclass
class FakeCapture:
    """Reports what the test has set. `asked`: the questions. `fail`: raised by every question while it is set."""

    newest: float | None = 5.0
    offsets: dict[str, OffsetTimes] = field(default_factory=dict)
    told_jobs: CaptureJobs | None = field(default_factory=lambda: CaptureJobs(True, 5.0, 259_200.0))
    told_facts: CaptureFacts = field(default_factory=lambda: CaptureFacts(True, "NOTHING", (scanned(),)))
    fail: Exception | None = None
    asked: list[str] = field(default_factory=list)
    closed: bool = False

    def times(self) -> LogTimes:
        self._ask("times")
        return LogTimes(self.newest, dict(self.offsets))

    def retention(self) -> Retention:
        self._ask("jobs")
        return retention(self.told_jobs)

    def silence(self, newest: float | None) -> Explanation:
        self._ask("facts")
        return explain(self.told_facts, self.told_jobs, newest)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.fail is not None:
            raise self.fail

    def close(self) -> None:
        self.closed = True
