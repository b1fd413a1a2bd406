"""Compares the wall clocks of the executors' machines with the driver's, because a slice's `send_before` is a date.

Nobody knows how long a slice is on its way, so only what no delay explains counts as a difference. If a result seems to
be sent after it was received, the worker's clock is ahead. If a slice seems to begin before it was sent, the clock is
behind. Sets no clock, stops no table.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import structlog

from common.clock import UnixClock, UnixTime
from ingester.slices import SliceResult, Trouble, WorkerClock

log = structlog.get_logger("ingester")

TOLERATED_SECONDS = 2.0
"""With NTP, clocks differ by milliseconds. The margin of the shortest lease is a few seconds."""

_HINT = "synchronise the clocks of both machines (chronyc tracking shows how far off each is)"


def difference(clock: WorkerClock, received_at: UnixTime) -> float:
    """Seconds that the worker's clock is ahead of the driver's, at least; below 0: behind; 0: nothing is certain."""
    ahead, behind = clock.ended_at - received_at, clock.begun_at - clock.sent_at
    return ahead if ahead > 0 else min(0.0, behind)


class ExecutorClocks:
    """`now`: the driver's Unix time. `here`: the driver's machine, whose workers have the same clock. `differs` is called
    for each slice from a clock that differs."""

    def __init__(
        self, now: UnixClock, here: str | None = None, *, differs: Callable[[], object] = lambda: None
    ) -> None:
        self._now = now
        self._differs = differs
        self._here = here or socket.gethostname()
        self._reported: set[str] = set()

    def looked(self, result: SliceResult) -> SliceResult:
        """`result`, just received; a slice that expired because of the clock says so. Logs each such machine once."""
        clock = result.clock
        if clock is None or clock.host == self._here:
            return result
        seconds = difference(clock, self._now())
        if abs(seconds) <= TOLERATED_SECONDS:
            return result
        self._differs()
        if clock.host not in self._reported:
            self._reported.add(clock.host)
            log.warning(
                "an executor's clock differs from the driver's",
                host=clock.host,
                seconds=round(seconds, 1),
                why="an executor sends nothing once its clock is past the end of the lease",
                hint=_HINT,
            )
        if result.trouble is not Trouble.EXPIRED or seconds < 0:
            return result
        why = f"the clock of {clock.host} is {seconds:.1f} s ahead of the driver's, so there the lease seemed to have run out"
        return replace(result, message=f"sending changes of {result.table.key}: {why}", hint=_HINT)
