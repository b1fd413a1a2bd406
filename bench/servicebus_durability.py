"""What it costs a message that the Service Bus emulator keeps it in a directory, against memory; and how long coming back takes.

    .venv/bin/python bench/servicebus_durability.py [--messages 20000] [--body 500] [--data DIR]

Broker: one lifetime (accepted, delivered, completed) without wire or client, committed every so many messages, as turns of the
event loop do. Client: Azure's own, one message or batch after the other, each waiting for its answer. Medians of five runs;
the last line is JSON with the same figures. What a commit costs is the disk's time to flush: name a directory on yours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.journal import Forgetful, Journal
from emulators.servicebus.message import Message, parse_message
from emulators.servicebus.server import ServiceBusEmulator
from emulators.servicebus.storage.recovery import recover
from emulators.servicebus.storage.sqlite_journal import SqliteJournal
from emulators.servicebus.store.competing import CompetingStore
from emulators.servicebus.store.outcomes import Outcome

TURNS = (1, 10, 100)
RUNS = 5

_folders = count()


class Greedy:
    """A receiver with credit for everything."""

    credit = 1 << 40
    receive_and_delete = False

    def __init__(self) -> None:
        self.tokens: list[bytes] = []

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None:
        self.tokens.append(token)

    def detach(self, failure: AmqpError) -> None:
        raise failure


def lifetime(journal: Journal, octets: bytes, messages: int, turn: int) -> float:
    """Microseconds a message."""
    namespace = Namespace(time.time, journal)
    namespace.create("q", QueueDescription())
    queue = namespace.find("q").entity
    store = namespace.find("q").store
    assert hasattr(queue, "accept")
    assert isinstance(store, CompetingStore)
    receiver = Greedy()
    store.feed(receiver, namespace.now())
    started = time.perf_counter()
    for _ in range(messages // turn):
        queue.accept([parse_message(octets) for _ in range(turn)], namespace.now())
        journal.commit()
        for token in receiver.tokens:
            store.settle(token, Outcome.COMPLETE, namespace.now())
        receiver.tokens.clear()
        journal.commit()
    return (time.perf_counter() - started) * 1e6 / messages


def by_client(data: Path | None, body: bytes, messages: int, turn: int) -> float:
    """Microseconds a message, sent and received; messages sent `turn` at a time."""
    with (
        ServiceBusEmulator(data=data) as emulator,
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
    ):
        emulator.admin.create("q", QueueDescription())
        with (
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver,
        ):
            started = time.perf_counter()
            for _ in range(messages // turn):
                sender.send_messages([ServiceBusMessage(body) for _ in range(turn)])
            arrived = 0
            while arrived < messages // turn * turn:
                arrived += len(receiver.receive_messages(500, max_wait_time=5))
            return (time.perf_counter() - started) * 1e6 / messages


def recovery(folder: Path, octets: bytes, messages: int) -> tuple[float, float]:
    """Seconds to come back, and octets of the file a message."""
    journal = SqliteJournal(folder)
    namespace = Namespace(time.time, journal)
    namespace.create("q", QueueDescription())
    queue = namespace.find("q").entity
    assert hasattr(queue, "accept")
    queue.accept([parse_message(octets) for _ in range(messages)], namespace.now())
    journal.commit()
    journal.close()
    size = sum(file.stat().st_size for file in folder.iterdir()) / messages
    started = time.perf_counter()
    journal = SqliteJournal(folder)
    recover(journal, Namespace(time.time, journal))
    took = time.perf_counter() - started
    journal.close()
    return took, size


def median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(RUNS))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--messages", type=int, default=20_000)
    arguments.add_argument("--body", type=int, default=500, help="octets")
    arguments.add_argument("--data", type=Path, help="where to make the data directories (default: the temporary one)")
    chosen = arguments.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=chosen.data)))
        figures = measure(folder, b"x" * chosen.body, chosen.messages)
    for name, value in figures.items():
        print(f"{name:45} {value:10.1f}")
    print(json.dumps({name: round(value, 1) for name, value in figures.items()}))


def measure(folder: Path, body: bytes, messages: int) -> dict[str, float]:
    octets = b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body
    figures: dict[str, float] = {}

    def fresh() -> Path:
        return folder / str(next(_folders))

    def kept(number: int, turn: int) -> float:
        journal = SqliteJournal(fresh())
        try:
            return lifetime(journal, octets, number, turn)
        finally:
            journal.close()

    for turn in TURNS:
        few = messages if turn > 1 else messages // 10
        name = f"broker, turns of {turn}: us a message"
        figures[f"{name}, memory"] = median(lambda turn=turn: lifetime(Forgetful(), octets, messages, turn))  # type: ignore[misc]
        figures[f"{name}, kept"] = median(lambda few=few, turn=turn: kept(few, turn))  # type: ignore[misc]
    for turn in (1, 100):
        few = messages // 4 if turn > 1 else messages // 40
        name = f"client, batches of {turn}: us a message"
        figures[f"{name}, memory"] = median(lambda few=few, turn=turn: by_client(None, body, few, turn))  # type: ignore[misc]
        figures[f"{name}, kept"] = median(lambda few=few, turn=turn: by_client(fresh(), body, few, turn))  # type: ignore[misc]
    took, size = recovery(fresh(), octets, messages)
    figures["coming back: us a message"] = took * 1e6 / messages
    figures["file: octets a message"] = size
    return figures


if __name__ == "__main__":
    main()
