"""What a change costs a worker: processor time by stage, each beside its floor. One task without Spark, on both emulators.

    .venv/bin/python bench/change_cost.py [--rows 40000] [--rounds 5] [--ahead]

Microseconds of processor time a change, medians of the rounds; waiting is not counted, and neither are the emulators. `fetch`: the answer of SQL
Server becomes the driver's tuples. `make`: those are paired, converted and become changes. `encode`: messages. `send`: AMQP and the socket.
`commit`: the offset, once a page. `rest`: the loop around them. Floors, by the same clock and in the same rounds: the driver's bare
fetchall of the same statements; a dict of each tuple with its columns' names; orjson's dump of the finished body; the SDK's send of octets that
are encoded already; a bare UPDATE. `--ahead`: a page is read while the one before is sent, as the product does: the whole process then,
without stages. The last line is JSON with the same figures.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import orjson
from azure.servicebus import ServiceBusClient

from bench.ingest import place_of
from bench.ingestion import stages
from bench.ingestion.ground import Ground, origin, sql_address
from common.clock import unix
from common.names import TableName
from common.servicebus.namespace import ServiceBus
from common.servicebus.wire.batches import add
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.source import SqlServerSource
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.read_ahead import ReadAhead
from ingester.task.send_page import PageSender

STAGES: Final = ("fetch", "make", "encode", "send", "commit", "rest")
_ENVELOPE: Final = 2048

Costs = dict[str, float]


@dataclass(slots=True)
class _Watch:
    """Seconds of this thread's processor time by stage, without those of a stage inside it."""

    spent: Costs = field(default_factory=dict)
    inner: list[float] = field(default_factory=list)

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        self.inner.append(0.0)
        began = time.thread_time()
        try:
            yield
        finally:
            whole = time.thread_time() - began
            self.spent[stage] = self.spent.get(stage, 0.0) + whole - self.inner.pop()
            if self.inner:
                self.inner[-1] += whole


@contextmanager
def _timed(watch: _Watch, kind: type, method: str, stage: str) -> Iterator[None]:
    """Every call of a class's method, noted."""
    found = getattr(kind, method)

    def timed(*arguments: Any, **named: Any) -> Any:
        with watch.during(stage):
            return found(*arguments, **named)

    setattr(kind, method, timed)
    try:
        yield
    finally:
        setattr(kind, method, found)


def whole(place: stages.Place, table: TableName, *, ahead: bool) -> tuple[int, Costs, list[str]]:
    """The changes of one drain of a table, the seconds of processor time of its stages, and the statements of its pages."""
    watch, statements = _Watch(), list[str]()
    connection = _Remembering(sql_address(place.login), statements)
    offsets = SqlServerOffsets(Connection(sql_address(place.login)))
    offsets.ensure()
    with place.login.connect() as client, client.cursor() as cursor:
        cursor.execute("DELETE FROM dbo.cdc_offsets")
    source = SqlServerSource(connection)
    bus = ServiceBus.from_connection_string(place.bus)
    with closing(source), closing(offsets), closing(bus), closing(bus.sender(place.queue)) as sender:
        sender.batch_bytes()  # opens the link
        drain = Drain(ReadAhead(source) if ahead else source, offsets, sender, Encoder(origin(), place.queue), unix)
        todo = stages.whole_slice(source, offsets, table)
        if ahead:
            began = time.process_time()
            result = drain.run(todo)
            watch.spent["whole"] = time.process_time() - began
        else:
            with (
                _timed(watch, Connection, _FETCH, "fetch"),
                _timed(watch, SqlServerSource, "page", "make"),
                _timed(watch, PageSender, "send", "encode"),
                _timed(watch, type(sender), "send", "send"),
                _timed(watch, SqlServerOffsets, "commit", "commit"),
                watch.during("rest"),
            ):
                result = drain.run(todo)
    if result.trouble is not None:
        raise SystemExit(f"draining {table.key}: {result.message}")
    return result.changes, watch.spent, statements


_FETCH: Final = "rows_until"


class _Remembering(Connection):
    def __init__(self, address: Any, statements: list[str]) -> None:
        super().__init__(address)
        self._statements = statements

    def rows_until(self, sql: str, parameters: Sequence[object], *others: Any) -> Any:
        self._statements.append(stages.with_literals(sql, parameters))
        return super().rows_until(sql, parameters, *others)


def floors(place: stages.Place, table: TableName, statements: Sequence[str], changes: int) -> Costs:
    """Seconds of processor time for `changes` changes of what each stage cannot do without."""
    found: Costs = {}
    pages = list[list[tuple[Any, ...]]]()
    with place.login.connect() as connection, connection.cursor() as cursor:
        with _taken(found, "fetch"):
            pages.extend(stages.whole_batch(cursor, statement) for statement in statements)
        with _taken(found, "commit"):
            for number in range(len(statements)):
                cursor.execute(
                    f"UPDATE dbo.cdc_offsets SET updated_at = GETDATE() WHERE table_name = N'{table.key}' AND {number} >= 0\n"
                    "SELECT @@ROWCOUNT"
                )
                cursor.fetchall()
    names = [str(number) for number in range(len(pages[0][0]))]
    with _taken(found, "make"):
        for page in pages:
            for row in page:
                dict(zip(names, row, strict=True))
    sent = stages.messages(place, table, changes)
    bodies = [orjson.loads(message.body) for message in sent]
    with _taken(found, "encode"):
        for body in bodies:
            orjson.dumps(body)
    found["send"] = _of_octets(place, sent)
    return {stage: seconds / changes for stage, seconds in found.items()}


def _of_octets(place: stages.Place, sent: Sequence[Any]) -> float:
    """Of the SDK's send of batches that hold encoded messages already."""
    with ServiceBusClient.from_connection_string(place.bus) as client, client.get_queue_sender(place.queue) as sender:
        limit = sender.create_message_batch().max_size_in_bytes - _ENVELOPE
        batches = [sender.create_message_batch(limit)]
        for message in sent:
            if not add(batches[-1], message):
                batches.append(sender.create_message_batch(limit))
                add(batches[-1], message)
        began = time.thread_time()
        for batch in batches:
            sender.send_messages(batch)
        return time.thread_time() - began


@contextmanager
def _taken(found: Costs, stage: str) -> Iterator[None]:
    began = time.thread_time()
    yield
    found[stage] = time.thread_time() - began


def measured(place: stages.Place, table: TableName, rounds: int, *, ahead: bool) -> dict[str, dict[str, float]]:
    """Medians in microseconds a change: `ours`, by stage, and `floor`, by stage."""
    ours, lowest = list[Costs](), list[Costs]()
    for _ in range(rounds):
        changes, spent, statements = whole(place, table, ahead=ahead)
        ours.append({stage: seconds / changes for stage, seconds in spent.items()})
        ours[-1].setdefault("whole", sum(ours[-1].values()))
        if not ahead:
            lowest.append(floors(place, table, statements, changes))
            lowest[-1]["whole"] = sum(lowest[-1].values())
    return {"ours": _medians(ours), "floor": _medians(lowest)}


def _medians(rounds: Sequence[Costs]) -> Costs:
    return {stage: round(median(each[stage] for each in rounds) * 1e6, 2) for stage in (rounds or [{}])[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ahead", action="store_true", help="reading ahead, as the product does; no stages")
    chosen = parser.parse_args()
    with suppress(ImportError):  # bench.compare runs this over older products, which collect as Python does
        importlib.import_module("ingester.task.collecting").collect_seldom()  # as a worker does
    with Ground() as ground:
        table = ground.table("Cost")
        ground.fill(table, chosen.rows)
        found = measured(place_of(ground, "change-cost"), table, chosen.rounds, ahead=chosen.ahead)
    print(f"{'us of processor a change':28}{'ours':>8}{'floor':>8}")
    for stage in (*STAGES, "whole"):
        if stage in found["ours"]:
            print(f"{stage:28}{found['ours'][stage]:8.2f}{found['floor'].get(stage, 0.0):8.2f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
