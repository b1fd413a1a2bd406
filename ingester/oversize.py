"""Changes that fit no message: which they are, and what of a page is still to be sent around them. Pure; nothing is left out unsaid.

It tells a row's key and position and never another value. docs/decisions/oversize.md says why a stand-in is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from common.bus import MessageTooLarge
from common.errors import PermanentError
from common.message import Message
from common.names import TableName
from ingester.change import Change
from ingester.lsn import Position
from ingester.source import CapturedColumn

_KEY_TEXT = 500
"""Characters of a key that are told: one may have 900 bytes, and a line is to be read."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A change that fits no message. `size`: bytes of its body; `limit`: bytes of the entity's largest message, properties included.

    `key`: primary key columns and their values as a JSON object, empty for a table without a key.
    """

    table: TableName
    key: str
    position: Position
    size: int
    limit: int

    @property
    def key_text(self) -> str:
        """The key for a person, cut where it is very long."""
        return self.key if len(self.key) <= _KEY_TEXT else self.key[:_KEY_TEXT] + "..."

    def refusal(self) -> PermanentError:
        """Why the table stops, with the remedy."""
        row = f"of the row with key {self.key_text}" if self.key != "{}" else "of a row without a primary key"
        return PermanentError(
            f"sending changes of {self.table.key}: the change {row} at commit LSN 0x{self.position.lsn.hex}, "
            f"seqval 0x{self.position.seqval.hex()} fits no message: its body has {self.size} bytes, "
            f"and the queue takes messages of {self.limit}, properties included",
            hint="raise the maximum message size of the queue and the topic (Premium), or set such changes aside with "
            'on_oversize = "dead_letter"; restart then',
        )


def oversized(change: Change, columns: Sequence[CapturedColumn], error: MessageTooLarge) -> Oversized:
    """What to say of `change`, whose message was refused; `columns` are its capture instance's."""
    names = sorted((column.key_ordinal, column.name) for column in columns if column.key_ordinal is not None)
    key = {name: change.data[name] for _, name in names if name in change.data}
    return Oversized(change.table, orjson.dumps(key).decode(), change.position, error.size, error.limit)


class Outgoing:
    """A page's messages on their way: which were accepted, which stand in for a change that was too large.

    With a session a bucket of keys the broker may have accepted messages behind the refused one; they are not sent twice.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)
        self._accepted: set[int] = set()
        self._stand_ins: dict[int, Oversized] = {}
        self.end = len(self._messages)
        """How many of the page's changes are to be sent: all, or those before one that stops the table or the slice."""

    @property
    def left(self) -> list[Message]:
        """What is still to be sent, in order."""
        return [self._messages[at] for at in range(self.end) if at not in self._accepted]

    @property
    def set_aside(self) -> tuple[Oversized, ...]:
        """The changes that messages stand in for, in order."""
        return tuple(self._stand_ins[at] for at in sorted(self._stand_ins) if at < self.end)

    @property
    def prefix(self) -> int:
        """How many changes from the page's first on were accepted without one left out."""
        return next((at for at in range(self.end) if at not in self._accepted), self.end)

    def accept(self, messages: Sequence[Message]) -> None:
        """Take in what was accepted before a send was broken off."""
        accepted = {id(message) for message in messages}
        self._accepted |= {at for at, message in enumerate(self._messages) if id(message) in accepted}

    def refused(self, error: MessageTooLarge) -> int:
        """Take in what was accepted before the refusal; which change was refused, by its place in the page."""
        self.accept(error.accepted)
        return next(at for at, message in enumerate(self._messages) if message is error.refused)

    def is_stand_in(self, at: int) -> bool:
        return at in self._stand_ins

    def stand_in(self, at: int, message: Message, what: Oversized) -> None:
        """Send `message` in the place of the change at `at`."""
        self._messages[at] = message
        self._stand_ins[at] = what

    def stop_before(self, at: int) -> None:
        """Send only what comes before the change at `at`."""
        self.end = at
