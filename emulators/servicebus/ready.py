"""Messages ready for delivery, in the order of their sequence numbers, wherever they come back from.

Fresh messages arrive in order and cost a deque operation; returned ones (abandoned, lock expired, session released) go to
a heap and leave before any later message: redelivery is at the message's place, not at the end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator

from .message import Message


class ReadyQueue:
    """Smallest sequence number first."""

    __slots__ = ("_fresh", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[Message] = deque()
        self._returned: list[tuple[int, Message]] = []

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned)

    def __iter__(self) -> Iterator[Message]:
        """All messages, in no particular order."""
        yield from self._fresh
        for _, message in self._returned:
            yield message

    def append(self, message: Message) -> None:
        """A message with a larger sequence number than any before it."""
        self._fresh.append(message)

    def put_back(self, message: Message) -> None:
        """A message that was here before, or that comes from elsewhere with its sequence number."""
        if not self._fresh or self._fresh[-1].sequence < message.sequence:
            self._fresh.append(message)
        else:
            heapq.heappush(self._returned, (message.sequence, message))

    def pop(self) -> Message:
        """The next message. Raises IndexError when there is none."""
        if self._returned and (not self._fresh or self._returned[0][0] < self._fresh[0].sequence):
            return heapq.heappop(self._returned)[1]
        return self._fresh.popleft()

    def remove_if(self, unwanted: Callable[[Message], bool]) -> list[Message]:
        """Take out what the predicate names, in order of sequence."""
        gone = sorted((message for message in self if unwanted(message)), key=lambda message: message.sequence)
        if gone:
            names = {message.sequence for message in gone}
            self._fresh = deque(message for message in self._fresh if message.sequence not in names)
            self._returned = [entry for entry in self._returned if entry[0] not in names]
            heapq.heapify(self._returned)
        return gone
