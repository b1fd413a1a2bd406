"""What a queue and a subscription have in common: messages one can receive, and the queues of its dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from .description import FOREVER, QueueDescription, SubscriptionDescription
from .journal import DEAD_LETTERS, TRANSFER_DEAD_LETTERS, Journal
from .message import Message
from .sessions import SessionStore
from .shelf import Shelf
from .store import CompetingStore, MessageStore, StoreSettings

ReceiveSettings = QueueDescription | SubscriptionDescription

_DEAD_LETTER_SETTINGS: Final = StoreSettings(60_000, None, None, False)


def milliseconds(duration: timedelta) -> int:
    """A duration as the broker counts."""
    return duration // timedelta(milliseconds=1)


class Outlet:
    """A store, its dead-letter queue and its transfer dead-letter queue."""

    def __init__(self, path: str, description: ReceiveSettings, journal: Journal) -> None:
        self.path = path
        self.dead_letters = CompetingStore(_DEAD_LETTER_SETTINGS, Shelf(journal, path + DEAD_LETTERS), None)
        self.transfer_dead_letters = CompetingStore(
            _DEAD_LETTER_SETTINGS, Shelf(journal, path + TRANSFER_DEAD_LETTERS), None
        )
        kind: type[CompetingStore | SessionStore] = SessionStore if description.requires_session else CompetingStore
        self.store: CompetingStore | SessionStore = kind(
            _settings(description), Shelf(journal, path), self.dead_letters
        )

    def reconfigure(self, description: ReceiveSettings) -> None:
        """New settings for messages and locks from now on."""
        self.store.settings = _settings(description)

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

    def bury(self, message: Message, now: int, reason: str, description: str) -> None:
        """Take in a message as a dead letter that was never ready here."""
        message.sequence = self.store.next_sequence()
        message.enqueued_at = now
        self.dead_letters.take_in_dead(message, reason, description)
        self.dead_letters.pump(now)

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
