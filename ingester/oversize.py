"""Changes that are too large for a message, or are refused for another reason, and what is left to send of their page. Pure.

No change is left out silently. Texts show a row's key and position and never another value. docs/decisions/0012-oversize.md explains why a
stand-in is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson

from common.bus.ports import MessageRefused, MessageTooLarge
from common.errors import PermanentError
from common.message import Message
from common.names import TableName
from ingester.change import Change
from ingester.position import Position
from ingester.source import CapturedColumn

_KEY_TEXT = 500
"""The most characters of a key in a text: a key may have 900 bytes, and a person reads the line."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A change that is too large. `size`: bytes of its body; `limit`: bytes of the entity's largest message, properties included.

    `key`: the primary key's columns and their values as a JSON object, empty for a table without a key.
    """

    table: TableName
    key: str
    position: Position
    size: int
    limit: int

    @property
    def key_text(self) -> str:
        """The key for a person to read, cut if it is very long."""
        return _short(self.key)

    def refusal(self) -> PermanentError:
        """Why the table stops."""
        return PermanentError(
            f"{_named(self.table, self.key, self.position)} is too large for a message: its body has {self.size} bytes, "
            f"and the queue accepts messages of up to {self.limit}, properties included",
            hint="raise the maximum message size of the queue and the topic (Premium), or have such changes dead-lettered with "
            'on_oversize = "dead_letter"; then restart the ingester',
        )


def oversized(change: Change, columns: Sequence[CapturedColumn], error: MessageTooLarge) -> Oversized:
    """The facts about `change`, whose message was too large. `columns`: those of its capture instance."""
    return Oversized(change.table, _key(change, columns), change.position, error.size, error.limit)


def not_taken(change: Change, columns: Sequence[CapturedColumn], error: MessageRefused) -> PermanentError:
    """Why the table stops at `change`, whose message the queue refuses for a reason other than its size.

    No stand-in is sent, whatever `on_oversize` says: when a queue refuses a change of ordinary size, the queue usually differs from the
    configuration, and would refuse the next change as well.
    """
    return PermanentError(
        f"{_named(change.table, _key(change, columns), change.position)} cannot be sent: it {error.words}",
        hint=f"{error.hint}; then restart the ingester",
    )


def _named(table: TableName, key: str, position: Position) -> str:
    row = f"of the row with key {_short(key)}" if key != "{}" else "of a row without a primary key"
    return f"sending changes of {table.key}: the change {row} at {position}"


def _key(change: Change, columns: Sequence[CapturedColumn]) -> str:
    """The primary key's columns and their values as a JSON object."""
    names = sorted((column.key_ordinal, column.name) for column in columns if column.key_ordinal is not None)
    key = {name: change.data[name] for _, name in names if name in change.data}
    return orjson.dumps(key).decode()


def _short(key: str) -> str:
    return key if len(key) <= _KEY_TEXT else key[:_KEY_TEXT] + "..."


class Outgoing:
    """A page's messages on their way: which of them were accepted, and which stand in for a change that was too large.

    With one session for each bucket of keys, the broker may have accepted messages behind a refused one. They are not sent twice.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)
        self._accepted: set[int] = set()
        self._stand_ins: dict[int, Oversized] = {}
        self.end = len(self._messages)
        """How many of the page's changes are to be sent: all, or those before the one at which the table or the slice stops."""

    @property
    def left(self) -> list[Message]:
        """The messages that are still to be sent, in order."""
        if not self._accepted:
            return self._messages[: self.end]
        return [self._messages[at] for at in self._unsent()]

    @property
    def set_aside(self) -> tuple[Oversized, ...]:
        """The changes that were replaced by stand-ins, in order."""
        return tuple(self._stand_ins[at] for at in sorted(self._stand_ins) if at < self.end)

    @property
    def prefix(self) -> int:
        """How many of the page's first changes were accepted without a gap."""
        return next((at for at in range(self.end) if at not in self._accepted), self.end)

    @property
    def even(self) -> bool:
        """Whether no change was accepted behind one that was not."""
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
        """Send `message` in place of the change at `at`."""
        self._messages[at] = message
        self._stand_ins[at] = what

    def stop_before(self, at: int) -> None:
        """Send only what comes before the change at `at`."""
        self.end = at
