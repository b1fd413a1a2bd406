"""How long a change takes from its commit to the ingest queue, and how much of that is DStream's own; on the emulators.

    .venv/bin/python bench/queue_latency.py [--seconds 30] [--rate 50] [--idle-tables 1000] [--low-latency]

A change waits for the next scan of the log and then for its table's next poll: no reader of change tables is sooner. This program scans
the log itself (`sys.sp_cdc_scan`, the capture job is stopped), so it knows when each change could be seen, and a relay between the
ingester and SQL Server sees each poll. The end is the time at which the queue enqueued the message. Of each change:

- `capture`: from the commit to the end of the scan that captured it;
- `poll`: from then to the next poll on the ideal grid: one poll interval after the one before, or the real one where that came first;
- `own`: the rest, up to the queue. This is what DStream adds: a poll that comes late, the task, the page, the message.

`--ahead` (root) lets these processes run before all others of the machine, so that one that does other work as well can measure it.

The goal for `own` is 50 ms at p50 and 100 ms at p99. `--low-latency`: the ingester scans (`low_latency = true`), and only the whole is
known. Figures include the queue's own work on the same cores. The last line is JSON with the same figures. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import orjson
import pymssql
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from bench.ingestion.counted import Relay
from bench.ingestion.ground import Ground, origin
from bench.ingestion.system import descendants, ingester_processes, processor_seconds
from bench.ingestion.whole import Running, configuration
from common.bus.ports import QueueNeed
from common.names import TableName
from common.servicebus.provision import provision
from dstream.demo.processes import Service

_POLL: Final = 0.5
_LONGEST: Final = "5s"
"""Between two polls of an idle table."""
_SCAN_EVERY: Final = 0.2
_FOR_PLANS: Final = 30.0
_SETTLED: Final = 5.0
_WARM: Final = 6.0
"""Seconds of changes at the beginning that are not counted: the table was idle, so it is polled after up to `_LONGEST`, and the worker opens its
connections."""
_PATIENCE: Final = 180.0
_A_TABLE: Final = 0.3
"""Seconds of patience more."""
_QUEUE: Final = "latency"
_HOW_FAR: Final = "sys.fn_cdc_get_max_lsn()".encode("utf-16-le")
_LOOK: Final = "1 AS found".encode("utf-16-le")
_NARROW: Final = "Id INT NOT NULL PRIMARY KEY, Name NVARCHAR(50)"


class Watched(Relay):
    """Remembers when each probe came that asked about the change table `table`, beside others or alone.

    The question how far capture has come decides what a probe sees. Where that is a request of its own, the tables come in the next one.
    """

    def __init__(self, port: int, table: str) -> None:
        super().__init__(port)
        self.polls: list[float] = []
        self._asked = 0.0
        self._name = table.encode("utf-16-le")

    def _count(self, kind: int, text: bytes) -> None:
        if asks := _HOW_FAR in text:
            self._asked = time.time()
        if self._name in text and (asks or _LOOK in text):
            self.polls.append(self._asked)


@dataclass(slots=True)
class Scans:
    """`ends[i]`: when the scan was over after which the newest captured LSN was `reached[i]`."""

    ends: list[float] = field(default_factory=list)
    reached: list[bytes] = field(default_factory=list)

    def captured(self, lsn: bytes) -> float:
        """When the transaction `lsn` was captured."""
        return self.ends[bisect_left(self.reached, lsn)]


def scanning(ground: Ground, stop: threading.Event, scans: Scans) -> None:
    """Scan the log on a grid of `_SCAN_EVERY`. Each new end of the log is noted."""
    client = ground.emulators.login.connect()
    cursor = client.cursor()
    due = time.monotonic()
    while not stop.is_set():
        cursor.execute("EXEC sys.sp_cdc_scan; SELECT sys.fn_cdc_get_max_lsn()")
        while cursor.description is None and cursor.nextset():
            pass
        reached, now = bytes(cursor.fetchone()[0] or b""), time.time()
        if not scans.reached or scans.reached[-1] != reached:
            scans.reached.append(reached)
            scans.ends.append(now)
        due = max(due + _SCAN_EVERY, time.monotonic())
        stop.wait(due - time.monotonic())
    client.close()


def writing(ground: Ground, changes: int, rate: float) -> dict[int, float]:
    """When each change was committed."""
    committed: dict[int, float] = {}
    due = time.monotonic()
    for number in range(1, changes + 1):
        ground.cursor.execute(f"INSERT INTO dbo.Active VALUES ({number}, N'name {number}')")
        committed[number] = time.time()
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))
    return committed


def enqueued(ground: Ground, table: TableName, changes: int) -> dict[int, float]:
    """When the queue enqueued each change, by the broker's own stamp."""
    found: dict[int, float] = {}
    deadline = time.monotonic() + _PATIENCE
    with (
        ServiceBusClient.from_connection_string(ground.emulators.bus_connection_string) as client,
        client.get_queue_receiver(
            _QUEUE,
            session_id=origin().session_id(table, "table"),  # type: ignore[arg-type]  # the SDK's union is about sessions
            receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
        ) as receiver,
    ):
        while len(found) < changes + 1 and time.monotonic() < deadline:
            for message in receiver.receive_messages(max_message_count=100, max_wait_time=5):
                at = message.enqueued_time_utc
                if at is not None:
                    found[orjson.loads(b"".join(message.body))["data"]["Id"]] = at.timestamp()
    if len(found) != changes + 1:
        raise SystemExit(f"{len(found)} changes of {changes + 1} arrived")
    return found


def parts(
    committed: dict[int, float],
    captured: Callable[[int], float],
    polls: Sequence[float],
    arrived: dict[int, float],
) -> dict[str, list[float]]:
    """The three parts of each change's way, in milliseconds."""
    found: dict[str, list[float]] = {"capture": [], "poll": [], "own": [], "whole": []}
    for number, at in committed.items():
        seen, end = captured(number), arrived[number]
        before = bisect_right(polls, seen)
        grid = max(seen, polls[before - 1] + _POLL) if before else seen
        due = min(grid, polls[before]) if before < len(polls) else grid
        for name, took in (("capture", seen - at), ("poll", due - seen), ("own", end - due), ("whole", end - at)):
            found[name].append(took * 1000)
    return found


def shares(took: Sequence[float]) -> dict[str, float]:
    """Percentiles."""
    cuts = quantiles(took, n=100)
    return {
        "p50": round(cuts[49], 1),
        "p90": round(cuts[89], 1),
        "p99": round(cuts[98], 1),
        "most": round(max(took), 1),
    }


def measured(ground: Ground, folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """All figures of one run."""
    active = ground.table("Active", _NARROW)
    tables = [active, *(ground.table(f"Beside{number}", _NARROW) for number in range(chosen.idle_tables))]
    if not chosen.low_latency:
        ground.cursor.execute("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    needs = [QueueNeed(_QUEUE, sessions=True)]
    provision(ground.bus, needs, how="create", management_endpoint=ground.emulators.management_endpoint)
    stop, scans, changes = threading.Event(), Scans(), int(chosen.seconds * chosen.rate)
    with Watched(ground.emulators.login.port, "dbo_Active") as relay:
        config = written(ground, folder, tables, relay.port, chosen)
        service = Service("ingester", config, {}, folder / "ingester.log")
        with Running(service) as running:
            ground.cursor.execute("INSERT INTO dbo.Active VALUES (0, N'first')")
            scanner = threading.Thread(target=scanning, args=(ground, stop, scans), daemon=True)
            if not chosen.low_latency:
                scanner.start()
            settled(ground, running, tables)
            ground.cursor.execute("UPDATE dbo.Active SET Name = N'opens the worker' WHERE Id = 0")
            time.sleep(_SETTLED)
            warmed(ground, chosen)
            if chosen.ahead:
                run_ahead(os.getpid())
            before = processor(service)
            committed = writing(ground, changes, chosen.rate)
            after = processor(service)
            time.sleep(3.0)
            running.check()
            stop.set()
            if not chosen.low_latency:
                scanner.join()
            arrived = enqueued(ground, active, changes)
    counted = {number: at for number, at in committed.items() if number > _WARM * chosen.rate}
    cores = {f"cores.{name}": round((after[name] - before[name]) / chosen.seconds, 3) for name in after}
    if chosen.low_latency:
        return {"whole": shares([(arrived[number] - at) * 1000 for number, at in counted.items()]), **cores}
    lsns = places(ground)
    found = parts(counted, lambda number: scans.captured(lsns[number]), relay.polls, arrived)
    return {**{name: shares(took) for name, took in found.items()}, **cores}


def warmed(ground: Ground, chosen: argparse.Namespace) -> None:
    """Let the server have a plan for the question about each table: it makes one when there is first something to look for."""
    if chosen.idle_tables and not chosen.low_latency:
        ground.cursor.execute("UPDATE dbo.Active SET Name = N'the log grows' WHERE Id = 0")
        time.sleep(_FOR_PLANS)


def run_ahead(pid: int) -> None:
    """Real-time scheduling for all threads of `pid` and of its descendants. What they start later inherits it."""
    for process in (pid, *descendants(pid)):
        with suppress(OSError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))


def places(ground: Ground) -> dict[int, bytes]:
    """The LSN of each change."""
    ground.cursor.execute("SELECT ct.Id, ct.[__$start_lsn] FROM cdc.dbo_Active_CT AS ct")
    return {number: bytes(lsn) for number, lsn in ground.cursor.fetchall()}


def processor(service: Service) -> dict[str, float]:
    """Seconds of processor time so far, by part of the ingester."""
    return {name: sum(map(processor_seconds, pids)) for name, pids in ingester_processes(service.pid).items()}


def settled(ground: Ground, running: Running, tables: Sequence[TableName]) -> None:
    """Wait until every table has an offset, and a little longer."""
    patience = _PATIENCE + _A_TABLE * len(tables)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        running.check()
        with suppress(pymssql.Error):
            ground.cursor.execute("SELECT COUNT(*) FROM dbo.cdc_offsets")
            if ground.cursor.fetchone()[0] >= len(tables):
                running.wait_for_spark()
                time.sleep(_SETTLED)
                return
        time.sleep(0.5)
    raise SystemExit(f"not every table has an offset after {patience:.0f} s")


def written(ground: Ground, folder: Path, tables: Sequence[TableName], port: int, chosen: argparse.Namespace) -> Path:
    """The configuration file."""
    path = folder / "latency.hcl"
    path.write_text(
        configuration(
            ground,
            tables,
            queue=_QUEUE,
            port=port,
            poll=f"{int(_POLL * 1000)}ms",
            longest=_LONGEST,
            more="low_latency = true" if chosen.low_latency else "",
        )
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=50, help="changes a second")
    parser.add_argument(
        "--idle-tables", type=int, default=0, help="under capture beside the active one, without a change"
    )
    parser.add_argument("--low-latency", action="store_true", help="the ingester scans the log, not the program")
    parser.add_argument("--ahead", action="store_true", help="before all other processes of the machine (root)")
    chosen = parser.parse_args()
    every = 20.0 if chosen.low_latency else _SCAN_EVERY
    with tempfile.TemporaryDirectory() as folder, Ground(capture_interval=every) as ground:
        figures = {"idle_tables": chosen.idle_tables, **measured(ground, Path(folder), chosen)}
    for name, value in figures.items():
        told = "  ".join(f"{share} {took:8.1f}" for share, took in value.items()) if isinstance(value, dict) else value
        print(f"{name:<14} {told}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
