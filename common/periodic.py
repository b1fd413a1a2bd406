"""A check every few seconds until it is stopped, for threads that watch something. A defect in one check does not end the next ones.

Only the rhythm: the owner starts the thread, and cleans up after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


def repeat(check: Callable[[], object], of: str, stop: threading.Event, *, every: float | Callable[[], float]) -> None:
    """Call `check` every so many seconds until `stop` is set, the first time after one pause. `of`: what it checks, for the log."""
    while not stop.wait(every() if callable(every) else every):
        try:
            check()
        except Exception:
            log.exception(
                "periodic check failed",
                of=of,
                effect="the next check tries again",
                hint="this is a defect of DStream: report this line",
            )
