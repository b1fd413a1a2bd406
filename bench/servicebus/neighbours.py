"""Ten receivers that keep up, alone and beside one that does not: does the slow one cost the others anything?

The slow one has credit for 5,000 messages and takes them before the others come: one never reads its socket, so that the
broker is left with what does not fit; the other reads, and settles nothing. All clients are frames on sockets (`wire`) in one
thread; latencies are from before a message is sent to when it is read, at a pace the broker has no trouble with.
"""

from __future__ import annotations

import selectors
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from emulators.servicebus.amqp import performatives as p

from .broker import Broker
from .wire import WireClient, batch_of, message

RECEIVERS: Final = 10
HELD: Final = 5000
_CREDIT: Final = 40
_GROUP: Final = 20
_PACE: Final = 0.003
_BATCH: Final = 200
_PATIENCE: Final = 60
_BURST: Final = 20_000
_SMALL_BUFFER: Final = 65_536
_OLD: Final = b"old"
Figures = dict[str, float]


@dataclass(slots=True)
class _Good:
    client: WireClient
    taken: int = 0
    completed: int = 0
    first: int | None = None


class _Group:
    """Receivers that complete what they get, twenty with one disposition."""

    def __init__(self, clients: list[WireClient]) -> None:
        self._selector = selectors.DefaultSelector()
        for client in clients:
            client.attach("shared", 0, receives=True)
            client.until(p.ATTACH)
            client.credit(0, _CREDIT)
            self._selector.register(client.socket, selectors.EVENT_READ, _Good(client))

    def take(self, seconds: float) -> list[float]:
        """Latencies of what comes within so many seconds, or with the first that comes; NaN for an old message."""
        latencies = []
        for key, _ in self._selector.select(seconds):
            good: _Good = key.data
            for code, fields, payload in good.client.heard():
                if code != p.TRANSFER:
                    continue
                good.taken += 1
                good.first = fields[1] if good.first is None else good.first
                if good.taken - good.completed == _GROUP:
                    good.client.complete(good.first, fields[1])
                    good.client.credit(0, _CREDIT, delivered=good.taken)
                    good.completed, good.first = good.taken, None
                stamp = payload.rpartition(b"|")[2]
                latencies.append(time.perf_counter() - (float("nan") if stamp == _OLD else float(stamp)))
        return latencies

    def take_all(self, count: int) -> list[float]:
        """Latencies of so many messages."""
        latencies: list[float] = []
        until = time.perf_counter() + _PATIENCE
        while len(latencies) < count:
            latencies += self.take(1)
            if time.perf_counter() > until:
                raise SystemExit(f"{len(latencies)} messages of {count} came")
        return latencies


def measure(messages: int) -> Figures:
    """Latencies in milliseconds of so many messages at a pace, then messages/s of 20,000 at once."""
    figures: Figures = {"receivers": RECEIVERS, "messages": messages}
    for name, kind in (
        ("alone", None),
        ("beside one that reads nothing", False),
        ("beside one that settles nothing", True),
    ):
        taken, rate, processor = _beside(kind, messages)
        figures[f"{name}: median, ms"] = median(taken) * 1000
        figures[f"{name}: 99 %, ms"] = quantiles(taken, n=100)[-1] * 1000
        figures[f"{name}: messages/s"] = rate
        figures[f"{name}: broker us each"] = processor
    return figures


def _beside(slow_reads: bool | None, messages: int) -> tuple[list[float], float, float]:
    with Broker("--queue", "shared") as broker, ExitStack() as stack:

        def client(buffer: int | None = None) -> WireClient:
            return stack.enter_context(closing(WireClient(broker.port, buffer)))

        sender = client()
        sender.attach("shared", 0, receives=False)
        sender.until(p.ATTACH)
        if slow_reads is not None:
            _hold(sender, client(_SMALL_BUFFER), slow_reads)
        group = _Group([client() for _ in range(RECEIVERS)])
        while group.take(0.5):  # what the slow one had no room for
            pass
        latencies = []
        for _ in range(messages):
            until = time.perf_counter() + _PACE
            sender.send(0, message(b"|%.6f" % time.perf_counter()))
            while (left := until - time.perf_counter()) > 0:
                latencies += group.take(left)
            sender.until(p.DISPOSITION)
        latencies += group.take_all(messages - len(latencies))
        started, spent = time.perf_counter(), broker.processor()
        batch = batch_of(message(b"x" * 500 + b"|" + _OLD), _BATCH)
        for _ in range(_BURST // _BATCH):
            sender.send(0, batch, batch=True)
            sender.until(p.DISPOSITION)
        group.take_all(_BURST)
        took = time.perf_counter() - started
        return latencies, _BURST / took, (broker.processor() - spent) / _BURST * 1e6


def _hold(sender: WireClient, slow: WireClient, reads: bool) -> None:
    slow.attach("shared", 0, receives=True)
    slow.until(p.ATTACH)
    slow.credit(0, HELD)
    batch = batch_of(message(b"x" * 500 + b"|" + _OLD), _BATCH)
    for _ in range(HELD // _BATCH):
        sender.send(0, batch, batch=True)
        sender.until(p.DISPOSITION)
    if reads:
        for _ in range(HELD):
            slow.until(p.TRANSFER)
