"""A namespace for a router: a queue with sessions, a topic with a subscription, and changes that all become available at one moment,
each alone or in packs.

The messages are scheduled, so that whoever is to route them can be started first and none of that is measured.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from azure.servicebus import ServiceBusClient

from bench.servicebus.broker import Broker
from common.bus.packing import packed
from common.message import Message
from common.servicebus.wire.messages import to_sdk

QUEUE: Final = "ingest-queue"
TOPIC: Final = "srv.db.orders.events"
SUBSCRIPTION: Final = "sub1"
_BATCH: Final = 200
_SLOWEST: Final = 6.0
"""How many times longer the queue may take to be filled on a machine that does other work."""
_LARGEST: Final = 240_000
"""Octets of a pack: what fits a message of Standard, with room for the request that schedules it."""

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


def change(number: int, session: str) -> Message:
    """About 615 octets on the wire, with the properties that the ingester gives."""
    return Message(
        _BODY,
        f"{number:06}",
        session,
        "Insert",
        application_properties={"table": "Orders", "operation": "Insert", "destination": TOPIC},
    )


def changes(count: int, sessions: int, *, most: int = 1) -> list[Message]:
    """`count` changes, in turn of each session; with `most` above 1, up to so many of a session in a message."""
    found = [change(number, str(number % sessions)) for number in range(count)]
    return found if most == 1 else [parcel.message for parcel in packed(found, most=most, limit=_LARGEST)]


def schedule(broker: Broker, messages: Sequence[Message]) -> float:
    """Put them into the queue; return when (time.time()) they all become available."""
    octets = sum(len(message.body) for message in messages)
    others = os.getloadavg()[0] / (os.cpu_count() or 1)
    due = time.time() + (4 + octets / 300_000) * min(_SLOWEST, max(1.0, others / 2))
    at = datetime.fromtimestamp(due, UTC)
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender(QUEUE) as sender,
    ):
        for first in range(0, len(messages), each := max(1, _BATCH * len(messages) * len(_BODY) // octets)):
            sender.schedule_messages([to_sdk(message) for message in messages[first : first + each]], at)
    late = datetime.now(UTC) - at
    if late > timedelta(0):
        raise SystemExit(f"filling the queue took {late} too long; the machine is busy")
    return due
