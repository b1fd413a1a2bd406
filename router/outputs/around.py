"""What an output may need to know of the rest of the router's configuration. Values alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from common.bus.ports import DUPLICATE_DETECTION_WINDOW, QueueState
from common.names import Ordering


def _unknown() -> QueueState | None:
    return None


@dataclass(frozen=True, slots=True)
class Around:
    """`subscriptions` and `duplicate_window`: of topics that are created. `ordering`: of the ingest queue, and so of sessions.

    `ingest_queue`: looks at the ingest queue; None when it does not exist, or without the right to see it. Raises TransientError.
    """

    subscriptions: tuple[str, ...] = ()
    duplicate_window: timedelta = DUPLICATE_DETECTION_WINDOW
    ordering: Ordering = "table"
    ingest_queue: Callable[[], QueueState | None] = _unknown
