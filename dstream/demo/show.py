"""The steps of the demo: start, workload with a live table, verdict."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from common.names import TableName
from dstream.demo import display
from dstream.demo.destinations.port import Destination
from dstream.demo.pipeline import CAPTURE_INTERVAL, POLL_INTERVAL, Pipeline
from dstream.demo.schema import TABLES
from dstream.demo.verdict import Verdict
from dstream.demo.workload import Pace

CHANGES = 6000
"""The number of changes without `--changes`."""

_SETTLE_SECONDS = 120.0
"""How long nothing may arrive before what is missing counts as lost."""
_START_SECONDS = 300.0
"""The same while nothing has arrived yet: Spark is slow to start on a busy machine."""
_QUIET_SECONDS = 2.0
_WARM_SECONDS = 2.0
"""After the first message. By then the changes that accumulated during the start are on their way."""

_OFFSETS = "SELECT OBJECT_ID(N'dbo.cdc_offsets', N'U')"

_INGESTED = """\
SELECT COUNT(*) FROM cdc.{instance}_CT AS ct
JOIN dbo.cdc_offsets AS o ON o.table_name = N'{key}'
WHERE ct.[__$operation] <> 3 AND ct.[__$start_lsn] <= o.last_lsn"""


class Show:
    """One demo."""

    def __init__(
        self, folder: Path, *, pace: Pace, keep: bool, stop: threading.Event, destination: Destination | None = None
    ) -> None:
        self._pipeline = Pipeline(folder, pace=pace, destination=destination)
        self._destination = destination
        self._folder = folder
        self._keep = keep
        self._stop = stop
        self._console = Console()

    def run(self) -> int:
        """Return the exit status: 0 for a good verdict, 1 for a bad one and for a demo that was stopped."""
        self._console.print(
            "Starting the SQL Server and Service Bus emulators, the ingester (Spark) and the router ..."
            if self._destination is None
            else f"Starting the emulators, the ingester (Spark) and the router; changes go to {self._destination.where} ...",
            soft_wrap=True,
        )
        with self._pipeline as pipeline:
            pipeline.workload.start()
            self._watch(pipeline)
            if self._stop.is_set():
                return 1
            pipeline.workload.join()
            self._stop.wait(_QUIET_SECONDS)  # for messages that should not arrive any more
            result = pipeline.verdict()
            display.messages(self._console, pipeline.subscriber.received())
            display.verdict(self._console, result, _facts(pipeline, result), pipeline.subscriber)
            if self._keep:
                self._stay(pipeline)
        return 0 if result.good else 1

    def _watch(self, pipeline: Pipeline) -> None:
        """Show the table until everything has arrived, or until the wait for the rest is over."""
        counter = Ingested(pipeline)
        patience = Patience(time.monotonic())
        try:
            with Live(console=self._console, refresh_per_second=4) as live:
                while not self._stop.wait(0.5):
                    pipeline.check_alive()
                    running = pipeline.workload.running
                    title = "Committing changes:" if running else "Waiting for the last messages:"
                    delivered = pipeline.delivered()  # brings the counts of rows up to date
                    received = pipeline.subscriber.counts()
                    live.update(display.progress(title, pipeline.ledger.counts(), counter.counts(), received))
                    over = patience.over(sum(received.values()), time.monotonic())
                    if not running and (delivered or over):
                        return
        finally:
            counter.close()

    def _stay(self, pipeline: Pipeline) -> None:
        emulators = pipeline.emulators
        self._console.print(
            f"\nEverything keeps running until you press Ctrl-C.\n  SQL Server   {emulators.db_connection_string}\n"
            f"  Service Bus  {emulators.bus_connection_string}\n  management   {emulators.management_endpoint}\n"
            f"{'' if self._destination is None else f'  output       {self._destination.where}{chr(10)}'}"
            f"  configuration and logs in {self._folder}",
            soft_wrap=True,
            markup=False,
        )
        while not self._stop.wait(0.5):
            pipeline.check_alive()


class Patience:
    """With messages that are on their way, by their number and the time."""

    def __init__(self, now: float) -> None:
        self._arrived, self._since = 0, now

    def over(self, arrived: int, now: float) -> bool:
        """Whether nothing has arrived for so long that nothing more is expected."""
        if arrived != self._arrived:
            self._arrived, self._since = arrived, now
        return now - self._since >= (_SETTLE_SECONDS if arrived else _START_SECONDS)


class Ingested:
    """How many captured changes are at or before each table's offset: plain queries that anyone can run."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._connection = pipeline.emulators.login.connect()
        self._known: dict[TableName, int] = {}

    def counts(self) -> dict[TableName, int]:
        with self._connection.cursor() as cursor:
            cursor.execute(_OFFSETS)
            if cursor.fetchone()[0] is None:  # the ingester has not created its table yet
                return self._known
            for table in TABLES:
                cursor.execute(_INGESTED.format(instance=f"{table.schema}_{table.table}", key=table.key))
                self._known[table] = cursor.fetchone()[0]
        return self._known

    def close(self) -> None:
        self._connection.close()


def pace_of(changes: int | None, seconds: float) -> Pace:
    """`changes` spread over `seconds`; a slow machine takes longer. With few of them, the large transaction has few rows."""
    changes = changes or CHANGES
    return Pace(changes, seconds, large=min(Pace.large, changes // 2))


def _facts(pipeline: Pipeline, result: Verdict) -> list[tuple[str, str]]:
    first = pipeline.first_arrival()
    if first is None:
        return []
    warm = first + _WARM_SECONDS
    median, most = result.lag(0.5, since=warm), result.lag(0.99, since=warm)
    rhythm = f"captured every {CAPTURE_INTERVAL} s, polled every {POLL_INTERVAL}"
    return [
        ("From the start to the first message", f"{first - pipeline.started_at:.1f} s, Spark included"),
        (
            "From commit to topic, once warm",
            "not measured: all changes were committed before; try --seconds 60"
            if median is None or most is None
            else f"median {median:.2f} s, 99 % within {most:.2f} s",
        ),
        ("", f"({rhythm})"),
    ]
