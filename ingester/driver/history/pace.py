"""When a snapshot may go on: at its rate, after its failures, and behind live changes on a namespace that throttles. Pure."""

from __future__ import annotations

from collections.abc import Callable

from common.retry import Backoff, jittered

_BACKOFF = Backoff(first=2.0, factor=2.0, longest=60.0)
_JITTER = 0.5
_SOON_SECONDS = 0.5
_QUIET_SECONDS = 30.0
"""After a refusal, a throttling namespace is left to live changes for so long, but for a round every so many seconds."""


class Pace:
    """Of one table. Times are of the steady clock. `failures`: rounds that failed, one after the other."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._next = float("-inf")
        self._ended = float("-inf")
        self.failures = 0

    def round_over(self, now: float, *, begun: float, sent: int, rate: int | None, failed: bool) -> None:
        self._ended = now
        self.failures = self.failures + 1 if failed else 0
        wait = jittered(_BACKOFF.ceiling(self.failures), _JITTER, self._chance) if failed else 0.0
        self._next = max(now + wait, begun + (sent / rate if rate is not None else 0.0))

    def postpone(self, now: float) -> None:
        """Not just now."""
        self._next = max(self._next, now + _SOON_SECONDS)

    def may_begin(self, now: float, throttled: float) -> bool:
        """`throttled`: when the namespace last refused something; minus infinity: never."""
        if now < self._next:
            return False
        return now - throttled >= _QUIET_SECONDS or now - self._ended >= _QUIET_SECONDS

    def one_task(self, now: float, throttled: float) -> bool:
        """Whether a round has one chunk only, because the namespace has refused messages lately."""
        return now - throttled < 2 * _QUIET_SECONDS
