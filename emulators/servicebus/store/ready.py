"""Messages ready for delivery, in the order of their sequence numbers, wherever they come back from.

Fresh messages arrive in order and cost a deque operation; returned ones (abandoned, lock expired, session released) go to
a heap and leave before any later message: redelivery is at the message's place, not at the end. A message taken out of
the middle (expired) leaves a mark, and is passed over when its turn comes.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator

from emulators.servicebus.message import Message


class ReadyQueue:
    """Smallest sequence number first."""

    __slots__ = ("_fresh", "_gone", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[Message] = deque()
        self._returned: list[tuple[int, Message]] = []
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned) - len(self._gone)

    def __iter__(self) -> Iterator[Message]:
        """All messages, in no particular order."""
        for message in itertools.chain(self._fresh, (entry[1] for entry in self._returned)):
            if message.sequence not in self._gone:
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
        while True:
            if self._returned and (not self._fresh or self._returned[0][0] < self._fresh[0].sequence):
                message = heapq.heappop(self._returned)[1]
            else:
                message = self._fresh.popleft()
            if not self._gone or message.sequence not in self._gone:
                return message
            self._gone.discard(message.sequence)

    def remove(self, message: Message) -> None:
        """Take a message out, wherever it stands. It must be in the queue, and must never come back to it."""
        self._gone.add(message.sequence)
        if len(self._gone) > len(self):
            self._fresh = deque(m for m in self._fresh if m.sequence not in self._gone)
            self._returned = [entry for entry in self._returned if entry[0] not in self._gone]
            heapq.heapify(self._returned)
            self._gone.clear()
