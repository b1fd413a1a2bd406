"""Port: where slices are drained. In everything a user runs that is Spark; in unit tests, threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ingester.slices import Slice, SliceResult


class Executor(Protocol):
    """Thread-safe: as many callers as `slots` may run buckets at once."""

    @property
    def slots(self) -> int: ...

    def run(self, bucket: Sequence[Slice]) -> Sequence[SliceResult]:
        """Drain every slice of `bucket`, one result each. Raises TransientError when the worker died: nothing is known of its slices."""
        ...

    def check(self) -> None:
        """Raises PermanentError when nothing can be run here any more."""
        ...

    def finish(self) -> None:
        """Have what runs come to an end: no further page is begun where that can be told to the workers. Waits for nothing."""
        ...

    def cancel(self) -> None:
        """Give up what runs. Work may go on for up to 3 seconds after this returns."""
        ...

    def close(self) -> None: ...
