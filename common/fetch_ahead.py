"""How many messages a receiver may fetch ahead, so that all receivers of a process stay within their memory: pure decisions.

A broker is asked for messages by their number, and what they weigh shows when they have come. So a session starts with few, and the largest
size seen lately says how many more there may be.
"""

from __future__ import annotations

import math
import threading

UNKNOWN_SIZE = 262_144
"""Bytes that a message is taken for while none was seen: the largest of Standard
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

FIRST = 32
"""Messages that a session starts with at most, before the first of its own was seen."""

FORGETTING = 16
"""A size that does not come again is forgotten by so much of itself with each batch."""


class FetchAhead:
    """Shared by the receivers of a process, from any thread. `share`: bytes that one may have fetched ahead, and again as many in a batch.

    `most`: messages fetched ahead in any case.
    """

    def __init__(self, most: int, share: float = math.inf) -> None:
        self._most = most
        self._share = share
        self._guard = threading.Lock()
        self._largest = 0.0

    @property
    def share(self) -> float:
        """Bytes of a batch at most, but for its first message."""
        return self._share

    def first(self) -> int:
        """Messages that a session starts with."""
        if math.isinf(self._share):
            return self._most
        return min(self.credit(), FIRST, max(1, int(self._share // UNKNOWN_SIZE)))

    def credit(self) -> int:
        """Messages that may be on their way to a receiver, or wait in it unread."""
        if math.isinf(self._share):
            return self._most
        return max(1, min(self._most, int(self._share // max(self._largest, 1.0))))

    def saw(self, largest: int) -> None:
        """The largest message of a batch has so many bytes."""
        with self._guard:
            self._largest = max(float(largest), self._largest - (self._largest - largest) / FORGETTING)

    def bytes(self) -> float:
        """What a receiver may have fetched ahead now."""
        return self._largest * self.credit()
