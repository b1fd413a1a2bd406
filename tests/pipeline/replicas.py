"""Several ingesters of one configuration, a router, a workload and a subscriber: what locks are for, as processes."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from common.names import Origin
from dstream.demo.ledger import Ledger
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import TABLES, create
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import Verdict, judge
from dstream.demo.workload import Pace, Workload
from dstream.local import Emulators

DATABASE = "demo"
_LOG_LINE = re.compile(r"(?P<at>\S+Z) \[\w+ *\] (?P<event>.+?) +\[ingester\](?P<rest>.*)")
_ENDS = {"lock lost", "lock given back, others have their share"}


@dataclass(frozen=True)
class Tenure:
    """An ingester's time with a table, as its log tells it; `end` None: to the end of the process."""

    table: str
    epoch: int
    begin: datetime
    end: datetime | None


class Replicas:
    """`locks`: the inside of the configuration's `locks` block. Ingesters are started one by one by `start_ingester`."""

    def __init__(self, folder: Path, *, locks: str, pace: Pace, more: str = "") -> None:
        self._folder, self._locks, self._more = folder, locks, more
        self._emulators = Emulators(database=DATABASE, capture_interval=0.5)
        self._pace = pace
        self.ledger = Ledger()
        self.ingesters: list[Service] = []

    def __enter__(self) -> Self:
        self._emulators.start()
        create(self._emulators.login)
        config = write_config(self._folder, self._emulators, "200ms")
        text = config.read_text().replace('type = "local"', self._locks).replace("local[4]", "local[2]")
        config.write_text(text.replace("    spark {", f"    {self._more}\n    spark {{"))
        self._config, self._variables = config, environment(self._emulators)
        self.router = Service("router", config, self._variables, self._folder / "router.log")
        self.router.start()
        self.workload = Workload(self._emulators.login, self.ledger, self._pace, seed=3)
        topics = {table: Origin("localhost", DATABASE).topic(table) for table in TABLES}
        self.subscriber = Subscriber(self._emulators.bus_connection_string, topics)
        self.subscriber.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.workload.stop()
        self.subscriber.stop()
        for service in (*self.ingesters, self.router):
            service.stop()
        self._emulators.stop()

    def start_ingester(self) -> Service:
        """One more; returns at once."""
        log = self._folder / f"ingester-{len(self.ingesters)}.log"
        service = Service("ingester", self._config, self._variables, log)
        service.start()
        self.ingesters.append(service)
        return service

    def verdict(self) -> Verdict:
        """Once everything has arrived, or a minute has passed without."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not self._delivered():
            time.sleep(0.1)
        time.sleep(1)
        return judge(self.ledger, self.subscriber.received(), TABLES)

    def offsets(self) -> dict[str, tuple[bytes, int, bytes, int]]:
        """The stored offset of each table, in an order that compares as positions do."""
        with self._emulators.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name, last_lsn, last_command_id, last_seq, last_operation FROM dbo.cdc_offsets "
                "WHERE last_lsn IS NOT NULL"
            )
            return {row[0]: (bytes(row[1]), row[2], bytes(row[3]), row[4]) for row in cursor.fetchall()}

    def _delivered(self) -> bool:
        received = self.subscriber.counts()
        return all(received.get(table, 0) >= count for table, count in self.ledger.counts().items())


def good(verdict: Verdict) -> bool:
    """Raises with examples when it is not."""
    examples = [example for table in verdict.tables.values() for example in table.examples]
    seen = {count: verdict.total(count) for count in ("lost", "duplicated", "out_of_order", "wrong")}
    assert seen == {"lost": 0, "duplicated": 0, "out_of_order": 0, "wrong": 0}, "\n".join(examples)
    return verdict.total("committed") > 0


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 60) -> None:
    """Raises AssertionError, naming `what`, when it does not become true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.1)


def tenures(service: Service) -> list[Tenure]:
    """Which tables an ingester has had, from when to when, in the order of their begin."""
    found: list[Tenure] = []
    text = service.log.read_text() if service.log.exists() else ""
    for line in text.splitlines():
        if (told := _LOG_LINE.match(line)) is None or (named := re.search(r" table=(\S+)", told["rest"])) is None:
            continue
        at = datetime.fromisoformat(told["at"])
        if told["event"] == "lock taken" and (epoch := re.search(r"epoch=(\d+)", told["rest"])) is not None:
            found.append(Tenure(named[1], int(epoch[1]), at, None))
        elif told["event"] in _ENDS:
            number = max(n for n, tenure in enumerate(found) if tenure.table == named[1])
            found[number] = Tenure(found[number].table, found[number].epoch, found[number].begin, at)
    return found


def has(service: Service) -> set[str]:
    """The tables that an ingester has now."""
    return {tenure.table for tenure in tenures(service) if tenure.end is None}


def overlaps(one: Sequence[Tenure], two: Sequence[Tenure]) -> list[tuple[Tenure, Tenure]]:
    """Where a table had two owners at a time."""
    return [
        (a, b)
        for a in one
        for b in two
        if a.table == b.table and (a.end is None or b.begin < a.end) and (b.end is None or a.begin < b.end)
    ]


def signal_tree(pid: int, number: signal.Signals) -> None:
    """A signal to a process and everything below it: the JVM and Spark's workers are in groups of their own."""
    pids, at = [pid], 0
    while at < len(pids):
        for task in Path(f"/proc/{pids[at]}/task").iterdir():
            pids += [int(child) for child in (task / "children").read_text().split()]
        at += 1
    for found in pids:
        os.kill(found, number)
