"""How fast a table's rows are sent by a snapshot, beside what the public driver and SDK would reach; and what live changes notice of it.

    .venv/bin/python -m bench.snapshots [--rows 100000] [--tasks 1 2 4] [--seconds 15] [--bound 256]

The rows, of 10 mixed columns, are older than the table's capture. `rows_s`: of `dstream ingester`, from the snapshot's begin to its end, while
live changes of the table itself and of another one go on (20 a second each). Everything (Spark, both emulators) shares the cores of this machine.
A ceiling is what somebody else's code reaches with nothing else to do, in as many processes at once as there are tasks, the mean of what is seen
just before and just after: `fetch` is pymssql's fetchall over the very statements that read the pages, `send` the public SDK with the same
messages, `encode` orjson over what stands ready. `ratio_to_ceiling` is the snapshot's rate by the lowest of them.
Lags are from a change's commit until its table's offset has passed it, which follows the send: without a snapshot, and during it.
For each number of tasks the emulators begin empty. The last line is JSON. Exit status 1 when a worker took more than `--bound` MB. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from bench.ingest import Figures, place_of, shown, together
from bench.ingestion import stages
from bench.ingestion.ground import COLUMNS, TRANSACTION_ROWS, Ground, origin, sql_address
from bench.ingestion.whole import Ingester
from common.message import Message
from common.names import TableName
from ingester.history.rows import RowsQuery
from ingester.history.snapshot import Chunk
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.history.desk import SqlServerSnapshotDesk
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.source import SqlServerSource
from ingester.task.encode import Encoder
from ingester.task.events import RowChanges

_BIG, _OTHER = TableName("dbo", "Big"), TableName("dbo", "Other")
_NAMED: Final = "Big, Name, Code, Amount, Price, Ratio, Seen, Guid, Flag"
_RATE: Final = 20.0
_LOOK: Final = 0.05
_PATIENCE: Final = 1800.0
_CEILINGS: Final = ("fetch", "encode", "send")
_SAMPLE: Final = 20_000
"""Rows that the ceilings are taken from: they do not depend on the number."""


def loaded(ground: Ground, rows: int) -> None:
    """The rows first, then their capture."""
    for table, count in ((_BIG, rows), (_OTHER, TRANSACTION_ROWS)):
        ground.cursor.execute(f"CREATE TABLE {table.quoted} ({COLUMNS})")
        for first in range(0, count, TRANSACTION_ROWS):
            ground.cursor.execute(
                f"INSERT INTO {table.quoted} SELECT Id + {first}, {_NAMED} FROM dbo.Seed WHERE Id < {count - first}"
            )
        ground.cursor.execute(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{table.schema}', @source_name = N'{table.table}', @role_name = NULL"
        )


class _Recording(Connection):
    """Remembers the text of what fetches a page."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(sql_address(ground.emulators.login))
        self.statements: list[str] = []

    def rows_until(self, sql: str, parameters: Sequence[object], enough: Callable[[tuple[Any, ...]], bool]) -> Any:
        self.statements.append(stages.with_literals(sql, parameters))
        return super().rows_until(sql, parameters, enough)


def sampled(ground: Ground, queue: str) -> tuple[list[str], list[Message]]:
    """What the product asks for and sends for the first rows: the pages' statements, and their messages."""
    connection = _Recording(ground)
    with closing(SqlServerRows(connection, decimals_as_numbers=False)) as rows:
        source = SqlServerSource(Connection(sql_address(ground.emulators.login)))
        with closing(source):
            instance = source.states([_BIG])[_BIG].instances[0]
        base = rows.table(instance)
        chunk = Chunk("0123456789ab", base, number=1, rows=_SAMPLE)
        made, encoder = RowChanges(chunk, instance.start), Encoder(origin(), queue)
        messages: list[Message] = []
        after = None
        while len(messages) < _SAMPLE:
            page = rows.page(RowsQuery(base, stages.PAGE_ROWS, after=after))
            if not page.rows:
                break
            messages += [encoder.message(change) for change in made.of(page)]
            after = page.rows[-1].at
    return connection.statements, messages


def ceilings(place: stages.Place, tasks: int, statements: Sequence[str], sent: Sequence[Message]) -> dict[str, float]:
    return {
        "fetch": together(stages.fetch_ceiling, tasks, place, statements),
        "encode": together(stages.encode_ceiling, tasks, sent),
        "send": together(stages.send_ceiling, tasks, place, sent),
    }


class Live:
    """Changes both tables `_RATE` times a second, and looks when the offsets pass them. `with` starts and stops it."""

    def __init__(self, ground: Ground) -> None:
        self._login = ground.emulators.login
        self._stop = threading.Event()
        self.committed: dict[TableName, list[tuple[float, int]]] = {_BIG: [], _OTHER: []}
        """When, and the number that it left in the row."""
        self.offsets: list[tuple[float, dict[str, bytes]]] = []
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (lambda: self._change(_BIG), lambda: self._change(_OTHER), self._look)
        ]

    def __enter__(self) -> Live:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _change(self, table: TableName) -> None:
        with self._login.connect() as connection, connection.cursor() as cursor:
            number = 10**12
            while not self._stop.wait(1 / _RATE):
                number += 1
                cursor.execute(
                    f"UPDATE {table.quoted} SET Big = {number} WHERE Id = {number * 7919 % TRANSACTION_ROWS}"
                )
                self.committed[table].append((time.monotonic(), number))

    def _look(self) -> None:
        with self._login.connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(_LOOK):
                cursor.execute("SELECT table_name, last_lsn FROM dbo.cdc_offsets WHERE last_lsn IS NOT NULL")
                self.offsets.append((time.monotonic(), {name: bytes(lsn) for name, lsn in cursor.fetchall()}))

    def lags(self, table: TableName, begun: float, ended: float) -> list[float]:
        """Seconds of the changes that were committed in this time, once all of them were sent."""
        with self._login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                f"SELECT ct.Big, ct.[__$start_lsn] FROM cdc.{table.schema}_{table.table}_CT AS ct WHERE ct.[__$operation] = 4"
            )
            lsns = {number: bytes(lsn) for number, lsn in cursor.fetchall()}
        found, looks = [], iter(self.offsets)
        at, offsets = next(looks)
        for committed, number in self.committed[table]:
            if not begun <= committed < ended:
                continue
            while at < committed or offsets.get(table.key, b"") < lsns[number]:
                at, offsets = next(looks)
            found.append(at - committed)
        return found


def percentiles(lags: Sequence[float], what: str) -> Figures:
    shares = quantiles(lags, n=100)
    return {f"lag_p50_s.{what}": shares[49], f"lag_p99_s.{what}": shares[98], f"lag_most_s.{what}": max(lags)}


@contextmanager
def running(ground: Ground, folder: Path, queue: str, tasks: int) -> Iterator[Ingester]:
    """An ingester that sends the live changes of both tables already."""
    for table in (_BIG, _OTHER):  # so that the log has an end
        ground.cursor.execute(
            f"UPDATE {table.quoted} SET Big = Big + 1 WHERE Id = (SELECT MIN(Id) FROM {table.quoted})"
        )
    with Ingester(ground, folder, [_BIG, _OTHER], queue=queue, slots=tasks) as ingester:
        deadline = time.monotonic() + _PATIENCE
        while not _offsets_of(ground, 2):
            ingester.check()
            if time.monotonic() > deadline:
                raise SystemExit("the tables have no offsets")
            time.sleep(_LOOK)
        yield ingester


def _offsets_of(ground: Ground, tables: int) -> bool:
    ground.cursor.execute("SELECT OBJECT_ID(N'dbo.cdc_offsets', N'U')")
    if ground.cursor.fetchone()[0] is None:
        return False
    ground.cursor.execute("SELECT COUNT(*) FROM dbo.cdc_offsets WHERE last_lsn IS NOT NULL")
    return bool(ground.cursor.fetchone()[0] >= tables)


def snapshot(ground: Ground, ingester: Ingester) -> tuple[float, float, int]:
    """Take one of the large table; when it began and ended, and its rows."""
    desk = SqlServerSnapshotDesk(Connection(sql_address(ground.emulators.login)))
    with closing(desk):
        asked = desk.start(_BIG, where=None, topic=None)
    began, deadline = 0.0, time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        ingester.check()
        ground.cursor.execute(f"SELECT state, row_count, error FROM dbo.cdc_snapshots WHERE id = N'{asked}'")
        state, rows, error = ground.cursor.fetchone()
        if state != "waiting" and not began:
            began = time.monotonic()
        if state == "done":
            return began, time.monotonic(), rows
        if state == "failed":
            raise SystemExit(f"the snapshot failed: {error}")
        time.sleep(_LOOK)
    raise SystemExit(f"the snapshot was not over within {_PATIENCE:.0f} s")


def measured(folder: Path, rows: int, tasks: int, seconds: float) -> Figures:
    """One snapshot by `tasks` tasks, between two looks at the ceilings."""
    with Ground() as ground:
        loaded(ground, rows)
        place = place_of(ground, "ceilings")
        statements, sent = sampled(ground, "ceilings")
        before = ceilings(place, tasks, statements, sent)
        with running(ground, folder, f"snapshot-{tasks}", tasks) as ingester, Live(ground) as live:
            time.sleep(seconds / 3)  # connections and senders are opened
            quiet = time.monotonic()
            time.sleep(seconds)
            spent = ingester.processor()
            began, ended, count = snapshot(ground, ingester)
            spent = {part: now - spent[part] for part, now in ingester.processor().items()}
            time.sleep(seconds)  # what was committed last is sent
            peaks = ingester.peaks()
        after = ceilings(place, tasks, statements, sent)
        lags = {
            "another_table.without": live.lags(_OTHER, quiet, began),
            "another_table.during": live.lags(_OTHER, began, ended),
            "same_table.without": live.lags(_BIG, quiet, began),
            "same_table.during": live.lags(_BIG, began, ended),
        }
    reached = {stage: (before[stage] + after[stage]) / 2 for stage in _CEILINGS}
    lowest = min(_CEILINGS, key=lambda stage: reached[stage])
    rate = count / (ended - began)
    figures: Figures = {"rows": count, "seconds": ended - began, "rows_s": rate}
    figures |= {f"ceiling_s.{stage}": ceiling for stage, ceiling in reached.items()}
    figures |= {"slowest_stage": lowest, "ratio_to_ceiling": rate / reached[lowest]}
    figures |= {f"processor_us_a_row.{part}": seconds / count * 1e6 for part, seconds in spent.items()}
    figures |= {f"peak_mb.{part}": peak for part, peak in peaks.items()}
    for what, found in lags.items():
        figures |= percentiles(found, what)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seconds", type=float, default=15, help="of live changes without a snapshot")
    parser.add_argument("--bound", type=float, default=256, help="MB of a worker")
    chosen = parser.parse_args()
    figures: dict[str, Figures] = {}
    for tasks in chosen.tasks:
        print(f"\nload of the machine {os.getloadavg()[0]:.1f}")
        with tempfile.TemporaryDirectory() as folder:
            found = measured(Path(folder), chosen.rows, tasks, chosen.seconds)
        figures[str(tasks)] = shown(f"{tasks} tasks, {chosen.rows} rows", found)
    print(json.dumps(figures))
    if max(found["peak_mb.workers"] for found in figures.values()) > chosen.bound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
