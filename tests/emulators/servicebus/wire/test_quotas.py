"""What fills an entity beside messages and dead letters, and limits of its own; the rest is in the contract (items 46 and 48)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    ServiceBusQuotaExceededError,
)

from emulators.servicebus.description import QueueDescription
from tests.emulators.servicebus.conftest import LOCK, Bus

CHUNK = "x" * 200_000
FITTING = 5
"""Chunks that fit into a megabyte."""


def queue(**settings: Any) -> QueueDescription:
    return QueueDescription(lock_duration=LOCK, **settings)


def test_scheduled_messages_fill_a_queue_too(bus: Bus) -> None:
    bus.create("filling", queue(max_size_in_megabytes=1))
    due = datetime.now(UTC) + timedelta(seconds=bus.clock.offset) + timedelta(hours=1)
    numbers = [bus.sender("filling").schedule_messages(ServiceBusMessage(CHUNK), due)[0] for _ in range(FITTING)]
    with pytest.raises(ServiceBusQuotaExceededError):
        bus.send("filling", CHUNK)
    bus.sender("filling").cancel_scheduled_messages(numbers[:1])
    bus.send("filling", CHUNK)


def test_a_message_beyond_the_entitys_limit_is_refused(bus: Bus) -> None:
    bus.create("small", queue(max_message_size_in_kilobytes=1))
    with pytest.raises(MessageSizeExceededError):
        bus.send("small", "x" * 1100)
    bus.send("small", "x" * 500)
    assert len(bus.drain("small")) == 1
