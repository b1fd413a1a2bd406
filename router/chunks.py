"""How much of a group is sent and settled before the locks are checked again: pure decisions. Sends nothing.

Messages that were sent and not settled come again when their lock is lost. So a group is sent in chunks of about one batch of the service's, each
settled before the next, and no batch begins that the lock may not outlast.
"""

from __future__ import annotations

from common.message import weight
from router.routes import Group

MOST = 1_048_576
"""The most bytes of a chunk, whatever a batch may hold: the largest batch that Premium accepts
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

USUAL = 260_096
"""Bytes of a chunk for a topic whose limit is not known yet: a batch of Standard's 256 KB without its envelope."""

LEAST = 16_384
"""The fewest bytes of a chunk, however narrow the uplink."""

RESERVE = 15.0
"""Seconds that a lock must still last when a batch begins: the answer may take that long."""


def leading(group: Group, most: int) -> tuple[Group, Group | None]:
    """The first messages of a group, at least one and up to `most` bytes; and the others, if any."""
    taken = 0
    for at, delivery in enumerate(group.deliveries):
        taken += weight(delivery.message)
        if taken > most and at > 0:
            return Group(group.topic, group.deliveries[:at]), Group(group.topic, group.deliveries[at:])
    return group, None


def together(first: Group | None, then: Group | None) -> Group | None:
    """Two parts of one group as one again."""
    if first is None or then is None:
        return first or then
    return Group(first.topic, first.deliveries + then.deliveries)


def reserve(left: float) -> float:
    """Seconds that a lock must have left when a batch begins, if `left` were left when its chunk began; fewer for short locks."""
    return min(RESERVE, max(left, 0.0) / 4)


def narrower(chunk: int) -> int:
    """Bytes of the next chunk after one that failed: half as much may get through in the time for an answer."""
    return max(LEAST, chunk // 2)


def wider(chunk: int, most: int) -> int:
    """Bytes of the next chunk after one that got through."""
    return min(most, chunk * 2)
