"""A namespace for a router: a queue with sessions, a topic with a subscription, and messages that all become available at one moment.

The messages are scheduled, so that whoever is to route them can be started first and none of that is measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from bench.servicebus.broker import Broker

QUEUE: Final = "ingest-queue"
TOPIC: Final = "srv.db.orders.events"
SUBSCRIPTION: Final = "sub1"
_BATCH: Final = 200
_BODY: Final = json.dumps({"data": {"id": 1, "text": "x" * 430}, "metadata": {"Destination": TOPIC}}).encode()


def entities() -> dict[str, Any]:
    """Both entities, in the form of Microsoft's emulator."""
    queue = {"Name": QUEUE, "Properties": {"RequiresSession": True, "LockDuration": "PT5M"}}
    topic = {"Name": TOPIC, "Subscriptions": [{"Name": SUBSCRIPTION}]}
    return {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [queue], "Topics": [topic]}]}}


@contextmanager
def namespace(folder: Path, *, round_trip: float) -> Iterator[Broker]:
    """The emulator as a process; `round_trip`: milliseconds added to each."""
    configuration = folder / "Config.json"
    configuration.write_text(json.dumps(entities()))
    faults = [] if round_trip == 0 else ["--fault", f"round_trip_added:{round_trip}"]
    with Broker("--config", str(configuration), *faults) as broker:
        yield broker


def message(number: int, session: str) -> ServiceBusMessage:
    """About 615 octets on the wire, with the properties that the ingester gives."""
    return ServiceBusMessage(
        _BODY,
        message_id=f"{number:06}",
        subject="Insert",
        content_type="application/json",
        session_id=session,
        application_properties={"table": "Orders", "operation": "Insert", "destination": TOPIC},
    )


def schedule(broker: Broker, count: int, sessions: int) -> float:
    """Put `count` messages, in turn of each session, into the queue; return when (time.time()) they all become available."""
    due = time.time() + 2 + count / 1_200
    at = datetime.fromtimestamp(due, UTC)
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender(QUEUE) as sender,
    ):
        for first in range(0, count, _BATCH):
            numbers = range(first, min(first + _BATCH, count))
            sender.schedule_messages([message(number, str(number % sessions)) for number in numbers], at)
    late = datetime.now(UTC) - at
    if late > timedelta(0):
        raise SystemExit(f"filling the queue took {late} too long; the machine is busy")
    return due
