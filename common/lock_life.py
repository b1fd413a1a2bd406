"""How long a lock lasts: decided from what the service says of its end and from this machine's steady clock. Asks nobody.

The service tells the moment when a lock ends, by its own clock; how far this machine's differs is not known. So the wall clock is looked at once,
when the lock is told of, to learn how long locks last, and what is passed of it is counted by the clock that cannot be set. A length that no lock
has (5 s to 5 minutes, https://learn.microsoft.com/azure/service-bus-messaging/message-transfers-locks-settlement) is the clocks' difference.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST, LONGEST = 5.0, 300.0
"""Seconds that a lock may last."""

LONGEST_HOLD, SHORTEST_HOLD = 20.0, 2.0
"""Seconds after which a lock is renewed at the latest, and at the soonest; between them at half its length. A machine whose clock is behind takes
locks for longer than they are, and one ahead for shorter."""


@dataclass(slots=True)
class LockLife:
    """One lock. `length`: seconds that it lasts; `since`: the steady clock when it was taken, or asked to be renewed, at the latest."""

    length: float
    since: float

    @classmethod
    def taken(cls, remaining: float, now: float) -> LockLife:
        """A lock just heard of, with seconds `remaining` by the wall clock. With fewer than any lock has, it may be long over: this process
        may have been frozen since. Then none are left, until it is renewed."""
        return cls(min(remaining, LONGEST) if remaining >= SHORTEST else 0.0, now)

    def renewed(self, remaining: float, asked: float) -> None:
        """The service has renewed it, asked at that moment."""
        self.length, self.since = believed(remaining), asked

    def left(self, now: float) -> float:
        """Seconds that it lasts at least."""
        return self.since + self.length - now

    def due(self, now: float) -> bool:
        """Whether it is to be renewed."""
        return now - self.since >= hold(self.length)


def clock_ahead(remaining: float) -> float:
    """Seconds by which this machine's clock is ahead of the service's at least, where by it so many remain of a lock just renewed. Negative: behind.
    0: nothing is known of it."""
    if remaining <= 0:
        return SHORTEST - remaining
    return min(0.0, LONGEST - remaining)


def believed(remaining: float) -> float:
    """Seconds that a lock lasts which was just taken, where the wall clock says that so many remain."""
    return min(max(remaining, SHORTEST), LONGEST)


def hold(length: float) -> float:
    """Seconds after which a lock of that length is renewed; at once one that may be over."""
    return min(max(length / 2, SHORTEST_HOLD), LONGEST_HOLD) if length > 0 else 0.0
