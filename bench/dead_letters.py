"""`python -m bench.dead_letters [COUNT]`: dead letters of the ingest queue on the emulator: the first page, one among many, all of them.

Prints rates and this process's memory; the emulator is a process of its own.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from common.buses import shelves_of
from common.message import Message
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from desk.audit import AuditFile
from desk.dead_letters.engine import Engine, Watch
from desk.desk import Actor
from desk.documents.messages import DeadLetterOrder, MessageFilter
from desk.messages.browsers import Browsers
from desk.messages.explorer import Explorer
from desk.messages.places import Places
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from router.settings import RouterSettings

_QUEUE = "ingest-queue"
_LIFE = timedelta(seconds=20)


def _settings(connection: str, endpoint: str) -> RouterSettings:
    namespace: Any = {"type": "servicebus", "connection_string": connection, "management_endpoint": endpoint}
    topic = "srv.db.persons.events"
    return RouterSettings(
        source=namespace,
        output=namespace,
        queue_name=_QUEUE,
        ordering="table",
        topics={topic: TableName("dbo", "Persons")},
        subscriptions=("sub1",),
    )


def _message(number: int) -> Message:
    body = b'{"data": {"ID": %d, "Name": "%s"}, "metadata": {"LSN": "%020x"}}' % (number, b"x" * 700, number)
    told = {"table": "Persons", "schema": "dbo", "operation": "Update", "n": number}
    return Message(body, f"event-{number}", f"s{number % 8}", time_to_live=_LIFE, application_properties=told)


def _bury(connection: str, count: int) -> None:
    """By their time to live: one by one it would take longer than all the rest."""
    sender = ServiceBus.from_connection_string(connection).sender(_QUEUE)
    for first in range(0, count, 5_000):
        sender.send([_message(number) for number in range(first, min(first + 5_000, count))])
    sender.close()
    time.sleep(_LIFE.total_seconds() + 1)


def _megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _timed(what: str, begun: float, count: int) -> None:
    seconds = time.monotonic() - begun
    print(f"{what}: {seconds:.2f} s, {count / seconds:,.0f} a second; {_megabytes():.0f} MB resident", flush=True)


def measured(connection: str, endpoint: str, count: int, folder: Path) -> None:
    begun = time.monotonic()
    _bury(connection, count)
    _timed(f"{count:,} dead letters made", begun, count)
    settings = _settings(connection, endpoint)
    browsers = Browsers(shelves_of)
    explorer = Explorer(lambda: Places(settings), browsers)
    begun = time.monotonic()
    page = explorer.page("queue", dead=True, chosen=MessageFilter(), after=None, most=50)
    _timed("first page", begun, len(page.items))
    browsers.close()
    audit = AuditFile(folder / "audit.jsonl")
    engine = Engine(lambda: settings, shelves_of, lambda: None, folder / "replays", audit)
    actor = Actor("bench", "command", "1")
    for what, chosen in (
        ("one among them", MessageFilter(message_id=f"event-{count * 3 // 4}")),
        ("the rest", MessageFilter()),
    ):
        begun = time.monotonic()
        order = DeadLetterOrder(entity="queue", filter=chosen, dry_run=False, safe=False)
        result = engine.run(order, "replay", actor, Watch())
        _timed(f"replay of {what}: {result.replayed:,}", begun, result.replayed)
        if result.left_count:
            print(result.warnings)


def _serve(told: Connection, ended: Event) -> None:
    with ServiceBusEmulator() as emulator:
        described = QueueDescription(
            requires_session=True, requires_duplicate_detection=True, dead_lettering_on_message_expiration=True
        )
        emulator.admin.create(_QUEUE, described)
        told.send((emulator.connection_string, f"http://127.0.0.1:{emulator.http_port}"))
        ended.wait()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    ended = context.Event()
    process = context.Process(target=_serve, args=(theirs, ended))
    process.start()
    try:
        connection, endpoint = ours.recv()
        with tempfile.TemporaryDirectory() as name:
            measured(connection, endpoint, count, Path(name))
    finally:
        ended.set()
        process.join(20)


if __name__ == "__main__":
    main()
