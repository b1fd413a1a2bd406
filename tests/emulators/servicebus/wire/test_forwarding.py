"""Auto-forwarding inside the emulator: why something was not delivered, and which chains there can be; the rest is in the contract."""

from __future__ import annotations

from typing import Any

import pytest
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue

from emulators.servicebus.description import (
    InvalidEntity,
    QueueDescription,
)
from tests.emulators.servicebus.conftest import LOCK, Bus


def queue(bus: Bus, path: str, **settings: Any) -> str:
    return bus.create(path, QueueDescription(lock_duration=LOCK, **settings))


def take(bus: Bus, path: str, **options: Any) -> ServiceBusReceivedMessage:
    """The one message that is there."""
    receiver = bus.receiver(path, **options)
    (message,) = receiver.receive_messages(1, max_wait_time=5)
    receiver.complete_message(message)
    return message


@pytest.mark.parametrize(("what", "reason"), [
    ("disabled", "com.microsoft:entity-disabled"),
    ("full", "amqp:resource-limit-exceeded"),
    ("small", "amqp:link:message-size-exceeded"),
    ("ordered", "Session ID is null"),
    ("gone", "amqp:not-found"),
])  # fmt: skip
def test_what_the_destination_does_not_take_is_a_dead_letter_with_the_reason(bus: Bus, what: str, reason: str) -> None:
    """The reasons are not documented; that it is a dead letter is (contract, item 42)."""
    admin = bus.emulator.admin
    target = bus.create(f"{what}-end", QueueDescription(requires_session=what == "ordered"))
    queue(bus, what, forward_to=target)
    if what == "disabled":
        admin.update(target, QueueDescription(status="SendDisabled"))
    elif what == "full":
        fill(bus, target)
    elif what == "small":
        admin.update(target, QueueDescription(max_message_size_in_kilobytes=1))
    elif what == "gone":
        admin.delete(target)
    bus.send(what, "x" * 2000)
    assert (bus.active(what), bus.dead(what)) == (0, 1)
    message = take(bus, what, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert (str(message), message.dead_letter_reason) == ("x" * 2000, reason)
    assert bus.dead(what) == 0


def fill(bus: Bus, path: str) -> None:
    bus.emulator.admin.update(path, QueueDescription(max_size_in_megabytes=1))
    while bus.emulator.admin.get(path).counts.size_in_bytes + 100_000 < 1 << 20:
        bus.send(path, "x" * 100_000)
    bus.send(path, "x" * ((1 << 20) - bus.emulator.admin.get(path).counts.size_in_bytes - 1000))


def test_a_chain_must_lead_to_what_is_there(bus: Bus) -> None:
    """When the source is created or changed. service-bus-auto-forwarding."""
    admin = bus.emulator.admin
    queue(bus, "there")
    refused = [
        QueueDescription(forward_to="nowhere"),
        QueueDescription(forward_dead_lettered_messages_to="nowhere"),
        QueueDescription(forward_to="new"),
        QueueDescription(forward_to="there", requires_session=True),
    ]
    for description in refused:
        with pytest.raises(InvalidEntity, match="forward"):
            admin.create("new", description)
    with pytest.raises(InvalidEntity, match="forward"):
        admin.update("there", QueueDescription(lock_duration=LOCK, forward_to="nowhere"))


def test_what_goes_round_is_a_dead_letter_in_the_end(bus: Bus) -> None:
    """azure-servicebus, test_mgmt_queue_update_success: a queue may forward to itself."""
    queue(bus, "ring")
    bus.emulator.admin.update("ring", QueueDescription(lock_duration=LOCK, forward_to="ring"))
    bus.send("ring", "round")
    counts = bus.emulator.admin.get("ring").counts
    assert (counts.active, counts.dead_letter) == (0, 1)
