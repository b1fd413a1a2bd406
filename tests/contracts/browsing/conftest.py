"""Who keeps the promises of common/bus/browsing.py: the adapter on the emulator, and on a real namespace where one is given.

DSTREAM_TEST_SERVICEBUS: as in tests/contracts/bus/conftest.py.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.management import ServiceBusAdministrationClient

from common.bus.browsing import Browser, Lying, Shelf, Shelves, Taker
from common.bus.ports import Need, QueueNeed, TopicNeed
from common.message import Message
from common.servicebus.namespace import ServiceBus
from common.servicebus.operating.shelves import ServiceBusShelves
from common.servicebus.provision import provision
from emulators.servicebus.server import ServiceBusEmulator


class House:
    """A queue with sessions, one without, and a topic with two subscriptions, on any namespace."""

    def __init__(self, connection_string: str, endpoint: str | None) -> None:
        unique = uuid.uuid4().hex[:8]
        self.lanes, self.plain, self.topic = f"lanes-{unique}", f"plain-{unique}", f"topic-{unique}"
        self.connection_string = connection_string
        self.bus = ServiceBus.from_connection_string(connection_string)
        self.shelves: Shelves = ServiceBusShelves(self.bus, endpoint)
        needs: list[Need] = [
            QueueNeed(self.lanes, sessions=True),
            QueueNeed(self.plain, sessions=False),
            TopicNeed(self.topic, ("first", "second")),
        ]
        provision(self.bus.address, needs, how="create", management_endpoint=endpoint)
        self.closed = ExitStack()

    def browser(self, shelf: Shelf) -> Browser:
        made = self.shelves.browser(shelf)
        self.closed.callback(made.close)
        return made

    def taker(self, shelf: Shelf) -> Taker:
        made = self.shelves.taker(shelf)
        self.closed.callback(made.close)
        return made

    def send(self, entity: str, messages: Sequence[Message]) -> None:
        sender = self.bus.sender(entity)
        sender.send(messages)
        sender.close()

    def bury(self, shelf: Shelf, messages: Sequence[Message]) -> None:
        """Send them and make dead letters of them, in their order."""
        self.send(shelf.entity, messages)
        with ServiceBusClient.from_connection_string(self.connection_string) as client:
            sessions = (
                list(dict.fromkeys(each.session_id for each in messages)) if shelf.entity == self.lanes else [None]
            )
            for session in sessions:
                if shelf.subscription is not None:
                    receiver = client.get_subscription_receiver(shelf.entity, shelf.subscription)
                else:
                    receiver = client.get_queue_receiver(shelf.entity, session_id=session)
                wanted = len([each for each in messages if session is None or each.session_id == session])
                with receiver:
                    while wanted > 0:
                        for each in receiver.receive_messages(wanted, max_wait_time=10):
                            receiver.dead_letter_message(each, reason="Refused", error_description="on purpose")
                            wanted -= 1


class Emulated(House):
    def __init__(self) -> None:
        self.ahead = 0.0
        self.emulator = ServiceBusEmulator(clock=lambda: time.time() + self.ahead)
        self.emulator.start()
        super().__init__(self.emulator.connection_string, f"http://127.0.0.1:{self.emulator.http_port}")

    def expire_locks(self) -> None:
        self.ahead += timedelta(minutes=6).total_seconds()


def all_of(browser: Browser, *, most: int = 100, first: int = 0) -> list[Lying]:
    found: list[Lying] = []
    while page := browser.page(first=first, most=most):
        found += page
        first = page[-1].sequence + 1
    return found


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    house = Emulated()
    try:
        yield house
    finally:
        house.closed.close()
        house.emulator.stop()


@pytest.fixture(params=["emulator", "real"] if os.environ.get("DSTREAM_TEST_SERVICEBUS") else ["emulator"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    if request.param == "emulator":
        yield request.getfixturevalue("emulated")
        return
    text = os.environ["DSTREAM_TEST_SERVICEBUS"]
    real = House(text, os.environ.get("DSTREAM_TEST_SERVICEBUS_MANAGEMENT"))
    yield real
    real.closed.close()
    with ServiceBusAdministrationClient.from_connection_string(text) as admin:
        admin.delete_queue(real.lanes)
        admin.delete_queue(real.plain)
        admin.delete_topic(real.topic)
