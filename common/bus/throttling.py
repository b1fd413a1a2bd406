"""A namespace that throttles: how long to wait for it, and one log line a spell, however often it refuses. Sends nothing.

Credits are renewed each second, so a refused sender waits for about that long, and longer while other senders use them up. Microsoft
advises exponential back-off; the wait that the service's answer names is the same for all senders.
Source: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from common.clock import steady
from common.retry import Backoff

THROTTLED_BACKOFF = Backoff(first=0.5, longest=2.0)
"""The wait after refusals in a row: under a second at first, and never longer than the service asks for, so that hardly a second's credits stay
unused. The jitter spreads those that wait."""

QUIET = 60.0
"""Seconds without a refusal after which a spell is over."""

log = structlog.get_logger(__name__)


class ThrottleLog:
    """Shared by all that send to a namespace, from any thread."""

    def __init__(self, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._began = self._last = 0.0
        self._refused = 0

    def refused(self, why: str, *, times: int = 1) -> None:
        """Count that many refused sends."""
        with self._guard:
            self._last = self._clock()
            self._refused += times
            if self._refused > times:
                return
            self._began = self._last
        log.warning("Service Bus throttles", error=why, hint="sending goes on as credits allow; queue.pack needs fewer")

    def look(self) -> None:
        """Log the end of a spell once it is over."""
        with self._guard:
            if not self._refused or self._clock() - self._last < QUIET:
                return
            refused, self._refused = self._refused, 0
        log.info("Service Bus throttles no longer", refused_sends=refused, seconds=round(self._last - self._began, 1))
