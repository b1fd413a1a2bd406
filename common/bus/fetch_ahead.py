"""How many messages a receiver may fetch ahead, so that all receivers of a process stay within their memory: pure decisions.

A broker delivers messages by number, and their size is known only once they have arrived. So a session starts with few, and the largest
recent size decides how many more may be fetched.
"""

from __future__ import annotations

import math
import threading

UNKNOWN_SIZE = 262_144
"""Bytes that a message counts for until one was seen: the largest of Standard
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

FIRST = 32
"""The most messages that a session starts with, before its first one was seen."""

FORGETTING = 16
"""With each batch, the remembered size moves this fraction of the way to the batch's largest."""


class FetchAhead:
    """Shared by the receivers of a process, from any thread. `share`: bytes that one may have fetched ahead, and as many again in a batch.

    `most`: the most messages fetched ahead, however small.
    """

    def __init__(self, most: int, share: float = math.inf) -> None:
        self._most = most
        self._share = share
        self._guard = threading.Lock()
        self._largest = 0.0

    @property
    def share(self) -> float:
        """The most bytes of a batch; its first message may be larger."""
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
