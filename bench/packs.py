"""What a change costs in Service Bus credits and messages, and how fast it is routed, alone and in packs; on the emulator.

    .venv/bin/python -m bench.packs [--changes 5000] [--body 700]

The emulator counts credits as Standard charges them, in this process; the ingester's sender, the router and one subscriber of one topic
are in it too, so the rates say how the settings compare and no more. The last line is JSON with the same figures.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from contextlib import closing
from typing import Any

from azure.servicebus import ServiceBusClient

from common.bus.packing import MOST
from common.bus.ports import QueueNeed
from common.message import Message
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from common.servicebus.provision import provision
from emulators.servicebus.server import ServiceBusEmulator
from ingester.task.pack import PackingSender
from router.app import route
from router.settings import RouterSettings
from router.tally import Tally

QUEUE, TOPIC = "ingest-queue", "server.shop.dbo.orders.events"
PAGE = 2_000
PACKS = {"1": 1, "10": 10, "100": 100, "max": MOST}


def changes(count: int, size: int) -> list[Message]:
    """As the ingester's: bodies of `size` octets, ids and positions that differ, one table."""
    found = []
    for number in range(count):
        where = f"{number:020x}-1-{number:020x}-2"
        properties = {
            "table": "Orders",
            "schema": "dbo",
            "database": "Shop",
            "operation": "insert",
            "lsn": f"{number:020x}",
        }
        body = json.dumps({"data": {"n": number, "x": ""}})
        body = json.dumps({"data": {"n": number, "x": "x" * max(0, size - len(body))}})
        found.append(
            Message(
                body.encode(),
                f"Shop.dbo.Orders:{where}",
                "server/shop/dbo/orders",
                "insert",
                application_properties={**properties, "destination": TOPIC},
            )
        )
    return found


def measure(most: int, sent: list[Message]) -> dict[str, float]:
    with ServiceBusEmulator() as emulator:
        endpoint = f"http://127.0.0.1:{emulator.http_port}"
        bus = ServiceBus.from_connection_string(emulator.connection_string)
        provision(bus.address, [QueueNeed(QUEUE, sessions=True)], how="create", management_endpoint=endpoint)
        before = emulator.credits
        with closing(bus), closing(PackingSender(bus.sender(QUEUE), most)) as sender:
            started = time.perf_counter()
            for first in range(0, len(sent), PAGE):
                sender.send(sent[first : first + PAGE])
            sending = time.perf_counter() - started
        figures = {"queue messages": emulator.admin.get(QUEUE).counts.active, "sent/s": len(sent) / sending}
        namespace: dict[str, Any] = {"connection_string": emulator.connection_string, "management_endpoint": endpoint}
        settings = RouterSettings(
            source=namespace,
            output=namespace,
            queue_name=QUEUE,
            ordering="table",
            most_packed=most,
            topics={TOPIC: TableName("dbo", "Orders")},
        )
        figures["routed/s"] = len(sent) / _route(settings, len(sent))
        with (
            ServiceBusClient.from_connection_string(emulator.connection_string) as client,
            client.get_subscription_receiver(
                TOPIC, "sub1", receive_mode="receiveanddelete", prefetch_count=500
            ) as reader,
        ):
            count = 0
            while count < len(sent):
                count += len(reader.receive_messages(len(sent) - count, max_wait_time=10))
        spent = {kind: value - before.get(kind, 0) for kind, value in emulator.credits.items()}
    return figures | {f"credits for {kind}, a change": value / len(sent) for kind, value in sorted(spent.items())}


def _route(settings: RouterSettings, count: int) -> float:
    """Seconds from the first routed change to the last."""
    stop, tally, ready = threading.Event(), Tally(), threading.Event()
    router = threading.Thread(target=lambda: route(settings, stop, tally=tally, started=ready.set))
    router.start()
    ready.wait(30)
    started = time.perf_counter()
    while tally.routed.total() < count and not stop.wait(0.01):
        pass
    took = time.perf_counter() - started
    stop.set()
    router.join()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=5_000)
    parser.add_argument("--body", type=int, default=700, help="octets of a change's body")
    chosen = parser.parse_args()
    sent = changes(chosen.changes, chosen.body)
    figures = {name: measure(most, sent) for name, most in PACKS.items()}
    for name, found in figures.items():
        print(f"pack = {name}")
        for what, value in found.items():
            print(f"    {what:<36}{value:>12.3f}")
    print(
        json.dumps({name: {what: round(value, 4) for what, value in found.items()} for name, found in figures.items()})
    )


if __name__ == "__main__":
    main()
