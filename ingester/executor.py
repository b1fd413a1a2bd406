"""Port: where slices are drained. Spark, or threads of this process (`dstream provider`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ingester.slices import Slice, SliceResult

Early = Callable[[SliceResult], None]
"""Called with the result of a slice whose bundle still runs. From any thread."""
Begins = Callable[[], Sequence[Slice] | None]
"""Called when a worker begins a bundle, if that may be long after it was handed over. Returns the slices with the time and the shape that they
have now, or None when none of them may begin. From any thread."""


class Executor(Protocol):
    """Thread-safe: as many callers as `slots` may run bundles at once."""

    @property
    def slots(self) -> int:
        """How many bundles may run at once, at least 2. The number changes with the available machines."""
        ...

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        """Drain every slice of `bundle` and return one result each, including those that `early` was called with.

        Raises WorkerLost if the worker died, and TransientError if there was none; nothing is then known of the slices.
        May never return, so the caller needs a deadline. `number`: identifies the bundle.
        """
        ...

    def waits(self, number: int) -> bool:
        """Whether the bundle still waits for an executor, as far as known, so that nothing of it has begun. Waits for nothing."""
        ...

    def aside(self, number: int) -> bool:
        """Whether the bundle runs where it takes none of the `slots`. Waits for nothing."""
        ...

    def give_up(self, number: int) -> None:
        """End the bundle's work, wherever it runs. May take long or never return. Raises nothing."""
        ...

    def check(self) -> str | None:
        """What keeps slices from running for now, or from coming back; None if nothing does. Waits for nothing.

        Raises PermanentError if nothing can run here any more.
        """
        ...

    def finish(self) -> None:
        """Ask running slices to end: workers that can be reached begin no further page. Waits for nothing."""
        ...

    def cancel(self) -> bool:
        """Cancel running bundles. Whether they surely end within 3 seconds: a machine out of reach does not hear of it, and goes on until
        the slices' time is over."""
        ...

    def close(self) -> None: ...
