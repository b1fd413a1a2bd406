"""Ports to what lies in entities of a bus, for a person: looking at it, and taking dead letters. Never used for a change on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from common.bus.ports import OpenableSender
from common.message import Message

LAST: Final = 2**63 - 1
"""The highest sequence number that a message can have."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where messages lie: a queue, or a `subscription` of a topic; `dead`: its dead letters instead."""

    entity: str
    subscription: str | None = None
    dead: bool = False

    def __str__(self) -> str:
        kept = self.entity if self.subscription is None else f"{self.entity}/{self.subscription}"
        return f"dead letters of {kept}" if self.dead else kept


@dataclass(frozen=True, slots=True)
class Lying:
    """A message as it lies there. `sequence` rises with each message that the entity has accepted. `enqueued` has a zone. `reason`,
    `description`: of a dead letter. `fault`: see `Delivery.fault`."""

    message: Message
    sequence: int
    enqueued: datetime | None = None
    delivery_count: int = 0
    state: Literal["active", "deferred", "scheduled"] = "active"
    reason: str | None = None
    description: str | None = None
    fault: str | None = None


class Browser(Protocol):
    """Looks at one shelf. Takes nothing, locks nothing, raises no delivery count. Not thread-safe.
    https://learn.microsoft.com/azure/service-bus-messaging/message-browsing"""

    def page(self, *, first: int, most: int) -> Sequence[Lying]:
        """Up to `most` messages whose sequence number is `first` or higher, in its order, of all sessions; fewer does not mean that it
        was the last: only an empty page does. Raises TransientError, PermanentError or EntityUnavailable."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...


class Taken(Protocol):
    """A dead letter under its peek-lock."""

    @property
    def lying(self) -> Lying: ...

    def lock_left(self) -> float:
        """Seconds for which the lock is sure to last."""
        ...


class Taker(Protocol):
    """Takes dead letters of one shelf, in the order of their sequence numbers, each under its own lock: dead-letter queues have no sessions.
    Not thread-safe. Every method but `close` raises TransientError, PermanentError or EntityUnavailable."""

    def take(self, *, most: int, wait: float) -> Sequence[Taken]:
        """Up to `most` that nobody has locked, as soon as there is one; empty when none came within `wait` seconds."""
        ...

    def complete(self, taken: Sequence[Taken]) -> Sequence[Taken]:
        """Remove them; return those whose lock was lost, which are still there. Raises TransientError without an answer: some are removed."""
        ...

    def give_back(self, taken: Sequence[Taken]) -> None:
        """They can be taken again at once."""
        ...

    def put_aside(self, taken: Sequence[Taken]) -> None:
        """They stay locked, so that those behind them come, and their content is forgotten. `close` gives them back; one whose lock ends before
        comes again. Raises nothing."""
        ...

    def close(self) -> None:
        """What was neither completed nor given back can be taken again when its lock has run out, at the latest. Never raises."""
        ...


class Shelves(Protocol):
    """Where browsers and takers come from: one namespace of a bus, as `Bus`. Callable from any thread."""

    @property
    def host(self) -> str:
        """As `Bus.host`: the same text for the same namespace."""
        ...

    def browser(self, shelf: Shelf) -> Browser:
        """Opened at its first call."""
        ...

    def taker(self, shelf: Shelf) -> Taker:
        """Opened at its first call. `shelf` must be one of dead letters."""
        ...

    def sender(self, entity: str) -> OpenableSender: ...

    def duplicate_window(self, entity: str) -> timedelta | None:
        """How long a queue or topic remembers message ids; None: it does not. Raises TransientError, or PermanentError where this may not be
        seen, which takes the right to manage entities."""
        ...

    def subscriptions(self, topic: str) -> Sequence[str]:
        """Their names. Raises as `duplicate_window`."""
        ...

    def close(self) -> None:
        """Browsers, takers and senders are closed where they were opened."""
        ...
