"""Messages of one place by sequence number, for whoever looks at them from some number on.

Messages come nearly always with the largest number so far, and that costs an append; one that left keeps its number in the
order until such numbers outnumber the others. So neither adding nor removing looks at other messages, and a page costs
the logarithm of all and the messages on it. A dead-letter queue may hold several messages of one number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from emulators.servicebus.message import Message

_FEW: Final = 64


class SequenceIndex:
    """All messages of a store or schedule. A message's sequence number must not change while it is here."""

    __slots__ = ("_at", "_order")

    def __init__(self) -> None:
        self._order: list[int] = []
        self._at: dict[int, list[Message]] = {}

    def add(self, message: Message) -> None:
        """A message that is not here."""
        sequence, order = message.sequence, self._order
        if sequence in self._at:
            self._at[sequence].append(message)
            return
        self._at[sequence] = [message]
        if not order or order[-1] < sequence:
            order.append(sequence)
        elif order[place := bisect_left(order, sequence)] != sequence:
            order.insert(place, sequence)

    def remove(self, message: Message) -> None:
        """Raises KeyError, ValueError for a message that is not here."""
        same = self._at[message.sequence]
        same.remove(message)
        if same:
            return
        del self._at[message.sequence]
        if len(self._order) > 2 * len(self._at) + _FEW:
            self._order = [sequence for sequence in self._order if sequence in self._at]

    def since(self, sequence: int) -> Iterator[Message]:
        """Messages from a sequence number on, in order; nothing may come or go meanwhile."""
        for place in range(bisect_left(self._order, sequence), len(self._order)):
            yield from self._at.get(self._order[place], ())
