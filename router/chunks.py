"""How much of a group is sent and settled before the locks are looked at again: pure decisions. Sends nothing.

What is sent and not settled comes again when its lock is lost. So a group goes in chunks of about one batch of the service's, each settled
before the next, and no batch begins that the lock may not outlast.
"""

from __future__ import annotations

from common.message import weight
from router.routes import Group

MOST = 1_048_576
"""Bytes of a chunk at most, whatever a batch may hold: the largest batch that Premium takes
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

USUAL = 260_096
"""Bytes of a chunk for a topic whose limit is not known yet: a batch of Standard's 256 KB without its envelope."""

LEAST = 16_384
"""Bytes of a chunk at least, on however narrow a way."""

RESERVE = 15.0
"""Seconds that a lock has to last when a batch begins: an answer to it may take so long."""


def leading(group: Group, most: int) -> tuple[Group, Group | None]:
    """The first messages of a group that are `most` bytes together, at least one; and the others, if there are any."""
    taken = 0
    for at, delivery in enumerate(group.deliveries):
        taken += weight(delivery.message)
        if taken > most and at > 0:
            return Group(group.destination, group.deliveries[:at]), Group(group.destination, group.deliveries[at:])
    return group, None


def together(first: Group | None, then: Group | None) -> Group | None:
    """Two parts of one group as one again."""
    if first is None or then is None:
        return first or then
    return Group(first.destination, first.deliveries + then.deliveries)


def reserve(left: float) -> float:
    """Seconds that are to be left of a lock when a batch begins, where `left` were left when its chunk did: less where locks are short."""
    return min(RESERVE, max(left, 0.0) / 4)


def narrower(chunk: int) -> int:
    """Bytes of the next chunk after one that failed: what does not get through in the time for an answer may in half of it."""
    return max(LEAST, chunk // 2)


def wider(chunk: int, most: int) -> int:
    """Bytes of the next chunk after one that got through."""
    return min(most, chunk * 2)
