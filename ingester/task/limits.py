"""When a slice has to end: its time, a stop that was asked for, and its lease, by either of two clocks. A part of a stride has only the last.

A commit needs no such look, since the epoch guards it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from common.clock import SteadyClock, UnixClock, seconds_left
from ingester.slices import Expired, Slice


class Bounds:
    """Of a slice that begins now. `now` is Unix time, `clock` the steady clock; `stopping`: whether a stop was asked for."""

    def __init__(self, todo: Slice, *, now: UnixClock, clock: SteadyClock, stopping: Callable[[], bool]) -> None:
        self._todo, self._now, self._clock = todo, now, clock
        self.stopping = stopping
        self._begun = clock()
        self._deadline = self._begun + todo.seconds

    def left(self) -> float:
        """Seconds until the lease may run out, by the clock that says so sooner; infinite where it cannot."""
        todo = self._todo
        by_date = math.inf if todo.send_before is None else seconds_left(todo.send_before, now=self._now())
        by_steady = math.inf if todo.lease_seconds is None else todo.lease_seconds - (self._clock() - self._begun)
        return min(by_date, by_steady)

    def expired(self) -> bool:
        """Whether the lease may have run out, as either clock says."""
        return self.left() <= 0

    def refuse_expired(self) -> None:
        """Raises Expired."""
        if self.expired():
            raise self.too_late()

    def too_late(self) -> Expired:
        return Expired(
            f"sending changes of {self._todo.table.key}: the lease may have run out before a page was sent",
            hint="if this repeats, the machine is overloaded, Service Bus slow or ingester.page_rows too large",
        )

    def refuses_a_page(self) -> bool:
        """Whether no further page is begun because of a stop."""
        return self._todo.part is None and self.stopping()

    def ends_after_a_page(self) -> bool:
        """Whether the slice hands back although there is more."""
        return self._todo.part is None and (self._clock() >= self._deadline or self.expired())

    def ends_within_a_page(self, *, even: bool) -> bool:
        """The same between two sends of a page: for its time alone only where nothing has to be sent again, `even`."""
        if self._todo.part is not None:
            return False
        return self.stopping() or self.expired() or (even and self._clock() >= self._deadline)
