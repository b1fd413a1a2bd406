"""The pipeline on a namespace with so many credits a second: the ingester's slices and senders, the router as a process, a subscriber.

The slices read prepared changes; everything between the change tables and the subscriber is what runs in production. Subscriber and
emulator share this process: their part of the machine is not the pipeline's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.bus.ports import Sender, SendInterrupted, TimeLeft
from common.clock import SteadyTime, unix
from common.message import Message
from common.names import Origin, TableName
from common.servicebus.namespace import ServiceBus
from dstream.demo.subscriber import Subscriber
from emulators.servicebus.server import ServiceBusEmulator
from emulators.servicebus.throttle import MANAGEMENT
from ingester.driver.schedule import Rhythm, TableOutcome, next_interval
from ingester.position import Position
from ingester.slices import Slice, SliceResult, Trouble
from ingester.sqlserver.position import LogPosition, in_the_log
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.pack import PackingSender
from tests.fakes.ingester import FakeOffsets, FakeSource, instance, lsn, position

QUEUE = "ingest-queue"
ORIGIN = Origin("server", "shop")
KEYS = 8
RHYTHM = Rhythm(5.0, 120.0)
"""The defaults: how soon a failed slice is tried again."""
SLICE_SECONDS = 10.0
WITHIN = 300.0
_LOOK = 0.1

_CONFIG = """
ingester {{
  db_type = "sqlserver"
  server_name = "server"
  database = "shop"
  db_connection_string = "Server=localhost;Database=shop;User Id=u;Password=pass"
  queue {{
    name = "ingest-queue"
    ordering = "key"
    pack = {pack}
    connection_string = "{bus}"
  }}
  locks {{
    type = "sqlserver"
  }}
  tables = [{tables}]
}}
router {{
  workers = {workers}
  source {{
    connection_string = "{bus}"
    management_endpoint = "{management}"
  }}
  output {{
    connection_string = "{bus}"
    management_endpoint = "{management}"
  }}
}}
"""


@dataclass
class Table:
    """One table's way through the ingester. `accepted`: message ids, as its sender told of them; `early`: offsets stored before that."""

    name: TableName
    changes: int
    results: list[SliceResult] = field(default_factory=list)
    accepted: set[str | None] = field(default_factory=set)
    early: list[Position] = field(default_factory=list)
    stored: Position | None = None

    @property
    def rows(self) -> list[LogPosition]:
        return [position(number, seq=1 + number % KEYS) for number in range(1, self.changes + 1)]

    def identities(self) -> list[str]:
        """Of its messages, in their order."""
        found = (f"{p.lsn.hex}-{p.command_id}-{p.seqval.hex()}-{p.operation}" for p in self.rows)
        return [f"{ORIGIN.database}.{self.name.key}:{each}" for each in found]


@dataclass
class Offsets(FakeOffsets):
    """Sees to it that what is stored was sent."""

    table: Table | None = None

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        assert self.table is not None
        before = self.table.identities()[: self.table.rows.index(in_the_log(position)) + 1]
        if not self.table.accepted.issuperset(before):
            self.table.early.append(position)
        super().commit(table, epoch, seen=seen, position=position)
        self.table.stored = position


class Watched:
    """The ingester's sender, and what was accepted by it."""

    def __init__(self, sender: Sender, table: Table) -> None:
        self._sender, self._table = sender, table

    def batch_bytes(self) -> int:
        return self._sender.batch_bytes()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        try:
            self._sender.send(messages, left=left)
        except SendInterrupted as error:
            self._table.accepted.update(messages[at].message_id for at in error.accepted)
            raise
        self._table.accepted.update(message.message_id for message in messages)

    def close(self) -> None:
        self._sender.close()


@dataclass
class Waits:
    """A clock that counts what slices wait for credits, and nothing else: how long they are patient is then the same on every machine."""

    seconds: float = 0.0

    def __call__(self) -> SteadyTime:
        return SteadyTime(self.seconds)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
        self.seconds += seconds


@dataclass(frozen=True)
class Looked:
    """The namespace at a moment (time.monotonic)."""

    at: float
    credits: dict[str, int]
    refused: int
    by_table: dict[TableName, int]

    @property
    def arrived(self) -> int:
        return sum(self.by_table.values())


@dataclass
class Run:
    """What came of it. `looks`: from the first send to the last arrival."""

    limit: int
    tables: list[Table]
    arrived: dict[TableName, list[str]]
    looks: list[Looked]
    said: str

    @property
    def changes(self) -> int:
        return sum(table.changes for table in self.tables)

    @property
    def seconds(self) -> float:
        return self.looks[-1].at - self.looks[0].at

    def steady(self) -> tuple[Looked, Looked]:
        """Between a tenth and nine tenths of the arrivals."""
        whole = self.looks[-1].arrived
        first = next(look for look in self.looks if look.arrived >= whole / 10)
        return first, next(look for look in self.looks if look.arrived >= whole * 9 / 10)

    def used(self) -> float:
        """The share of the steady part's credits that was spent."""
        first, last = self.steady()
        return (sum(last.credits.values()) - sum(first.credits.values())) / (self.limit * (last.at - first.at))

    def cost(self) -> float:
        """Credits a change, from the first to the last."""
        first, last = self.looks[0].credits, self.looks[-1].credits
        return sum(last[kind] - first[kind] for kind in last if kind != MANAGEMENT) / self.changes

    def figures(self) -> dict[str, float]:
        first, last = self.looks[0], self.looks[-1]
        begun, done = self.steady()
        return {
            "changes/s": self.changes / self.seconds,
            "changes/s, steady": (done.arrived - begun.arrived) / (done.at - begun.at),
            "changes/s that the credits allow": self.limit / self.cost(),
            "credits a change": self.cost(),
            "credits used, steady": self.used(),
            "credits used": (sum(last.credits.values()) - sum(first.credits.values())) / (self.limit * self.seconds),
            "refused a second": (last.refused - first.refused) / self.seconds,
            "refused, busiest second": self.busiest(),
            "longest wait of a table, s": self.longest_wait(),
            "slices that failed": len(self.failed()),
            "warnings": self.said.count("[warning"),
        } | {f"{kind}, a change": (last.credits[kind] - first.credits[kind]) / self.changes for kind in last.credits}

    def longest_wait(self) -> float:
        """The longest in seconds that nothing of a table arrived of which there was more."""
        longest = 0.0
        for table in self.tables:
            heard = self.looks[0]
            for look in self.looks:
                if heard.by_table[table.name] >= table.changes:
                    break
                longest = max(longest, look.at - heard.at)
                if look.by_table[table.name] > heard.by_table[table.name]:
                    heard = look
        return longest

    def busiest(self) -> float:
        """The most that was refused a second, within a second and a look: one that came late is about the time since the one before."""
        most, first = 0.0, 0
        for number, look in enumerate(self.looks):
            while first + 1 < number and look.at - self.looks[first + 1].at >= 1.0:
                first += 1
            begun = self.looks[first]
            most = max(most, (look.refused - begun.refused) / max(1.0, look.at - begun.at))
        return most

    def starved(self) -> list[SliceResult]:
        """The slices that gave up for want of credits. What else one may fail of is the machine's matter, and no slice's of a quiet one."""
        return [each for each in self.failed() if each.message == each.throttled]

    def failed(self) -> list[SliceResult]:
        return [result for table in self.tables for result in table.results if result.trouble is not None]


def run(
    folder: Path, changes: int, *, pack: int | str = 1, tables: int = 4, limit: int = 1_000, workers: int = 1
) -> Run:
    """`changes` of `tables` tables together, all waiting at the beginning."""
    backlog = [Table(TableName("dbo", f"Table{number}"), changes // tables) for number in range(tables)]
    with ServiceBusEmulator(credits_per_second=limit) as emulator:
        with _router(folder, emulator, backlog, pack, workers) as log:
            topics = {table.name: ORIGIN.topic(table.name) for table in backlog}
            subscriber = Subscriber(emulator.connection_string, topics)
            subscriber.start()
            stop = threading.Event()
            ingester = [
                threading.Thread(target=ingest, args=(emulator, table, pack, stop), daemon=True) for table in backlog
            ]
            looks: list[Looked] = []

            def look() -> Looked:
                looks.append(Looked(time.monotonic(), emulator.credits, emulator.refusals, subscriber.counts()))
                return looks[-1]

            look()
            for thread in ingester:
                thread.start()
            while look().arrived < changes and looks[-1].at - looks[0].at < WITHIN:
                time.sleep(_LOOK)
            stop.set()
            for thread in ingester:
                thread.join(30)
            subscriber.stop()
        arrived = {table: [each.message_id for each in found] for table, found in subscriber.received().items()}
        return Run(limit, backlog, arrived, looks, log.read_text())


def ingest(emulator: ServiceBusEmulator, table: Table, pack: int | str, stop: threading.Event) -> None:
    """One table after the ingester's fashion: slice after slice, and after one that failed the wait that its schedule has."""
    bus = ServiceBus.from_connection_string(emulator.connection_string)
    most = 100_000 if pack == "max" else int(pack)
    where = instance(table.name)
    source = FakeSource(rows={where.name: table.rows}, max_lsn=lsn(table.changes))
    offsets = Offsets(table=table)
    offsets.claim(table.name, 1)
    upto = LogPosition.end_of(lsn(table.changes))
    todo = Slice(table.name, where, LogPosition.before(lsn(1)), upto, epoch=1, rows=5_000, seconds=SLICE_SECONDS)
    with closing(bus), closing(Watched(_sender(bus, most), table)) as sender:
        drain = Drain(
            source, offsets, sender, Encoder(ORIGIN, QUEUE, "key"), unix, clock=(waits := Waits()), wait=waits.wait
        )
        interval = 0.0
        while not stop.is_set():
            result = drain.run(todo)
            table.results.append(result)
            if result.trouble is None and not result.more:
                return
            assert result.trouble in (None, Trouble.TRANSIENT), result
            outcome = TableOutcome.MORE if result.trouble is None else TableOutcome.FAILED
            interval = next_interval(RHYTHM, interval, outcome)
            stop.wait(interval)


def _sender(bus: ServiceBus, most: int) -> Sender:
    sender = bus.sender(QUEUE)
    return sender if most == 1 else PackingSender(sender, most)


@contextmanager
def _router(
    folder: Path, emulator: ServiceBusEmulator, backlog: Sequence[Table], pack: int | str, workers: int
) -> Iterator[Path]:
    """`dstream router` until the end of the block, which it is to leave with 0; its log."""
    config, log = folder / "dstream.hcl", folder / "router.log"
    config.write_text(
        _CONFIG.format(
            bus=emulator.connection_string,
            management=f"http://127.0.0.1:{emulator.http_port}",
            pack=json.dumps(pack),
            tables=", ".join(json.dumps(table.name.table) for table in backlog),
            workers=workers,
        )
    )
    with log.open("wb") as out:
        command: list[Any] = [sys.executable, "-m", "dstream", "router", "--config", config]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while log.read_text().count("router started") < workers:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield log
    finally:
        process.terminate()
        status = process.wait(30)
    assert status == 0, log.read_text()
