"""The fence as a task holds it (ingester/history/store.py): for how long rows of a chunk may still be sent, by this process's own clock.

The time begins before the store is asked, and is shorter than the one that it is asked for. So whoever owns the table next, and waits for the
store's time, sends nothing before this task has ended.
"""

from __future__ import annotations

import math
from typing import Final

from common.clock import SteadyClock
from common.names import TableName
from ingester.history.snapshot import Chunk
from ingester.history.store import FENCE_SECONDS, Fence

SEND_SECONDS: Final = 20.0
"""For how long something may be sent after the store was asked. The rest is for a send that was under way, and for clocks that drift."""


class HeldFence:
    """The fence of one chunk. It does not stand before the first `hold_when_low`."""

    def __init__(self, fence: Fence, chunk: Chunk, table: TableName, epoch: int, clock: SteadyClock) -> None:
        self._fence, self._clock = fence, clock
        self._chunk, self._table, self._epoch = chunk, table, epoch
        self._until = -math.inf

    def left(self) -> float:
        """Seconds for which something may be sent."""
        return self._until - self._clock()

    def hold_when_low(self) -> None:
        """Hold it again, when less than half of its time is left. Raises as Fence.hold does."""
        if self.left() >= SEND_SECONDS / 2:
            return
        asked = self._clock()
        self._fence.hold(self._chunk.id, self._table, self._epoch, round=self._chunk.round, seconds=FENCE_SECONDS)
        self._until = asked + SEND_SECONDS
