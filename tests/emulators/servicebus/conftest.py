"""A namespace to try with Azure's own client: the emulator on a clock that tests move.

Every sender and receiver of the SDK opens a connection of its own, so a module shares them. The SDK is used as it is, but
for the length of the naps it takes while it polls.
"""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    _servicebus_receiver,
    _servicebus_sender,
    _session_browser,
)
from azure.servicebus._pyamqp import client
from azure.servicebus._pyamqp.aio import _client_async
from azure.servicebus.aio import _servicebus_receiver_async, _servicebus_sender_async, _session_browser_async

from emulators.servicebus.description import Description, QueueDescription
from emulators.servicebus.server import ServiceBusEmulator

LOCK = timedelta(seconds=5)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The SDK forgets the socket of a connection that failed: whichever test the collector finds it in is not to blame."""
    for test in items:
        if test.path.is_relative_to(Path(__file__).parent):
            test.add_marker(pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"))


def forget_sockets() -> None:
    """The SDK forgets the socket of a connection that failed or was refused: let none outlive those who can bear it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Impatient:
    """The time module for the SDK's polling loops: what they say stays the same, only they say it sooner."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 20)


class ImpatientLoop:
    """The asyncio module, for the same loops of the asyncio client."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


@pytest.fixture(autouse=True, scope="session")
def impatient_client() -> Iterator[None]:
    """Opening takes the SDK half a second of sleeps of 50 ms, closing a second for its keep-alive thread to wake up."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_servicebus_sender, _servicebus_receiver, _session_browser, client):
            patch.setattr(module, "time", Impatient())
        for module in (_servicebus_sender_async, _servicebus_receiver_async, _session_browser_async, _client_async):
            patch.setattr(module, "asyncio", ImpatientLoop())
        yield


class Clock:
    """The wall clock, moved forward at will."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset

    def advance(self, duration: timedelta) -> None:
        self.offset += duration.total_seconds()


class Bus:
    """The emulator and one client whose senders and receivers are opened once."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.emulator = ServiceBusEmulator(
            keys={"RootManageSharedAccessKey": "root key", "Sender": "sender key", "Listener": "listener key"},
            rights={"Sender": ["Send"], "Listener": ["Listen"]},
            clock=self.clock,
        )
        self.emulator.start()
        self.client = ServiceBusClient.from_connection_string(
            self.emulator.connection_string, retry_total=0, keep_alive=0
        )
        self._open: dict[tuple[Any, ...], ServiceBusSender | ServiceBusReceiver] = {}

    def close(self) -> None:
        # Each waits up to a second for a thread of its own.
        with ThreadPoolExecutor(max_workers=max(len(self._open), 1)) as pool:
            list(pool.map(lambda handler: handler.close(), self._open.values()))
        self.client.close()
        self.emulator.stop()
        forget_sockets()

    def create(self, path: str, description: Description | None = None) -> str:
        """Create an entity unless it is there; a queue with a short lock when nothing is said."""
        known = {info.path for info in (*self.emulator.admin.queues(), *self.emulator.admin.topics())}
        if path not in known:
            self.emulator.admin.create(path, description or QueueDescription(lock_duration=LOCK))
        return path

    def sender(self, queue: str) -> ServiceBusSender:
        sender: ServiceBusSender = self._shared(("sender", queue), lambda: self.client.get_queue_sender(queue))
        return sender

    def receiver(self, queue: str, **options: Any) -> ServiceBusReceiver:
        key = ("receiver", queue, *sorted(options.items()))
        receiver: ServiceBusReceiver = self._shared(key, lambda: self.client.get_queue_receiver(queue, **options))
        return receiver

    def _shared(self, key: tuple[Any, ...], open_: Any) -> Any:
        if key not in self._open:
            self._open[key] = open_().__enter__()
        return self._open[key]

    def send(self, queue: str, *bodies: str, **properties: Any) -> None:
        self.sender(queue).send_messages([ServiceBusMessage(body, **properties) for body in bodies])

    def active(self, path: str) -> int:
        return self.emulator.admin.get(path).counts.active

    def dead(self, path: str) -> int:
        return self.emulator.admin.get(path).counts.dead_letter

    def drain(self, queue: str) -> list[str]:
        """Take everything out, by receive-and-delete; the bodies."""
        bodies: list[str] = []
        while count := self.active(queue):
            receiver = self.receiver(queue, receive_mode="receiveanddelete")
            bodies += [str(m) for m in receiver.receive_messages(count, max_wait_time=2)]
        return bodies


@pytest.fixture
def lonely_bus() -> Iterator[Bus]:
    """A namespace of the test's own, whose connections it may cut."""
    namespace = Bus()
    yield namespace
    namespace.close()


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    namespace = Bus()
    yield namespace
    namespace.close()
