"""How long a lock lasts: decided from the end that the service states and from this machine's steady clock. Asks nobody.

The service states the moment when a lock ends, by its own clock, and this machine's clock may differ by an unknown amount. So the wall clock is
read once, when the lock is received, to learn how long locks last. From then on the time is counted by the clock that cannot be set. A length
that no lock has (they last 5 s to 5 minutes, https://learn.microsoft.com/azure/service-bus-messaging/message-transfers-locks-settlement) comes
from the difference between the clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST, LONGEST = 5.0, 300.0
"""Seconds that a lock may last."""

LONGEST_HOLD, SHORTEST_HOLD = 20.0, 2.0
"""The most and the fewest seconds after which a lock is renewed; between them at half its length. On a machine whose clock is behind, locks look
longer than they are, and on one ahead shorter."""


@dataclass(slots=True)
class LockLife:
    """One lock. `length`: seconds that it lasts; `since`: the steady clock when it was taken, or asked to be renewed, at the latest."""

    length: float
    since: float

    @classmethod
    def taken(cls, remaining: float, now: float) -> LockLife:
        """A lock just received, with seconds `remaining` by the wall clock. With fewer than any lock has, it may have ended long ago, because
        this process was frozen. Then no time is left until it is renewed."""
        return cls(min(remaining, LONGEST) if remaining >= SHORTEST else 0.0, now)

    def renewed(self, remaining: float, asked: float) -> None:
        """The service has renewed it; the request was made at that moment."""
        self.length, self.since = believed(remaining), asked

    def left(self, now: float) -> float:
        """Seconds that it lasts at least."""
        return self.since + self.length - now

    def due(self, now: float) -> bool:
        """Whether it is to be renewed."""
        return now - self.since >= hold(self.length)


def clock_ahead(remaining: float) -> float:
    """Seconds that this machine's clock is at least ahead of the service's, from what it shows as the rest of a lock just renewed. Negative:
    behind. 0: unknown."""
    if remaining <= 0:
        return SHORTEST - remaining
    return min(0.0, LONGEST - remaining)


def believed(remaining: float) -> float:
    """Seconds that a lock just taken lasts, when so many remain by the wall clock."""
    return min(max(remaining, SHORTEST), LONGEST)


def hold(length: float) -> float:
    """Seconds after which to renew a lock of that length; 0 for one that may have ended."""
    return min(max(length / 2, SHORTEST_HOLD), LONGEST_HOLD) if length > 0 else 0.0
