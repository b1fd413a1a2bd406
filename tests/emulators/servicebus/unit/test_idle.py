"""Entities that delete themselves when nobody uses them: what counts as use, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import (
    EntityMissing,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.entities.ingress import Ingress
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.message import Message, parse_message
from emulators.servicebus.rules.description import RuleDescription

IDLE = timedelta(minutes=5)
MINUTE = 60.0
SUBSCRIPTION = "t/Subscriptions/s"


class World:
    """A queue, a topic and a subscription that go after five idle minutes, and a queue that forwards to the first."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.namespace = Namespace(lambda: self.seconds, Forgetful())
        self.namespace.create("q", QueueDescription(auto_delete_on_idle=IDLE))
        self.namespace.create("t", TopicDescription(auto_delete_on_idle=IDLE))
        self.namespace.create(SUBSCRIPTION, SubscriptionDescription(auto_delete_on_idle=IDLE))
        self.namespace.create("source", QueueDescription(forward_to="q"))

    def after(self, minutes: float) -> World:
        self.seconds += minutes * MINUTE
        self.namespace.sweep()
        return self

    def has(self, path: str) -> bool:
        try:
            self.namespace.get(path)
        except EntityMissing:
            return False
        return True

    def send(self, path: str, message: Message) -> None:
        entity = self.namespace.find(path).entity
        assert isinstance(entity, Ingress)
        entity.accept([message], self.namespace.now())


def message() -> Message:
    return parse_message(b"\x00\x53\x75\xa0\x01x")


def test_what_nobody_uses_goes_after_its_time() -> None:
    """message-expiration, "Temporary entities"."""
    world = World()
    assert world.after(4.9).has("q")
    world.after(0.1)
    assert [world.has(path) for path in ("q", "t", SUBSCRIPTION, "source")] == [False, False, False, True]


USES: dict[str, tuple[str, Callable[[World], object]]] = {
    "an attach or a peek of a queue": ("q", lambda world: world.namespace.find("q")),
    "a peek of a subscription": (SUBSCRIPTION, lambda world: world.namespace.find(SUBSCRIPTION)),
    "a forwarded message": ("q", lambda world: world.send("source", message())),
    "a new setting": (
        "t", lambda world: world.namespace.update("t", TopicDescription(auto_delete_on_idle=IDLE, user_metadata="x"))
    ),
    "a new rule": (
        SUBSCRIPTION, lambda world: world.namespace.create_rule(SUBSCRIPTION, "r", RuleDescription())
    ),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_use_begins_the_time_anew(use: str) -> None:
    """message-expiration, "Idleness"."""
    path, act = USES[use]
    world = World()
    if path == SUBSCRIPTION:
        world.namespace.update("t", TopicDescription())
    world.after(4)
    act(world)
    assert world.after(4.9).has(path)
    assert not world.after(0.2).has(path)


def test_looking_at_settings_is_no_use() -> None:
    world = World()
    world.after(4).namespace.get("q")
    assert not world.after(1).has("q")


def test_messages_sent_to_the_topic_are_no_use_of_the_subscription() -> None:
    """message-expiration, "Idleness": of a subscription, only receives, updates, rules and peeks."""
    world = World()
    world.after(4).send("t", message())
    world.after(1)
    assert (world.has("t"), world.has(SUBSCRIPTION)) == (True, False)


def test_an_attached_link_is_use_until_it_goes() -> None:
    world = World()
    lost: list[AmqpError] = []
    release = world.namespace.watch(world.namespace.find("q"), "Listen", lost.append)
    assert world.after(60).has("q")
    release()
    assert world.after(4.9).has("q")
    assert not world.after(0.2).has("q")
    assert lost == []


def test_a_scheduled_message_keeps_its_queue() -> None:
    """message-expiration, "Idleness": no scheduled messages."""
    world = World()
    later = message()
    later.scheduled_at = world.namespace.now() + 3_600_000
    world.send("q", later)
    assert world.after(59).has("q")
    world.after(1.1)
    assert world.after(4.9).has("q")
    assert not world.after(5.1).has("q")


def test_a_new_limit_holds_from_now() -> None:
    world = World()
    world.after(4).namespace.update("q", QueueDescription())
    assert world.after(60).has("q")
    world.namespace.update("q", QueueDescription(auto_delete_on_idle=2 * IDLE))
    assert world.after(9).has("q")
    assert not world.after(1).has("q")
