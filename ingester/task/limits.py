"""When a slice must end: when its time is up, when a stop is requested, and before its lease ends by either of two clocks.

A part of a stride is bound by the lease alone. A chunk of a snapshot is bound by the lease and by the fence, and not by the slice's time. A
commit is not checked here, because the epoch guards it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from common.clock import SteadyClock, UnixClock, seconds_left
from common.errors import DStreamError, TransientError
from ingester.slices import Expired, Slice
from ingester.task.fence import HeldFence


class Bounds:
    """The bounds of a slice that begins now. `now` is Unix time, `clock` the steady clock. `stopping`: whether a stop was requested."""

    def __init__(self, todo: Slice, *, now: UnixClock, clock: SteadyClock, stopping: Callable[[], bool]) -> None:
        self._todo, self._now, self._clock = todo, now, clock
        self.stopping = stopping
        self._begun = clock()
        self._deadline = self._begun + todo.seconds

    def left(self) -> float:
        """Seconds until the lease may end, by the clock that says so first; infinite if it cannot end."""
        todo = self._todo
        by_date = math.inf if todo.send_before is None else seconds_left(todo.send_before, now=self._now())
        by_steady = math.inf if todo.lease_seconds is None else todo.lease_seconds - (self._clock() - self._begun)
        return min(by_date, by_steady)

    def expired(self) -> bool:
        """Whether the lease may have ended, by either clock."""
        return self.left() <= 0

    def refuse_expired(self) -> None:
        """Raises Expired."""
        if self.expired():
            raise self.too_late()

    def too_late(self) -> DStreamError:
        """What ends a slice that may send nothing more, before all of a page was sent."""
        return Expired(
            f"sending changes of {self._todo.table.key}: the lease may have ended before a page was sent",
            hint="nothing is lost, the page is sent again; if this repeats, the machine is overloaded, Service Bus is slow, "
            "or ingester.page_rows is too large",
        )

    def refuses_a_page(self) -> bool:
        """Whether a stop keeps the slice from beginning another page."""
        return self._todo.part is None and self.stopping()

    def ends_after_a_page(self) -> bool:
        """Whether the slice ends after this page although there is more."""
        return self._todo.part is None and (self._clock() >= self._deadline or self.expired())

    def ends_within_a_page(self, *, even: bool) -> bool:
        """The same between two sends of a page. When only its time is up, the slice ends if nothing has to be sent again (`even`)."""
        if self._todo.part is not None:
            return False
        return self.stopping() or self.expired() or (even and self._clock() >= self._deadline)


class ChunkBounds(Bounds):
    """The bounds of a slice that has a chunk. Asking whether something may be sent holds the fence again, when little of it is left."""

    def __init__(
        self, todo: Slice, fence: HeldFence, *, now: UnixClock, clock: SteadyClock, stopping: Callable[[], bool]
    ) -> None:
        super().__init__(todo, now=now, clock=clock, stopping=stopping)
        self._fence = fence

    def left(self) -> float:
        """Seconds until nothing may be sent, because of the lease or the fence."""
        return min(super().left(), self._fence.left())

    def expired(self) -> bool:
        """The lease alone: it cannot be taken again, the fence can."""
        return super().left() <= 0

    def refuse_expired(self) -> None:
        """Raises as Fence.hold does, and Expired, and TransientError when holding the fence took too long."""
        self._fence.hold_when_low()
        if self.left() <= 0:
            raise self.too_late()

    def too_late(self) -> DStreamError:
        if self.expired():
            return super().too_late()
        return TransientError(
            f"sending rows of {self._todo.table.key}: the time for which the table's changes stand was over before a page was sent",
            hint="nothing is lost, the page is sent again; if this repeats, SQL Server or Service Bus is slow, or the machine is overloaded",
        )
