"""A check every few seconds until it is stopped, for threads that watch something. A defect in one check does not end the next ones.

Only the rhythm: the owner starts the thread, and cleans up after it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

import structlog

_AGAIN: Final = 60.0
"""Seconds of pauses after which a defect that lasts is logged again: its traceback is long, and some checks come every 2 s."""

log = structlog.get_logger(__name__)


def repeat(check: Callable[[], object], of: str, stop: threading.Event, *, every: float | Callable[[], float]) -> None:
    """Call `check` every so many seconds until `stop` is set, the first time after one pause. `of`: what it checks, for the log."""
    quiet = math.inf
    while not stop.wait(pause := every() if callable(every) else every):
        quiet += pause
        try:
            check()
        except Exception:
            if quiet < _AGAIN:
                continue
            quiet = 0.0
            log.exception(
                "periodic check failed",
                of=of,
                effect="the next check tries again",
                hint="this is a defect of DStream: report this line",
            )
