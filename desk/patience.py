"""Until when somebody waits for a call of a port. The console says so around each call, and a change asks right before it writes.

Ends nothing by itself: a call that only looks may go on for nobody.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_until: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def waited_for(until: float) -> Iterator[None]:
    """`until`: as `time.monotonic()` counts."""
    token = _until.set(until)
    try:
        yield
    finally:
        _until.reset(token)


def given_up() -> bool:
    """Whether nobody waits for this call any longer."""
    until = _until.get()
    return until is not None and time.monotonic() >= until
