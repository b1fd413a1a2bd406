"""Changes that fit no message, or are refused for another reason: which they are, and what of a page is still to be sent around them.
Pure; nothing is left out unsaid.

It tells a row's key and position and never another value. docs/decisions/0012-oversize.md says why a stand-in is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson

from common.bus import MessageRefused, MessageTooLarge
from common.errors import PermanentError
from common.message import Message
from common.names import TableName
from ingester.change import Change
from ingester.position import Position
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
        return _short(self.key)

    def refusal(self) -> PermanentError:
        """Why the table stops, with the hint."""
        return PermanentError(
            f"{_named(self.table, self.key, self.position)} fits no message: its body has {self.size} bytes, "
            f"and the queue takes messages of {self.limit}, properties included",
            hint="raise the maximum message size of the queue and the topic (Premium), or set such changes aside with "
            'on_oversize = "dead_letter"; restart then',
        )


def oversized(change: Change, columns: Sequence[CapturedColumn], error: MessageTooLarge) -> Oversized:
    """What to say of `change`, whose message was refused; `columns` are its capture instance's."""
    return Oversized(change.table, _key(change, columns), change.position, error.size, error.limit)


def not_taken(change: Change, columns: Sequence[CapturedColumn], error: MessageRefused) -> PermanentError:
    """Why the table stops at `change`, whose message the queue refuses for another reason than its size, with the hint.

    No stand-in is sent, whatever `on_oversize` says: a queue that refuses what is no larger than other changes is as a rule one that is
    not as the configuration has it, and the next change would be refused as well.
    """
    return PermanentError(
        f"{_named(change.table, _key(change, columns), change.position)} is not taken by the queue: it {error.words}",
        hint=f"{error.hint}; restart then",
    )


def _named(table: TableName, key: str, position: Position) -> str:
    row = f"of the row with key {_short(key)}" if key != "{}" else "of a row without a primary key"
    return f"sending changes of {table.key}: the change {row} at {position}"


def _key(change: Change, columns: Sequence[CapturedColumn]) -> str:
    """Its primary key columns and their values as a JSON object."""
    names = sorted((column.key_ordinal, column.name) for column in columns if column.key_ordinal is not None)
    key = {name: change.data[name] for _, name in names if name in change.data}
    return orjson.dumps(key).decode()


def _short(key: str) -> str:
    return key if len(key) <= _KEY_TEXT else key[:_KEY_TEXT] + "..."


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
        return [self._messages[at] for at in self._unsent()]

    @property
    def set_aside(self) -> tuple[Oversized, ...]:
        """The changes that messages stand in for, in order."""
        return tuple(self._stand_ins[at] for at in sorted(self._stand_ins) if at < self.end)

    @property
    def prefix(self) -> int:
        """How many changes from the page's first on were accepted without one left out."""
        return next((at for at in range(self.end) if at not in self._accepted), self.end)

    @property
    def even(self) -> bool:
        """Whether nothing was accepted behind one that was not."""
        return len(self._accepted) == self.prefix

    def _unsent(self) -> list[int]:
        return [at for at in range(self.end) if at not in self._accepted]

    def accept(self, places: Collection[int]) -> None:
        """Take in what was accepted of `left`: the messages at these places of it."""
        unsent = self._unsent()
        self._accepted.update(unsent[place] for place in places)

    def refused(self, error: MessageRefused) -> int:
        """Take in what was accepted of `left` before the refusal; return which change of the page was refused."""
        at = self._unsent()[error.at]
        self.accept(error.accepted)
        return at

    def is_stand_in(self, at: int) -> bool:
        return at in self._stand_ins

    def stand_in(self, at: int, message: Message, what: Oversized) -> None:
        """Send `message` in the place of the change at `at`."""
        self._messages[at] = message
        self._stand_ins[at] = what

    def stop_before(self, at: int) -> None:
        """Send only what comes before the change at `at`."""
        self.end = at
