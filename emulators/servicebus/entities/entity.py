"""Queues, topics and subscriptions: what happens to a message between its sender and the stores.

Accepting is atomic: a batch goes in whole or not at all. Duplicates inside the detection window are accepted and dropped
without a word. A scheduled message waits with a sequence number of its own and gets another one when it is enqueued.
Every subscription gets the copies of a message that its rules make; one that cannot take its copy, because it has no session
or because a rule failed on it, keeps it as a dead letter.
Sources: learn.microsoft.com "Duplicate detection", "Message sequencing and timestamps", "Topic filters and actions",
"Dead-letter queues".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import (
    FOREVER,
    Description,
    EntityExists,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    RuntimeCounts,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.journal import SCHEDULE
from emulators.servicebus.message import Message
from emulators.servicebus.rules import InvalidRule, RuleSet
from emulators.servicebus.rules.description import RuleDescription, RuleInfo
from emulators.servicebus.store.forwarding import NO_SESSION
from emulators.servicebus.store.schedule import Schedule
from emulators.servicebus.store.shelf import Shelf

from .duplicates import DuplicateHistory
from .outlet import Outlet, Surroundings, milliseconds

SendSettings = QueueDescription | TopicDescription

FILTER_FAILED: Final = "FilterEvaluationException"
"""Reason of a dead letter; its description is the error. That it becomes one is documented, the reason is not."""


class Ingress(ABC):
    """An entity one can send to."""

    description: SendSettings

    def __init__(self, path: str, around: Surroundings) -> None:
        self.path = path
        self.schedule = Schedule(Shelf(around.journal, path + SCHEDULE), around.alarm)
        self.history = DuplicateHistory(around.journal, path)

    @property
    def max_message_size(self) -> int:
        """Octets."""
        return self.description.max_message_size_in_kilobytes * 1024

    @property
    @abstractmethod
    def size(self) -> int:
        """Octets of all messages."""

    @abstractmethod
    def restore_sequence(self, sequence: int) -> None:
        """Put back the last sequence number given out."""

    @abstractmethod
    def _next_sequence(self) -> int: ...

    @abstractmethod
    def _enqueue(self, message: Message, now: int) -> int: ...

    @abstractmethod
    def _pump(self, now: int) -> None: ...

    def _check(self, messages: list[Message]) -> None:
        """May these come in? Raises AmqpError."""
        require_enabled(self.path, self.description.status, ("SendDisabled",))
        for message in messages:
            if message.size > self.max_message_size:
                raise too_large(message.size, self.max_message_size)
        if self.size + sum(m.size for m in messages) > self.description.max_size_in_megabytes << 20:
            text = f"The maximum entity size of '{self.path}' has been reached or exceeded."
            raise AmqpError("amqp:resource-limit-exceeded", text)

    def accept(self, messages: list[Message], now: int) -> list[int]:
        """Take messages in, all or none; their sequence numbers. Raises AmqpError.

        A dropped duplicate has the number 0, or one of its own if it was scheduled (Azure/azure-service-bus issue 265).
        """
        self._check(messages)
        self.release_due(now)
        sequences = [self._accept_one(message, now) for message in messages]
        self._pump(now)
        return sequences

    def _accept_one(self, message: Message, now: int) -> int:
        due = message.scheduled_at if message.scheduled_at is not None and message.scheduled_at > now else None
        if self.description.requires_duplicate_detection and message.message_id is not None:
            window = milliseconds(self.description.duplicate_detection_history_time_window)
            if not self.history.is_new(message.message_id, now, window):
                return 0 if due is None else self._next_sequence()
        if due is None:
            return self._enqueue(message, now)
        message.sequence = self._next_sequence()
        message.enqueued_at = now
        self.schedule.add(message, due)
        return message.sequence

    def cancel_scheduled(self, sequences: Iterable[int]) -> None:
        """Raises AmqpError."""
        self.schedule.cancel(sequences)

    def release_due(self, now: int) -> None:
        """Enqueue the scheduled messages whose time has come."""
        if self.schedule.due > now:
            return
        for message in self.schedule.take_due(now):
            self._enqueue(message, now)
        self._pump(now)


class Queue(Ingress):
    """A queue."""

    description: QueueDescription

    def __init__(self, path: str, description: QueueDescription, around: Surroundings) -> None:
        super().__init__(path, around)
        self.description = description
        self.outlet = Outlet(path, description, around)

    @property
    def size(self) -> int:
        return self.outlet.size + self.schedule.size

    def reconfigure(self, description: Description, now: int) -> None:
        """New settings, from now on."""
        assert isinstance(description, QueueDescription)
        self.description = description
        self.outlet.reconfigure(description, now)

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        store, dead, undelivered = self.outlet.stores()
        return RuntimeCounts(
            active=len(store),
            dead_letter=len(dead),
            transfer_dead_letter=len(undelivered),
            scheduled=len(self.schedule),
            size_in_bytes=self.size,
        )

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return min(self.schedule.due, self.outlet.due)

    def sweep(self, now: int) -> None:
        """Do what is due."""
        self.release_due(now)
        self.outlet.sweep(now)

    def _check(self, messages: list[Message]) -> None:
        super()._check(messages)
        if self.description.requires_session:
            require_sessions(self.path, messages)

    def restore_sequence(self, sequence: int) -> None:
        self.outlet.store.restore_sequence(sequence)

    def _next_sequence(self) -> int:
        return self.outlet.store.next_sequence()

    def _enqueue(self, message: Message, now: int) -> int:
        return self.outlet.store.enqueue(message, now)

    def _pump(self, now: int) -> None:
        self.outlet.store.pump(now)


class Subscription:
    """A subscription: an outlet that a topic fills, with what its rules make of a message.

    `rules` by lower-case name, in order of their creation.
    """

    def __init__(self, path: str, description: SubscriptionDescription, around: Surroundings) -> None:
        self.path = path
        self.description = description
        self.outlet = Outlet(path, description, around)
        self.rules: dict[str, RuleInfo] = {}
        self._journal = around.journal
        self._rule_set = RuleSet(())

    def reconfigure(self, description: Description, now: int) -> None:
        """New settings, from now on."""
        assert isinstance(description, SubscriptionDescription)
        self.description = description
        self.outlet.reconfigure(description, now)

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        store, dead, undelivered = self.outlet.stores()
        return RuntimeCounts(
            active=len(store),
            dead_letter=len(dead),
            transfer_dead_letter=len(undelivered),
            size_in_bytes=self.outlet.size,
        )

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return self.outlet.due

    def sweep(self, now: int) -> None:
        """Do what is due."""
        self.outlet.sweep(now)

    # -- rules

    def rule(self, name: str) -> RuleInfo:
        """Raises EntityMissing."""
        rule = self.rules.get(name.lower())
        if rule is None:
            raise EntityMissing(f"the rule '{name}' does not exist on '{self.path}'")
        return rule

    def create_rule(self, name: str, description: RuleDescription, created_at: datetime) -> RuleInfo:
        """Raises EntityExists, InvalidEntity for an expression that is none."""
        if name.lower() in self.rules:
            raise EntityExists(f"the rule '{name}' exists already on '{self.path}'")
        return self._keep_rule(RuleInfo(name, description, created_at))

    def update_rule(self, name: str, description: RuleDescription) -> RuleInfo:
        """Raises EntityMissing, InvalidEntity for an expression that is none."""
        rule = self.rule(name)
        return self._keep_rule(RuleInfo(rule.name, description, rule.created_at))

    def delete_rule(self, name: str) -> None:
        """Raises EntityMissing."""
        rule = self.rule(name)
        del self.rules[name.lower()]
        self._rule_set = RuleSet(self.rules.values())
        self._journal.drop_rule(self.path.lower(), rule.name)

    def restore_rule(self, rule: RuleInfo) -> None:
        """Put back a rule that the journal kept. Raises InvalidEntity."""
        rules = {**self.rules, rule.name.lower(): rule}
        try:
            self._rule_set = RuleSet(rules.values())
        except InvalidRule as error:
            raise InvalidEntity(f"the rule '{rule.name}' of '{self.path}': {error}") from None
        self.rules = rules

    def _keep_rule(self, rule: RuleInfo) -> RuleInfo:
        self.restore_rule(rule)
        self._journal.save_rule(self.path.lower(), rule)
        return rule

    # -- messages from the topic

    def take(self, message: Message, now: int) -> None:
        """Take in copies of a message; the caller pumps."""
        if self._rule_set.takes_everything:
            self._enqueue(message.copy(), now)
            return
        copies = self._rule_set.copies(message)
        for copy in copies.messages:
            self._enqueue(copy, now)
        if copies.failure is not None and self.description.dead_lettering_on_filter_evaluation_exceptions:
            self.outlet.bury(message.copy(), now, FILTER_FAILED, copies.failure)

    def _enqueue(self, message: Message, now: int) -> None:
        if self.description.requires_session and message.session_id is None:
            self.outlet.bury(message, now, *NO_SESSION)
        else:
            self.outlet.store.enqueue(message, now)


class Topic(Ingress):
    """A topic and its subscriptions, by lower-case name."""

    description: TopicDescription

    def __init__(self, path: str, description: TopicDescription, around: Surroundings) -> None:
        super().__init__(path, around)
        self.description = description
        self.subscriptions: dict[str, Subscription] = {}
        self._shelf = Shelf(around.journal, path)
        self._sequence = 0

    @property
    def size(self) -> int:
        return self.schedule.size + sum(s.outlet.size for s in self.subscriptions.values())

    def reconfigure(self, description: Description, now: int) -> None:
        """New settings, from now on."""
        assert isinstance(description, TopicDescription)
        self.description = description

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        return RuntimeCounts(
            scheduled=len(self.schedule), size_in_bytes=self.size, subscriptions=len(self.subscriptions)
        )

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return self.schedule.due

    def sweep(self, now: int) -> None:
        """Do what is due; its subscriptions are swept by themselves."""
        self.release_due(now)

    def restore_sequence(self, sequence: int) -> None:
        self._sequence = sequence

    def _next_sequence(self) -> int:
        self._sequence += 1
        self._shelf.save_sequence(self._sequence)
        return self._sequence

    def _enqueue(self, message: Message, now: int) -> int:
        sequence = self._next_sequence()
        ttl = self.description.default_message_time_to_live
        if ttl != FOREVER and (message.ttl is None or message.ttl > milliseconds(ttl)):
            message.ttl = milliseconds(ttl)
        message.sequence = sequence
        message.enqueued_at = now
        if message.enqueue_sequence is None:
            message.enqueue_sequence = sequence
        for subscription in self.subscriptions.values():
            subscription.take(message, now)
        return sequence

    def _pump(self, now: int) -> None:
        for subscription in self.subscriptions.values():
            subscription.outlet.store.pump(now)


Entity = Queue | Topic | Subscription


def require_enabled(path: str, status: str, disabling: tuple[str, ...]) -> None:
    """Raises AmqpError when the entity's status forbids."""
    if status == "Disabled" or status in disabling:
        raise AmqpError("com.microsoft:entity-disabled", f"The messaging entity '{path}' is currently {status}.")


def require_sessions(path: str, messages: list[Message]) -> None:
    """Raises AmqpError when a message has no session id."""
    if any(message.session_id is None for message in messages):
        text = f"The SessionId was not set on a message, and it cannot be sent to the entity '{path}', which requires sessions."
        raise AmqpError("amqp:not-allowed", text)


def too_large(size: int | None, limit: int) -> AmqpError:
    """The answer to a message above the entity's limit; `size` None when nobody counted to the end."""
    what = "The received message" if size is None else f"The received message (size:{size})"
    return AmqpError("amqp:link:message-size-exceeded", f"{what} exceeds the limit ({limit} bytes) of the entity.")
