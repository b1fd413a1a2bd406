"""Exponential back-off with full jitter: how long to wait before the next attempt. Pure: time and chance come from the caller.

Full jitter (a uniform share of the growing ceiling) spreads callers that failed together better than fixed growth with some noise: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The ceiling of a wait is `first` seconds, grows by `factor` with each attempt, and stops at `longest` seconds."""

    first: float = 0.5
    factor: float = 2.0
    longest: float = 30.0

    def __post_init__(self) -> None:
        if self.first <= 0 or self.factor < 1 or self.longest < self.first:
            raise ValueError("a back-off needs 0 < first <= longest and factor >= 1")

    def ceiling(self, attempt: int) -> float:
        """The longest wait, in seconds, after `attempt` failures in a row (1 or more)."""
        # The bound on the exponent keeps a long outage from overflowing a float.
        return min(self.longest, self.first * self.factor ** min(max(attempt - 1, 0), 64))

    def delay(self, attempt: int, chance: Callable[[], float] = random.random) -> float:
        """Seconds to wait after `attempt` failures in a row; `chance` gives a number in [0, 1)."""
        return self.ceiling(attempt) * chance()


def jittered(seconds: float, share: float, chance: Callable[[], float]) -> float:
    """`seconds`, an interval, less a random part of at most `share` of it: never late, and not in step with others."""
    return seconds * (1 - share * chance())
