"""What a subscriber with npm @azure/service-bus reads after the router: the golden messages, and its own, with every property and byte."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from common.bus.ports import QueueNeed
from common.message import Message
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.server import ServiceBusEmulator
from router.app import run
from router.settings import RouterSettings
from router.tally import Tally
from tests.emulators.servicebus.clients.conftest import CACHE, HERE
from tests.emulators.servicebus.clients.scenario import MESSAGE, PROPERTIES, Step

GOLDEN = Path(__file__).parents[3] / "golden" / "messages"
CHANGES = ("insert", "update", "delete_in_another_schema")
PERSONS, ORDERS = "server.database.persons.events", "server.database.sales.orders.events"
OWN: dict[str, Any] = {
    **MESSAGE,
    "sessionId": "own",
    "partitionKey": "own",
    "applicationProperties": {**PROPERTIES, "destination": PERSONS},
}
"""The scenario's message, under a session and a destination of this test."""


@pytest.fixture(scope="module")
def received() -> dict[str, dict[str, Any]]:
    """What the JavaScript client found on the topics, by message id."""
    if not (CACHE / "node" / ".ready").exists() or which("node") is None:
        pytest.skip("@azure/service-bus is not set up: `make clients` does it where node is installed")
    with ServiceBusEmulator() as emulator:
        stop, tally = threading.Event(), Tally()
        with routing(emulator, stop, tally):
            bus, endpoint = ServiceBus.from_connection_string(emulator.connection_string), management(emulator)
            queue = QueueNeed("ingest-queue", sessions=True)
            provision(bus.address, [queue], how="create", management_endpoint=endpoint)
            send = {"op": "send", "name": "send", "to": "ingest-queue", "messages": [OWN]}
            assert javascript(emulator, [send]) == {"send": "sent"}
            with closing(bus.sender("ingest-queue")) as sender:
                sender.send([golden(name) for name in CHANGES])
            wait_for(tally, len(CHANGES) + 1)
        steps: list[Step] = [
            {"op": "receive", "name": topic, "from": f"{topic}/sub1", "count": count, "then": "complete"}
            for topic, count in ((PERSONS, len(CHANGES)), (ORDERS, 1))
        ]
        found = javascript(emulator, steps)
    return {message["messageId"]: message for topic in (PERSONS, ORDERS) for message in found[topic]}


def management(emulator: ServiceBusEmulator) -> str:
    return f"http://127.0.0.1:{emulator.http_port}"


@contextmanager
def routing(emulator: ServiceBusEmulator, stop: threading.Event, tally: Tally) -> Iterator[None]:
    namespace = {
        "connection_string": emulator.connection_string,
        "management_endpoint": management(emulator),
    }
    topics = {PERSONS: TableName("dbo", "Persons"), ORDERS: TableName("sales", "Orders")}
    given: dict[str, Any] = {"source": namespace, "output": namespace, "topics": topics}
    settings = RouterSettings(queue_name="ingest-queue", ordering="table", **given)
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(run(settings, stop, tally=tally)))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert ended == [0]


def wait_for(tally: Tally, count: int) -> None:
    deadline = time.monotonic() + 30
    while tally.routed.total() < count:
        assert time.monotonic() < deadline, tally
        time.sleep(0.02)


def javascript(emulator: ServiceBusEmulator, steps: list[Step]) -> Any:
    """Step name to what the client said."""
    server = {"connection": emulator.connection_string, "administration": emulator.connection_string}
    done = subprocess.run(
        ["node", str(HERE / "node" / "client.js")],
        env=os.environ | {"TZ": "UTC", "NODE_PATH": str(CACHE / "node" / "node_modules")},
        input=json.dumps({"server": server, "steps": steps}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def parts(name: str) -> tuple[str, Any]:
    """The body and the properties of a golden message."""
    body, _, properties = (GOLDEN / f"{name}.txt").read_text().partition("\n")
    return body, json.loads(properties)


def golden(name: str) -> Message:
    body, properties = parts(name)
    return Message(body.encode(), **properties)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_read_as_the_golden_message_says(received: dict[str, dict[str, Any]], name: str) -> None:
    body, properties = parts(name)
    assert received[properties["message_id"]] == {
        "body": body,
        "messageId": properties["message_id"],
        "sessionId": properties["session_id"],
        "subject": properties["subject"],
        "contentType": properties["content_type"],
        "applicationProperties": properties["application_properties"],
        "count": 0,
        "state": "active",
    }


def test_a_message_of_the_client_s_own_comes_back_with_every_property(received: dict[str, dict[str, Any]]) -> None:
    assert received[OWN["messageId"]] == OWN | {"count": 0, "state": "active"}
