"""How fast BusSender sends, with messages encoded here and with those that Azure's client builds; against the emulator.

    .venv/bin/python bench/sender.py [--messages 10000] [--rounds 5] [--page 1000]

Messages as the ingester's: 500 octets of JSON, an id, a session, a subject and six properties, sent in pages of one session. The two
ways take turns, and the median of the rounds counts: microseconds of processor time of this process and of the emulator's a message,
messages a second by the clock. The last line is JSON with the same figures. Linux only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from unittest.mock import patch

from bench.servicebus.broker import Broker
from common.message import Message
from common.servicebus.namespace import ServiceBus
from common.servicebus.sender import BusSender
from common.servicebus.wire import batches as servicebus_batches

QUEUE = "changes"
WAYS: dict[str, Callable[[], bool]] = {"sdk": lambda: False, "ours": servicebus_batches.supported}
FIGURES = ("client_us", "broker_us", "messages_s")

_BODY = json.dumps({"data": {"text": "x" * 480}}).encode()
_PROPERTIES = {
    "table": "Orders",
    "schema": "sales",
    "database": "Shop",
    "operation": "insert",
    "lsn": "0000002a000001f80003",
    "destination": "server.shop.sales.orders",
}


def page(size: int) -> list[Message]:
    """One session's changes. Their ids come again with the next page: the queue does not look for duplicates."""
    return [
        Message(
            _BODY,
            f"Shop.sales.orders:0000002a000001f80003-1-0000002a000001f8{number:04x}-2",
            session_id="server/shop/sales/orders",
            subject="insert",
            application_properties=_PROPERTIES,
        )
        for number in range(size)
    ]


def measure(broker: Broker, sender: BusSender, messages: Sequence[Message], pages: int) -> tuple[float, float, float]:
    """The figures of one turn."""
    before, own, started = broker.processor(), time.process_time(), time.perf_counter()
    for _ in range(pages):
        sender.send(messages)
    took, own, count = time.perf_counter() - started, time.process_time() - own, pages * len(messages)
    return own / count * 1e6, (broker.processor() - before) / count * 1e6, count / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=int, default=1_000, help="messages handed over at once")
    chosen = parser.parse_args()
    if not servicebus_batches.supported():
        raise SystemExit("this azure-servicebus is not the one whose batches are filled from outside")
    turns: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        queues = [{"Name": QUEUE, "Properties": {"RequiresSession": True}}]
        configuration = Path(folder, "Config.json")
        configuration.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "bench", "Queues": queues}]}}))
        with Broker("--config", str(configuration)) as broker:
            bus = ServiceBus.from_connection_string(broker.connection_string)
            with closing(bus), closing(bus.sender(QUEUE)) as sender:
                messages = page(chosen.page)
                sender.send(messages)
                for _ in range(chosen.rounds):
                    for way, supported in WAYS.items():
                        with patch.object(servicebus_batches, "supported", supported):
                            turns[way].append(measure(broker, sender, messages, -(-chosen.messages // chosen.page)))
    figures = {
        f"{way}_{name}": round(median(turn[at] for turn in turns[way]), 1)
        for way in WAYS
        for at, name in enumerate(FIGURES)
    }
    figures["client_us_ratio"] = round(figures["ours_client_us"] / figures["sdk_client_us"], 3)
    figures["messages_s_ratio"] = round(figures["ours_messages_s"] / figures["sdk_messages_s"], 2)
    for name, value in figures.items():
        print(f"{name:<20}{value:>12}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
