"""Port: where slices are drained. In everything a user runs that is Spark; in unit tests, threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ingester.slices import Slice, SliceResult

Early = Callable[[SliceResult], None]
"""Told the result of a slice whose bundle still runs. From any thread."""


class Executor(Protocol):
    """Thread-safe: as many callers as `slots` may run bundles at once."""

    @property
    def slots(self) -> int:
        """How many bundles may run at once: at least 2. It changes with the machines that are there."""
        ...

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early) -> Sequence[SliceResult]:
        """Drain every slice of `bundle`, one result each. Results that `early` was told are among them again.

        Raises WorkerLost when the worker died, and TransientError when there was none: nothing is known of the slices. May never return:
        whoever calls gives up on it.
        `number`: tells this bundle from others.
        """
        ...

    def give_up(self, number: int) -> None:
        """Have the bundle's work ended, wherever it runs. May take long or never return; raises nothing."""
        ...

    def check(self) -> str | None:
        """What keeps everything from running for now, None if nothing does. Waits for nothing.

        Raises PermanentError when nothing can be run here any more.
        """
        ...

    def finish(self) -> None:
        """Have what runs come to an end: no further page is begun where that can be told to the workers. Waits for nothing."""
        ...

    def cancel(self) -> None:
        """Give up what runs. Work may go on for up to 3 seconds after this returns."""
        ...

    def close(self) -> None: ...
