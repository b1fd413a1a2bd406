"""What a queue and a subscription have in common: messages one can receive, and the queues of its dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import FOREVER, QueueDescription, RuntimeCounts, SubscriptionDescription
from emulators.servicebus.journal import DEAD_LETTERS, TRANSFER_DEAD_LETTERS, Journal
from emulators.servicebus.message import Message
from emulators.servicebus.store.competing import CompetingStore
from emulators.servicebus.store.consumer import StoreSettings
from emulators.servicebus.store.forwarding import Forwarder, Transfer, Undeliverable, target_path
from emulators.servicebus.store.message_store import MessageStore
from emulators.servicebus.store.sessions import SessionStore
from emulators.servicebus.store.shelf import Shelf

ReceiveSettings = QueueDescription | SubscriptionDescription

_DEAD_LETTER_SETTINGS: Final = StoreSettings(60_000, None, None, False)


def milliseconds(duration: timedelta) -> int:
    """A duration as the broker counts."""
    return duration // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an entity needs of its namespace: whom to tell of changes, how to pass messages on, whom to tell when it is due."""

    journal: Journal
    transfer: Transfer
    alarm: Callable[[int], None]


class Outlet:
    """A store, its dead-letter queue and its transfer dead-letter queue."""

    def __init__(self, path: str, description: ReceiveSettings, around: Surroundings) -> None:
        self.path = path
        self._description = description
        self._transfer = around.transfer
        journal, alarm = around.journal, around.alarm
        self.dead_letters = CompetingStore(_DEAD_LETTER_SETTINGS, Shelf(journal, path + DEAD_LETTERS), None, alarm)
        self.transfer_dead_letters = CompetingStore(
            _DEAD_LETTER_SETTINGS, Shelf(journal, path + TRANSFER_DEAD_LETTERS), None, alarm
        )
        kind: type[CompetingStore | SessionStore] = SessionStore if description.requires_session else CompetingStore
        self.store: CompetingStore | SessionStore = kind(
            _settings(description), Shelf(journal, path), self.dead_letters, alarm
        )
        self._forward()

    def reconfigure(self, description: ReceiveSettings, now: int) -> None:
        """New settings for messages and locks from now on; what is here already is forwarded if that begins."""
        self._description = description
        self.store.settings = _settings(description)
        self._forward()
        for store in self.stores():
            store.pump(now)

    def _forward(self) -> None:
        target, dead_target = self._description.forward_to, self._description.forward_dead_lettered_messages_to
        if self._description.status in ("Disabled", "ReceiveDisabled"):
            target = dead_target = None  # nothing is taken out of what is suspended
        if isinstance(self.store, CompetingStore):
            forwarder = Forwarder(target_path(target), self._transfer, None) if target else None
            self.store.forward(forwarder, self._give_up)
        self.dead_letters.forward(
            Forwarder(target_path(dead_target), self._transfer, self.path) if dead_target else None
        )

    def _give_up(self, message: Message, failure: Undeliverable, now: int) -> None:
        """What cannot be forwarded is a dead letter; transfer dead letters are for sending via an entity ("Dead-letter queues")."""
        self.dead_letters.take_over(message, failure.reason, failure.description)
        self.dead_letters.pump(now)

    def require_receivable(self, place: str) -> None:
        """Raises AmqpError when messages of that store go elsewhere by themselves."""
        forwarded = {
            "": self._description.forward_to,
            DEAD_LETTERS: self._description.forward_dead_lettered_messages_to,
        }
        if forwarded.get(place):
            text = "Cannot create a message receiver on an entity with auto-forwarding enabled."
            raise AmqpError("amqp:not-allowed", f"{text} Entity: '{self.path}{place}'.")

    def stores(self) -> tuple[MessageStore, ...]:
        """The store, its dead-letter queue and its transfer dead-letter queue."""
        return self.store, self.dead_letters, self.transfer_dead_letters

    def at(self, place: str) -> MessageStore:
        """The store (""), or the one at `DEAD_LETTERS` or `TRANSFER_DEAD_LETTERS`."""
        if place == DEAD_LETTERS:
            return self.dead_letters
        return self.transfer_dead_letters if place == TRANSFER_DEAD_LETTERS else self.store

    @property
    def size(self) -> int:
        """Octets of all messages."""
        return self.store.size + self.dead_letters.size + self.transfer_dead_letters.size

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        return RuntimeCounts(
            active=len(self.store),
            dead_letter=len(self.dead_letters),
            transfer_dead_letter=len(self.transfer_dead_letters),
            size_in_bytes=self.size,
        )

    def bury(self, message: Message, now: int, reason: str, description: str) -> None:
        """Take in a message as a dead letter that was never ready here."""
        message.sequence = self.store.next_sequence()
        message.enqueued_at = now
        self.dead_letters.take_over(message, reason, description)
        self.dead_letters.pump(now)

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return min(store.due for store in self.stores())

    def sweep(self, now: int) -> None:
        """Do what is due."""
        for store in self.stores():
            store.sweep(now)


def _settings(description: ReceiveSettings) -> StoreSettings:
    ttl = description.default_message_time_to_live
    return StoreSettings(
        lock_duration=milliseconds(description.lock_duration),
        max_delivery_count=description.max_delivery_count,
        default_ttl=None if ttl == FOREVER else milliseconds(ttl),
        dead_letter_expired=description.dead_lettering_on_message_expiration,
    )
