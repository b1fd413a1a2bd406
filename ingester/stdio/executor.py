"""Runs bundles in threads of this process: no Spark, no JVM. While a line waits for its reader, bundles wait with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from common.clock import SteadyClock, SteadyTime, steady
from ingester.executor import Begins, Early
from ingester.slices import Slice, SliceResult, Trouble, untouched
from ingester.stdio.output import Output

SLOTS = 4
"""Bundles at a time. Only one line is written at a time, so more would only read further ahead."""

Drained = Callable[[Sequence[Slice], SteadyTime, Early], Sequence[SliceResult]]
"""Drains slices that were begun at a moment; calls the function with each result but the last as soon as it is there."""


class ThreadExecutor:
    """`drained`: what a worker does, in the calling thread or in threads of its own."""

    def __init__(self, drained: Drained, output: Output, *, clock: SteadyClock = steady) -> None:
        self._drained = drained
        self._output = output
        self._clock = clock
        self._queued: set[int] = set()

    @property
    def slots(self) -> int:
        return SLOTS

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        self._queued.add(number)
        try:
            self._output.await_reader()
            now = None if self._output.finishing else begins()
        finally:
            self._queued.discard(number)
        if now is None:
            return [untouched(todo) for todo in bundle]
        begun = self._clock()
        results = self._drained(now, begun, lambda result: early(self._judged(result, begun)))
        return [self._judged(result, begun) for result in results]

    def waits(self, number: int) -> bool:
        """A bundle whose line waits for its reader is not late, so it counts as waiting, too, unless the provider stops."""
        return not self._output.finishing and (number in self._queued or self._output.slow)

    def aside(self, number: int) -> bool:
        return False

    def give_up(self, number: int) -> None:
        """The slice that follows takes the table's turn: Output.claim."""

    def check(self) -> str | None:
        return self._output.trouble()

    def finish(self) -> None:
        self._output.finish()

    def cancel(self) -> bool:
        self._output.cut()
        return True

    def close(self) -> None:
        """Threads end with what they do, or with the process."""

    def _judged(self, result: SliceResult, begun: float) -> SliceResult:
        """A slice whose time ended while it waited for the reader, or for nothing because the provider stops, has not failed: it goes on."""
        if result.trouble is not Trouble.EXPIRED or result.piece is not None:
            return result
        if not (self._output.finishing or self._output.slow_since(begun)):
            return result
        return replace(result, trouble=None, message="", hint=None, more=True, unsent=None)
