"""The store whose consumers compete: whoever has credit takes its turn.

A store with a forwarder has no consumers, its messages go on to another entity.
Sources: learn.microsoft.com "Queues, topics, and subscriptions" (competing consumers), "Chaining Service Bus entities with autoforwarding".
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from emulators.servicebus.message import Message

from .consumer import Consumer, StoreSettings
from .deadlines import Deadlines
from .forwarding import Forwarder, Undeliverable
from .message_store import MessageStore, nobody
from .ready import ReadyQueue
from .shelf import Shelf

RETRY: Final = 1000
"""Milliseconds after which dead letters that their destination did not take are offered to it again."""


class CompetingStore(MessageStore):
    """Consumers with credit take turns. With a forwarder, messages go there instead; `give_up` takes those it does not."""

    def __init__(
        self,
        settings: StoreSettings,
        shelf: Shelf,
        dead_letters: MessageStore | None,
        alarm: Callable[[int], None] = nobody,
    ) -> None:
        super().__init__(settings, shelf, dead_letters, alarm)
        self._ready = ReadyQueue()
        self._hungry: OrderedDict[Consumer, None] = OrderedDict()
        self._locks: Deadlines[Message] = Deadlines()
        self._forwarder: Forwarder | None = None
        self._give_up: Callable[[Message, Undeliverable, int], None] | None = None
        self._stranded: list[Message] = []
        self._retry_at = 0

    def leave(self, consumer: Consumer) -> None:
        """A receiver goes; what it holds stays locked until the locks expire."""
        self._hungry.pop(consumer, None)

    def feed(self, consumer: Consumer, now: int) -> None:
        """A receiver's credit changed."""
        if consumer.credit > 0:
            self._hungry.setdefault(consumer)
        self.pump(now)

    def pump(self, now: int) -> None:
        if self.due <= now:
            self.sweep(now)  # pumps again; what it leaves cannot be due
        if self._forwarder is not None:
            self._forward(self._forwarder, now)
            return
        ready, hungry = self._ready, self._hungry
        while ready and hungry:
            consumer = next(iter(hungry))
            if consumer.credit <= 0:
                del hungry[consumer]
                continue
            hungry.move_to_end(consumer)
            self._hand_over(consumer, ready.pop(), now)

    # -- forwarding

    def forward(
        self, forwarder: Forwarder | None, give_up: Callable[[Message, Undeliverable, int], None] | None = None
    ) -> None:
        """Forward from now on, or no longer; the caller pumps.

        Without `give_up` what the destination does not take stays, and is offered again after `RETRY`; so dead letters do
        (Azure/azure-service-bus issue 666). What can never be taken stays for good, and holds up nothing.
        """
        self._forwarder, self._give_up, self._retry_at = forwarder, give_up, 0
        for message in self._stranded:
            self._ready.put_back(message)
        self._stranded.clear()

    def _forward(self, forwarder: Forwarder, now: int) -> None:
        while self._ready and self._retry_at <= now:
            message = self._ready.pop()
            self._expiries.discard(message)
            try:
                forwarder.send(message, now)
            except Undeliverable as failure:
                if self._give_up is not None:
                    self._remove(message)
                    self._give_up(message, failure, now)
                elif failure.lasting:
                    self._stranded.append(message)
                else:
                    self._ready.put_back(message)
                    self._retry_at = now + RETRY
                    self.wake_at(self._retry_at)
            else:
                self._remove(message)

    # -- what the kinds do differently

    def _make_ready(self, message: Message, returned: bool) -> None:
        if returned:
            self._ready.put_back(message)
        else:
            self._ready.append(message)

    def _withdraw(self, message: Message) -> None:
        if message in self._stranded:
            self._stranded.remove(message)
        else:
            self._ready.remove(message)

    def _ready_messages(self) -> Iterable[Message]:
        return itertools.chain(self._ready, self._stranded)

    def _lock_until(self, message: Message, now: int) -> int:
        return now + self.settings.lock_duration

    def _lock_begins(self, message: Message) -> None:
        self._locks.set(message, message.locked_until)
        self.wake_at(message.locked_until)

    def _lock_ends(self, message: Message, token: bytes) -> None:
        self._locks.discard(message)

    def _expire_locks(self, now: int) -> None:
        for message in self._locks.take(now):
            self._unlock(message)
            self._return(message, now, failed=True)
        self.wake_at(self._locks.next)
        if self._retry_at > now:
            self.wake_at(self._retry_at)
