from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from common.clock import UnixTime
from ingester.driver.executor_clocks import ExecutorClocks, difference
from ingester.slices import SliceResult, Trouble, WorkerClock
from tests.fakes.ingester import ORDERS, PERSONS

SENT, RECEIVED = UnixTime(1000.0), UnixTime(1030.0)


def clock(ahead: float, host: str = "executor-1") -> WorkerClock:
    """Of a worker that took the slice up 10 s after it was sent and handed it back 5 s before it was received."""
    return WorkerClock(host, SENT, UnixTime(SENT + 10 + ahead), UnixTime(RECEIVED - 5 + ahead))


@pytest.mark.parametrize(("ahead", "told"), [(0.0, 0.0), (4.0, 0.0), (-9.0, 0.0), (60.0, 55.0), (-60.0, -50.0)])
def test_only_what_no_delay_explains_is_a_difference(ahead: float, told: float) -> None:
    assert difference(clock(ahead), RECEIVED) == told


def test_each_machine_whose_clock_differs_is_reported_once_with_the_remedy() -> None:
    counted: list[None] = []
    clocks = ExecutorClocks(lambda: RECEIVED, here="driver", differs=lambda: counted.append(None))
    with capture_logs() as logs:
        for ahead, host in ((60.0, "a"), (60.0, "a"), (0.0, "b"), (-60.0, "c"), (6.9, "d")):
            clocks.looked(SliceResult(PERSONS, None, clock=clock(ahead, host)))
    assert [(entry["log_level"], entry["host"], entry["seconds"]) for entry in logs] == [
        ("warning", "a", 55.0),
        ("warning", "c", -50.0),
    ]
    assert all("synchronise the clocks" in entry["hint"] for entry in logs)
    assert len(counted) == 3


def test_the_drivers_own_machine_has_no_other_clock() -> None:
    """One that is set while slices run looks like a difference."""
    result = SliceResult(PERSONS, None, clock=clock(3600, "driver"))
    with capture_logs() as logs:
        assert ExecutorClocks(lambda: RECEIVED, here="driver").looked(result) == result
    assert logs == []


def test_a_slice_that_expired_for_a_clock_that_is_ahead_blames_the_clock() -> None:
    clocks = ExecutorClocks(lambda: RECEIVED, here="driver")
    expired = SliceResult(ORDERS, None, trouble=Trouble.EXPIRED, message="the lease may have run out", hint="page_rows")
    said = clocks.looked(SliceResult(ORDERS, None, trouble=Trouble.EXPIRED, clock=clock(20, "executor-1")))
    assert "the clock of executor-1 is 15.0 s ahead" in said.message
    assert "page_rows" not in f"{said.message} {said.hint}"
    assert clocks.looked(expired) == expired
