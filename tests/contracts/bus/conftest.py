"""Who keeps the promises of common/bus/ports.py: the fake, the adapter on the emulator, and on a real namespace where one is given.

DSTREAM_TEST_SERVICEBUS: a namespace's connection string with the Manage right. Entities get names of their own and are deleted.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue
from azure.servicebus.management import ServiceBusAdministrationClient

from common.bus.ports import OpenableSender, QueueNeed, Receivers
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.faults.catalogue import SendsRefused
from emulators.servicebus.server import ServiceBusEmulator
from tests.fakes.bus import FakeBroker


class Bus(ABC):
    """What the suite needs of an implementation: a queue `plain`, a queue `lanes` with sessions, and trouble to order."""

    plain = "plain"
    lanes = "lanes"

    @abstractmethod
    def sender(self, entity: str) -> OpenableSender: ...

    @abstractmethod
    def receivers(self, queue: str) -> Receivers: ...

    @abstractmethod
    def mismatched(self, queue: str) -> Receivers:
        """Receivers that take a queue for what it is not."""

    @abstractmethod
    def dead_letters(self, queue: str) -> list[tuple[bytes, str | None, str | None]]: ...

    def close_later(self, sender: OpenableSender) -> None:
        """The SDK takes a second to end a sender's thread; nobody here waits for that."""
        threading.Thread(target=sender.close).start()

    def expire_locks(self) -> None:
        raise NotImplementedError("locks of a real namespace last a minute")

    def refuse(self, message_id: str) -> None:
        """From now on `plain` refuses the message of this id for what it is."""
        raise NotImplementedError("a real namespace refuses what it wants")

    def cut(self) -> None:
        raise NotImplementedError("nobody can cut a real namespace's connections from here")


class InMemory(Bus):
    def __init__(self) -> None:
        self._broker = FakeBroker()
        self._broker.create(self.plain)
        self._broker.create(self.lanes, sessions=True)

    def sender(self, entity: str) -> OpenableSender:
        return self._broker.sender(entity)

    def receivers(self, queue: str) -> Receivers:
        return self._broker.receivers(queue, sessions=queue == self.lanes)

    def mismatched(self, queue: str) -> Receivers:
        return self._broker.receivers(queue, sessions=queue != self.lanes)

    def dead_letters(self, queue: str) -> list[tuple[bytes, str | None, str | None]]:
        return [(message.body, reason, text) for message, reason, text in self._broker.entity(queue).dead]

    def expire_locks(self) -> None:
        self._broker.expire_locks()

    def refuse(self, message_id: str) -> None:
        self._broker.entity(self.plain).refuses = [message_id]


class OnServiceBus(Bus):
    """The adapter, on any namespace that its connection string leads to."""

    def __init__(self, connection_string: str, management_endpoint: str | None) -> None:
        self._connection_string = connection_string
        self.management_endpoint = management_endpoint
        self.bus = ServiceBus.from_connection_string(connection_string)
        unique = uuid.uuid4().hex[:8]
        self.plain, self.lanes = f"plain-{unique}", f"lanes-{unique}"
        needs = [QueueNeed(self.plain, sessions=False), QueueNeed(self.lanes, sessions=True)]
        provision(self.bus.address, needs, how="create", management_endpoint=management_endpoint)

    def sender(self, entity: str) -> OpenableSender:
        return self.bus.sender(entity)

    def receivers(self, queue: str) -> Receivers:
        return self.bus.receivers(queue, sessions=queue == self.lanes, prefetch=50)

    def mismatched(self, queue: str) -> Receivers:
        return self.bus.receivers(queue, sessions=queue != self.lanes, prefetch=50)

    def dead_letters(self, queue: str) -> list[tuple[bytes, str | None, str | None]]:
        with (
            ServiceBusClient.from_connection_string(self._connection_string) as client,
            client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
        ):
            found = receiver.receive_messages(10, max_wait_time=2)
            return [
                (b"".join(each.body), each.dead_letter_reason, each.dead_letter_error_description) for each in found
            ]


class OnEmulator(OnServiceBus):
    def __init__(self) -> None:
        self._ahead = 0.0
        self._faults = ExitStack()
        self._emulator = ServiceBusEmulator(clock=lambda: time.time() + self._ahead)
        self._emulator.start()
        try:
            super().__init__(self._emulator.connection_string, f"http://127.0.0.1:{self._emulator.http_port}")
        except BaseException:
            self._emulator.stop()
            raise

    def expire_locks(self) -> None:
        self._ahead += timedelta(minutes=2).total_seconds()

    def refuse(self, message_id: str) -> None:
        self._faults.enter_context(
            self._emulator.inject(SendsRefused(self.plain, "amqp:not-allowed", None, message_id))
        )

    def cut(self) -> None:
        self._emulator.drop_connections()

    def stop(self) -> None:
        self._faults.close()
        self._emulator.stop()


@pytest.fixture
def emulator() -> Iterator[ServiceBusEmulator]:
    """For tests that need a namespace of their own and nothing in it."""
    with ServiceBusEmulator() as running:
        yield running


FAULTS = frozenset({"cuts_connections", "expires_locks", "refuses_messages"})
"""Marks of tests that need a fault."""

CANNOT = {"fake": {"cuts_connections"}, "emulator": set[str](), "real": FAULTS}
"""Every implementation, with those faults that nobody can make there."""


def _implementations() -> list[str]:
    return [name for name in CANNOT if name != "real" or os.environ.get("DSTREAM_TEST_SERVICEBUS")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that needs a fault is run only where that fault can be made, instead of being skipped elsewhere."""
    if metafunc.module.__name__.rpartition(".")[2] != "test_bus":  # the other modules here bring a `bus` of their own
        return
    needed = {mark.name for mark in metafunc.definition.iter_markers()}
    names = [name for name in _implementations() if not needed & CANNOT[name]]
    metafunc.parametrize("bus", names, indirect=True)


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    if request.param == "fake":
        yield InMemory()
    elif request.param == "emulator":
        emulated = OnEmulator()
        yield emulated
        emulated.stop()
    else:
        text = os.environ["DSTREAM_TEST_SERVICEBUS"]
        real = OnServiceBus(text, os.environ.get("DSTREAM_TEST_SERVICEBUS_MANAGEMENT"))
        yield real
        with ServiceBusAdministrationClient.from_connection_string(text) as admin:
            admin.delete_queue(real.plain)
            admin.delete_queue(real.lanes)
