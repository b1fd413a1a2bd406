"""One table to four outputs of which one is away: what the other three notice, what the router keeps, and what arrives when it is back.

    .venv/bin/python -m bench.fan_out [--away 300] [--usual 60] [--rate 100] [--mute]

Changes of one session at a steady rate, the router as a process, a topic and three HTTP endpoints. One endpoint refuses connections (or, with
--mute, accepts them and says nothing) for `--away` seconds. Printed for each of the others: the median delay from the send to the queue until it
arrives, before and during the outage, and their ratio; then the router's memory, and what the fourth got: lost, out of order, copies. Linux only.
The last line is JSON with the figures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from azure.servicebus import ServiceBusClient

from bench.routing.routed import Router
from bench.routing.work import QUEUE, SUBSCRIPTION, TOPIC, change, namespace
from common.servicebus.wire.messages import to_sdk
from tests.worlds.tcp_relay import TcpRelay

HEALTHY = ("default", "first", "second")
AWAY = "away"

Arrivals = list[tuple[str, float]]
"""Message ids with the time (time.monotonic()) at which each arrived."""


class Endpoint:
    """Takes every POST, and notes the message's id."""

    def __init__(self) -> None:
        arrivals = self.arrivals = Arrivals()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                arrivals.append((self.headers["Idempotency-Key"], time.monotonic()))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def subscribed(connection_string: str) -> Iterator[Arrivals]:
    """What arrives at the topic."""
    arrivals, over = Arrivals(), threading.Event()

    def listen() -> None:
        with (
            ServiceBusClient.from_connection_string(connection_string) as client,
            client.get_subscription_receiver(
                TOPIC, SUBSCRIPTION, receive_mode="receiveanddelete", prefetch_count=200, keep_alive=None
            ) as receiver,
        ):
            while not over.is_set():
                for message in receiver.receive_messages(200, max_wait_time=0.3):
                    arrivals.append((str(message.message_id), time.monotonic()))

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield arrivals
    finally:
        over.set()
        thread.join(30)


def outputs(ports: dict[str, int]) -> str:
    """The blocks of the endpoints, and a route to all."""
    blocks = "".join(
        f'  output "{name}" {{\n    type = "webhook"\n    url = "http://127.0.0.1:{port}/{{table}}"\n  }}\n'
        for name, port in ports.items()
    )
    return f"{blocks}  route {{\n    to = {json.dumps([*HEALTHY, AWAY])}\n  }}\n"


class Feed:
    """Sends changes at a steady rate, and knows when each was sent."""

    def __init__(self, connection_string: str, rate: float) -> None:
        self.sent: dict[str, float] = {}
        self._connection_string, self._rate = connection_string, rate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with (
            ServiceBusClient.from_connection_string(self._connection_string) as client,
            client.get_queue_sender(QUEUE) as sender,
        ):
            began, number = time.monotonic(), 0
            while not self._over.wait(max(0.0, began + number / self._rate - time.monotonic())):
                made = to_sdk(change(number, TOPIC))
                self.sent[str(made.message_id)] = time.monotonic()
                sender.send_messages(made)
                number += 1

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)


def resident(router: Router) -> float:
    """Megabytes of the router's process."""
    line = next(
        each for each in Path(f"/proc/{router.pid}/status").read_text().splitlines() if each.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def delays(sent: dict[str, float], arrivals: Sequence[tuple[str, float]], begin: float, end: float) -> float:
    """The median in milliseconds, of what was sent between the two moments."""
    first: dict[str, float] = {}
    for name, at in list(arrivals):
        first.setdefault(name, at)
    found = [(first[name] - at) * 1000 for name, at in sent.items() if begin <= at < end and name in first]
    return median(found) if found else float("nan")


def judged(sent: dict[str, float], arrivals: Sequence[tuple[str, float]]) -> dict[str, float]:
    """What one end got."""
    names = [name for name, _ in arrivals]
    firsts = list(dict.fromkeys(names))
    return {
        "lost": len(sent.keys() - set(names)),
        "out of order": sum(1 for one, other in pairwise(firsts) if int(other) < int(one)),
        "copies": len(names) - len(firsts),
    }


def run(folder: Path, *, usual: float, away: float, rate: float, mute: bool) -> dict[str, float]:
    """All of it."""
    ends = {name: Endpoint() for name in (*HEALTHY[1:], AWAY)}
    figures: dict[str, float] = {}
    with TcpRelay(ends[AWAY].port) as relay, namespace(folder, round_trip=0) as broker:
        ports = {name: end.port for name, end in ends.items()} | {AWAY: relay.port}
        with (
            subscribed(broker.connection_string) as at_topic,
            Router(folder, broker, 1, more=outputs(ports)) as router,
        ):
            arrivals = {name: end.arrivals for name, end in ends.items()} | {"default": at_topic}
            with closing_feed(Feed(broker.connection_string, rate)) as feed:
                time.sleep(5)  # links are opened
                began = time.monotonic()
                time.sleep(usual)
                before = resident(router)
                gone = time.monotonic()
                if mute:
                    relay.mute()
                else:
                    relay.refuse()
                most = before
                while time.monotonic() < gone + away:
                    time.sleep(1)
                    most = max(most, resident(router))
                back = time.monotonic()
                relay.well()
                time.sleep(usual)
            deadline = time.monotonic() + 60 + away
            while judged(feed.sent, arrivals[AWAY])["lost"] and time.monotonic() < deadline:
                time.sleep(0.5)
            figures["caught up after s"] = time.monotonic() - back
            time.sleep(2)
            figures |= {"resident MB before": before, "resident MB at most while away": most}
    for name in HEALTHY:
        first, then = (delays(feed.sent, arrivals[name], *span) for span in ((began, gone), (gone, back)))
        figures |= {f"{name}: median ms": first, f"{name}: while away": then, f"{name}: ratio": then / first}
    for name in (*HEALTHY, AWAY):
        figures |= {f"{name}: {what}": value for what, value in judged(feed.sent, arrivals[name]).items()}
    for end in ends.values():
        end.close()
    return figures | {"changes": len(feed.sent)}


@contextmanager
def closing_feed(feed: Feed) -> Iterator[Feed]:
    try:
        yield feed
    finally:
        feed.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--usual", type=float, default=60, help="seconds before and after the outage")
    parser.add_argument("--away", type=float, default=300, help="seconds of the outage")
    parser.add_argument("--rate", type=float, default=100, help="changes a second")
    parser.add_argument("--mute", action="store_true", help="the endpoint accepts connections and never answers")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        figures = run(Path(made), usual=chosen.usual, away=chosen.away, rate=chosen.rate, mute=chosen.mute)
    for what, value in figures.items():
        print(f"{what:<40}{value:>12.2f}")
    print(json.dumps({what: round(value, 3) for what, value in figures.items()}))


if __name__ == "__main__":
    main()
