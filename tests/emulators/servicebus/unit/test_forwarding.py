"""Forwarding inside a namespace: every chain ends, nothing is lost on the way, and nothing holds up what comes after it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.queue import Queue
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.message import Message, parse_message
from emulators.servicebus.store.competing import RETRY, CompetingStore
from emulators.servicebus.store.forwarding import target_path
from emulators.servicebus.store.outcomes import Outcome


@dataclass(eq=False)
class Receiver:
    credit: int = 1
    receive_and_delete: bool = False
    got: list[tuple[bytes, Message]] = field(default_factory=list)

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None:
        self.credit -= 1
        self.got.append((token, message))

    def detach(self, failure: AmqpError) -> None: ...


class World:
    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.namespace = Namespace(lambda: self.seconds, Forgetful())

    def send(self, path: str, size: int = 1) -> None:
        entity = self.namespace.find(path).entity
        assert isinstance(entity, Queue | Topic)
        body = b"x" * size
        entity.accept([parse_message(b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + body)], self.namespace.now())

    def bury(self, path: str) -> None:
        """Receive one message and dead-letter it."""
        store = self.namespace.find(path).store
        assert isinstance(store, CompetingStore)
        receiver = Receiver()
        store.feed(receiver, self.namespace.now())
        store.settle(receiver.got[0][0], Outcome.DEAD_LETTER, self.namespace.now(), ("why", None))
        store.leave(receiver)

    def counts(self, path: str) -> tuple[int, int, int]:
        counts = self.namespace.get(path).counts
        return counts.active, counts.dead_letter, counts.transfer_dead_letter


def test_a_queue_that_forwards_to_itself_buries_what_it_gets() -> None:
    world = World()
    world.namespace.create("q", QueueDescription())
    world.namespace.update("q", QueueDescription(forward_to="Q", forward_dead_lettered_messages_to="q"))
    world.send("q")
    assert world.counts("q") == (0, 1, 0)


def test_a_subscription_that_forwards_to_its_topic_copies_four_times_to_every_other() -> None:
    world = World()
    world.namespace.create("t", TopicDescription())
    world.namespace.create("t/Subscriptions/back", SubscriptionDescription(forward_to="t"))
    world.namespace.create("t/Subscriptions/stay", SubscriptionDescription())
    world.send("t")
    assert [world.counts(f"t/Subscriptions/{name}") for name in ("back", "stay")] == [(0, 1, 0), (5, 0, 0)]


def test_dead_letters_going_round_come_to_rest() -> None:
    """Through a and b and back: four hops, one more for a dead letter, and then it stays."""
    world = World()
    create = world.namespace.create
    create("b", QueueDescription())
    create("a", QueueDescription(forward_dead_lettered_messages_to="b"))
    world.namespace.update("b", QueueDescription(forward_to="a", forward_dead_lettered_messages_to="a"))
    world.send("a")
    for _ in range(2):
        world.bury("a")
        assert world.counts("a") == (1, 0, 0)
    world.bury("a")
    assert [world.counts(path) for path in ("a", "b")] == [(0, 0, 0), (0, 1, 0)]


def test_a_dead_letter_that_can_never_be_taken_holds_up_none_after_it() -> None:
    world = World()
    world.namespace.create("small", QueueDescription(max_message_size_in_kilobytes=1))
    world.namespace.create("q", QueueDescription(forward_dead_lettered_messages_to="small"))
    world.send("q", 2000)
    world.send("q", 10)
    world.bury("q")
    world.bury("q")
    assert (world.counts("q"), world.counts("small")) == ((0, 1, 0), (1, 0, 0))
    world.namespace.update("small", QueueDescription())
    world.namespace.update("q", QueueDescription())
    assert world.counts("q") == (0, 1, 0)


def test_a_dead_letter_waits_for_its_destination_and_is_offered_again() -> None:
    """Azure/azure-service-bus issue 666."""
    world = World()
    world.namespace.create("end", QueueDescription())
    world.namespace.create("q", QueueDescription(forward_dead_lettered_messages_to="end"))
    world.namespace.update("end", QueueDescription(status="SendDisabled"))
    for _ in range(3):
        world.send("q")
        world.bury("q")
    assert world.counts("q") == (0, 3, 0)
    world.namespace.update("end", QueueDescription())
    world.namespace.sweep()
    assert world.counts("q") == (0, 3, 0)
    world.seconds += RETRY / 1000
    world.namespace.sweep()
    assert (world.counts("q"), world.counts("end")) == ((0, 0, 0), (3, 0, 0))


def test_a_message_forwarded_lives_anew() -> None:
    """It is a new message of its destination: time to live from now, no deliveries."""
    world = World()
    world.namespace.create("end", QueueDescription())
    world.namespace.create("q", QueueDescription(forward_dead_lettered_messages_to="end"))
    world.send("q")
    world.seconds += 5
    world.bury("q")
    (message,) = (world.namespace.find("end").store or pytest.fail("no store")).messages()
    assert (message.sequence, message.enqueue_sequence, message.delivery_count) == (1, 1, 0)
    assert (message.enqueued_at, message.dead_letter_source) == (1_005_000, "q")


def test_a_message_of_a_subscription_names_it_as_its_source() -> None:
    world = World()
    world.namespace.create("end", QueueDescription())
    world.namespace.create("t", TopicDescription())
    world.namespace.create("t/Subscriptions/S", SubscriptionDescription(forward_dead_lettered_messages_to="end"))
    world.send("t")
    world.bury("t/subscriptions/s")
    (message,) = (world.namespace.find("end").store or pytest.fail("no store")).messages()
    assert message.dead_letter_source == "t/Subscriptions/S"


@pytest.mark.parametrize(("address", "path"), [
    ("orders", "orders"), ("a/b", "a/b"), ("sb://host/a/b", "a/b"), ("https://host:5300/Orders/", "Orders"),
])  # fmt: skip
def test_a_destination_is_a_path_or_a_uri(address: str, path: str) -> None:
    assert target_path(address) == path
