"""A queue that nobody takes from until a million messages are in it: memory, speed in and out, the page, what waiting costs.

Sender and receiver are frames on a socket (`wire`), because Azure's client would take minutes to write them.
"""

from __future__ import annotations

import time
import urllib.request
from contextlib import closing
from typing import Final

from emulators.servicebus.amqp import performatives as p

from .broker import Broker
from .wire import WireClient, batch_of, message

BATCH: Final = 200
TENTHS: Final = 10
_ON_THE_WAY: Final = 8
"""Batches sent and not answered yet."""
_CREDIT: Final = 5000
_GROUP: Final = 100
_IDLE: Final = 5
Figures = dict[str, float]


def measure(count: int, ttl: int | None = None) -> Figures:
    """With or without a time to live, in milliseconds."""
    count -= count % (BATCH * TENTHS)
    encoded = message(b"x" * 500, ttl=ttl)
    with Broker("--queue", "full") as broker:
        figures: Figures = {"messages": count, "octets each": len(encoded), "page before, ms": _page(broker)}
        memory = broker.memory()
        speeds, processor = _filled(broker, batch_of(encoded, BATCH), count)
        figures["in, first tenth, messages/s"], figures["in, last tenth, messages/s"] = speeds[0], speeds[-1]
        figures["in, broker us each"] = processor
        figures["memory each, octets"] = (broker.memory() - memory) / count
        figures["page, ms"] = _page(broker)
        spent = broker.processor()
        time.sleep(_IDLE)
        figures["processor while they wait, %"] = (broker.processor() - spent) / _IDLE * 100
        speeds, processor = _drained(broker, count)
        figures["out, first tenth, messages/s"], figures["out, last tenth, messages/s"] = speeds[0], speeds[-1]
        figures["out, broker us each"] = processor
        figures["memory afterwards, octets each"] = (broker.memory() - memory) / count
    return figures


def _filled(broker: Broker, batch: bytes, count: int) -> tuple[list[float], float]:
    """Messages/s by tenths, and the broker's microseconds a message."""
    with closing(WireClient(broker.port)) as client:
        client.attach("full", 0, receives=False)
        client.until(p.ATTACH)
        speeds, spent, started, waiting = [], broker.processor(), time.perf_counter(), 0
        for number in range(1, count // BATCH + 1):
            client.send(0, batch, batch=True)
            waiting += 1
            if waiting == _ON_THE_WAY:
                client.until(p.DISPOSITION)
                waiting -= 1
            if number % (count // BATCH // TENTHS) == 0:
                speeds.append(count / TENTHS / (time.perf_counter() - started))
                started = time.perf_counter()
        for _ in range(waiting):
            client.until(p.DISPOSITION)
        return speeds, (broker.processor() - spent) / count * 1e6


def _drained(broker: Broker, count: int) -> tuple[list[float], float]:
    """The same of taking and completing them, a group with one disposition."""
    with closing(WireClient(broker.port)) as client:
        client.attach("full", 0, receives=True)
        client.until(p.ATTACH)
        client.credit(0, _CREDIT)
        speeds, spent, started, taken = [], broker.processor(), time.perf_counter(), 0
        first = None
        while taken < count:
            code, fields, _ = client.hear()
            if code != p.TRANSFER:
                continue
            delivery = fields[1]
            first = delivery if first is None else first
            taken += 1
            if taken % _GROUP == 0:
                client.complete(first, delivery)
                first = None
                client.credit(0, _CREDIT, delivered=taken)
            if taken % (count // TENTHS) == 0:
                speeds.append(count / TENTHS / (time.perf_counter() - started))
                started = time.perf_counter()
        return speeds, (broker.processor() - spent) / count * 1e6


def _page(broker: Broker) -> float:
    """Milliseconds to the last octet of the page that shows the namespace."""
    started = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/", timeout=60) as answer:
        answer.read()
    return (time.perf_counter() - started) * 1000
