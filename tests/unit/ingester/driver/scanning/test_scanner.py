"""The scanner turn by turn, over locks and a clock that the test moves; one test looks at its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime
from common.errors import ConnectionLost, DStreamError, PermanentError
from ingester.capture_status import Scanned
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.scanning import scanner
from ingester.driver.scanning.pace import BUSY_SECONDS, Pace
from ingester.driver.scanning.scanner import LogScanner
from ingester.watch.capture_watch import CaptureFigures
from ingester.watch.metrics import SCANNING, SCANS, samples
from ingester.watch.stats import IngesterStats
from tests.fakes.locks import FakeLocks, LockService

LOCK = "server/database/log-scan.lock"
REFUSED = PermanentError("scanning the log: error 22904", hint="ALTER ROLE db_owner ADD MEMBER")


@dataclass
class Scans:
    """`next`: what the next scan comes to."""

    next: Scanned | DStreamError = Scanned.EMPTY
    count: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def scan(self) -> Scanned:
        self.count += 1
        if isinstance(self.next, DStreamError):
            raise self.next
        return self.next

    def close(self) -> None:
        self.closed.set()


class Ingester:
    """One with its scanner."""

    def __init__(self, service: LockService, clock: Callable[[], SteadyTime], captured: Callable[[], None]) -> None:
        self.scans, self.stats = Scans(), IngesterStats([], clock=clock)
        self.locks = FakeLocks(service)
        self.keeper = LeaseKeeper(self.locks, clock=clock, chance=lambda: 0.0)
        self.keeper.want([LOCK])
        self.scanner = LogScanner(
            self.scans,
            self.keeper,
            LOCK,
            Pace(0.5),
            stats=self.stats,
            look=captured,
            busy_hint="let the job scan more often",
            clock=clock,
        )

    def turn(self) -> float:
        self.keeper.turn()
        return self.scanner.turn()

    def metrics(self) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for sample in samples(self.stats, CaptureFigures()):
            if sample.metric in (SCANS, SCANNING) and isinstance(sample.value, int | float):
                found[(sample.metric.name.removeprefix("dstream_ingester_"), *sample.labels)] = sample.value
        return found


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.service = LockService(self.clock)
        self.captured = 0

    def clock(self) -> SteadyTime:
        return SteadyTime(self.now)

    def ingester(self) -> Ingester:
        return Ingester(self.service, self.clock, self._note)

    def _note(self) -> None:
        self.captured += 1


def test_the_tables_are_looked_at_after_a_scan_that_captured_something() -> None:
    world = World()
    one = world.ingester()
    one.turn()
    assert (one.scans.count, world.captured) == (1, 0)
    one.scans.next = Scanned.CAPTURED
    one.turn()
    assert world.captured == 1
    assert one.metrics() == {
        ("log_scans_total", "captured"): 1,
        ("log_scans_total", "empty"): 1,
        ("log_scanning",): 1,
    }


def test_one_of_two_ingesters_scans_and_the_other_takes_over() -> None:
    world = World()
    one, two = world.ingester(), world.ingester()
    for _ in range(3):
        one.turn()
        assert two.turn() == 1.0
    assert (one.scans.count, two.scans.count) == (3, 0)
    assert ("log_scanning",) not in two.metrics()
    world.service.held.clear()  # the lease of the first has run out at the service
    world.now += 100
    with capture_logs() as logs:
        two.turn()
        one.turn()
    assert (one.scans.count, two.scans.count) == (3, 1)
    assert [line["event"] for line in logs] == ["scanning the log", "scanning the log is left to another ingester"]
    assert ("log_scanning",) not in one.metrics()


def test_the_metric_is_0_while_a_scan_hangs_and_until_one_succeeds_again() -> None:
    world = World()
    one = world.ingester()
    one.turn()
    world.now += 9.9
    assert one.metrics()[("log_scanning",)] == 1
    world.now += 0.2  # the next scan has not come back
    assert one.metrics()[("log_scanning",)] == 0
    one.scans.next = ConnectionLost("SQL Server: no answer")
    one.turn()
    assert one.metrics()[("log_scanning",)] == 0
    one.scans.next = Scanned.EMPTY
    one.turn()
    assert one.metrics()[("log_scanning",)] == 1


def test_one_lost_connection_does_not_change_the_metric() -> None:
    world = World()
    one = world.ingester()
    one.turn()
    one.scans.next = ConnectionLost("SQL Server: no answer")
    one.turn()
    assert one.metrics()[("log_scanning",)] == 1


def test_while_the_loop_has_no_connection_nothing_is_scanned_or_said_and_no_session_is_kept() -> None:
    """The scan's session might be the one that a database in single-user mode lets in."""
    world = World()
    one = world.ingester()
    one.turn()
    one.stats.connected(False)
    with capture_logs() as logs:
        assert [one.turn() for _ in range(5)] == [1.0] * 5
    assert (one.scans.count, one.scans.closed.is_set(), logs) == (1, True, [])
    assert one.metrics()[("log_scanning",)] == 0
    one.stats.connected(True)
    assert one.turn() == 0.5
    assert one.metrics()[("log_scanning",)] == 1


def test_a_connection_that_a_scan_lost_is_looked_at_by_the_loop_which_reports_it() -> None:
    world = World()
    one = world.ingester()
    one.scanner._look = lambda: one.stats.connected(False)
    one.scans.next = ConnectionLost("SQL Server: cannot open database 'Shop': error 4060")
    with capture_logs() as logs:
        for _ in range(9):
            one.turn()
    assert (one.scans.count, logs) == (1, [])


def test_the_metric_is_0_from_the_lock_on_until_the_first_scan_succeeds() -> None:
    world = World()
    one = world.ingester()
    seen: list[float] = []
    scan = one.scans.scan

    def hangs() -> Scanned:
        seen.append(one.metrics()[("log_scanning",)])
        return scan()

    one.scans.scan = hangs  # type: ignore[method-assign]
    one.turn()
    assert (seen, one.metrics()[("log_scanning",)]) == ([0], 1)


def test_a_long_interval_between_scans_is_no_hindrance() -> None:
    world = World()
    one = world.ingester()
    one.scanner._pace.every = 30.0
    one.turn()
    world.now += 100
    assert one.metrics()[("log_scanning",)] == 1


def test_scanning_is_told_once_a_scan_has_succeeded() -> None:
    world = World()
    one = world.ingester()
    one.scans.next = Scanned.BUSY
    with capture_logs() as logs:
        one.turn()
        assert not logs
        one.scans.next = Scanned.EMPTY
        one.turn()
        one.turn()
    assert [line["event"] for line in logs] == ["scanning the log"]


def test_a_missing_right_is_one_line_with_its_remedy_and_a_metric() -> None:
    world = World()
    one = world.ingester()
    one.scans.next = REFUSED
    with capture_logs() as logs:
        for _ in range(3):
            one.turn()
    (line,) = logs
    assert (line["event"], line["hint"]) == ("the log may not be scanned", REFUSED.hint)
    assert one.metrics() == {("log_scans_total", "failed"): 3, ("log_scanning",): 0}
    one.scans.next = Scanned.EMPTY
    with capture_logs() as logs:
        one.turn()
    assert [line["event"] for line in logs] == ["the log can be scanned again"]
    assert one.metrics()[("log_scanning",)] == 1


def test_a_job_that_has_the_log_to_itself_is_one_line_with_its_remedy() -> None:
    world = World()
    one = world.ingester()
    one.scans.next = Scanned.BUSY
    waited = 0.0
    with capture_logs() as logs:
        while waited < 3 * BUSY_SECONDS:
            pause = one.turn()
            world.now += pause
            waited += pause
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "low_latency has no effect"
    assert line["hint"] == "let the job scan more often"
    assert one.metrics()[("log_scanning",)] == 0


def test_the_lock_service_being_away_is_no_trouble_of_scans() -> None:
    world = World()
    one = world.ingester()
    one.locks.fail = PermanentError("taking a lock: refused")
    assert one.turn() == 1.0
    assert one.scans.count == 0


def test_its_thread_scans_and_ends() -> None:
    world = World()
    one = world.ingester()
    seen = threading.Event()
    one.scanner._look = seen.set
    one.scans.next = Scanned.CAPTURED
    with one.scanner.running():
        assert seen.wait(60)
    assert one.scans.closed.wait(60)
    assert world.service.holder(LOCK) is None


def test_a_defect_that_lasts_is_one_line_and_the_next_scan_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "_STANDBY_SECONDS", 0.01)
    one = World().ingester()
    tried, tries = threading.Event(), [0]

    def defect() -> float:
        tries[0] += 1
        if tries[0] == 5:
            tried.set()
        raise ValueError("planted")

    monkeypatch.setattr(one.scanner, "turn", defect)
    with capture_logs() as logs, one.scanner.running():
        assert tried.wait(60)
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["event"], line["of"]) == ("periodic check failed", "scans of the log")
