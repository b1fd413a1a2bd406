"""What of a namespace must outlive the process: the port through which entities and stores tell it.

Every call but `commit` only takes note; `commit` is called once a turn of the event loop, before any answer of that turn
leaves, and returns when everything noted is safe. Locks are not told: they end with the process.

A shelf is one place that holds messages by sequence number: the entity's path in lower case, alone for the messages of a
queue or subscription, or followed by `DEAD_LETTERS`, `TRANSFER_DEAD_LETTERS` or `SCHEDULE`. Entities are told by their path
as first spelled, everything else by the path in lower case.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

from .amqp.values import Value
from .description import Description
from .message import Message
from .rules.description import RuleInfo

DEAD_LETTERS: Final = "/$deadletterqueue"
TRANSFER_DEAD_LETTERS: Final = "/$transfer/$deadletterqueue"
SCHEDULE: Final = "/$schedule"


class Journal(Protocol):
    """Takes note of changes. Messages are handed over by reference: what `commit` finds in them is what is kept."""

    def save_entity(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> None:
        """A new entity, or its new settings."""
        ...

    def drop_entity(self, path: str) -> None:
        """An entity is gone, with its rules, shelves, sessions and history."""
        ...

    def save_rule(self, subscription: str, rule: RuleInfo) -> None:
        """A new rule, or its new description."""
        ...

    def drop_rule(self, subscription: str, name: str) -> None:
        """A rule is gone."""
        ...

    def save_message(self, shelf: str, message: Message) -> None:
        """A message is new on the shelf, or something in it other than its lock changed."""
        ...

    def drop_message(self, shelf: str, sequence: int) -> None:
        """A message left the shelf."""
        ...

    def save_sequence(self, shelf: str, sequence: int) -> None:
        """The last sequence number given out; a topic's counts under its path."""
        ...

    def save_session_state(self, shelf: str, session_id: str, state: bytes | None, changed_at: int) -> None:
        """A session's state; None when it has none any more. `changed_at` in milliseconds since the Unix epoch."""
        ...

    def save_seen(self, path: str, message_id: Value, at: int) -> None:
        """Duplicate detection saw an id at `at`, in milliseconds since the Unix epoch."""
        ...

    def drop_seen(self, path: str, message_id: Value) -> None:
        """Duplicate detection forgot an id."""
        ...

    def commit(self) -> None:
        """Make everything noted safe, all of it or nothing. Raises OSError when that cannot be."""
        ...


class Forgetful:
    """The journal of a namespace in memory: nothing is kept."""

    def save_entity(self, path: str, description: Description, created_at: datetime, updated_at: datetime) -> None:
        """Nothing."""

    def drop_entity(self, path: str) -> None:
        """Nothing."""

    def save_rule(self, subscription: str, rule: RuleInfo) -> None:
        """Nothing."""

    def drop_rule(self, subscription: str, name: str) -> None:
        """Nothing."""

    def save_message(self, shelf: str, message: Message) -> None:
        """Nothing."""

    def drop_message(self, shelf: str, sequence: int) -> None:
        """Nothing."""

    def save_sequence(self, shelf: str, sequence: int) -> None:
        """Nothing."""

    def save_session_state(self, shelf: str, session_id: str, state: bytes | None, changed_at: int) -> None:
        """Nothing."""

    def save_seen(self, path: str, message_id: Value, at: int) -> None:
        """Nothing."""

    def drop_seen(self, path: str, message_id: Value) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""
