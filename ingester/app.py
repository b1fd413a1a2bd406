"""Settings to a running ingester, on Spark or (`provide`) in threads of this process; `worker.py` does the same where slices are drained.

Spark starts first, because that takes seconds of another core. Database, offsets, locks and queue are tried meanwhile, in this order: a wrong
password still fails at once, and ends what has begun. Slices need not wait for a local Spark: until it is there, a process forked from this one
runs them. A cluster is asked for executors last: a start that fails again and again asks for none.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from common.buses import module_of
from common.clock import steady, unix
from common.cores import usable_cores
from common.errors import Stopped
from common.names import TRANSACTIONS, TableName
from common.observability.tracing import variables
from common.observability.unanswered import told_while_unanswered
from ingester.destination import destination_of, open_queue
from ingester.driver.history.parts import Stored
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.loop import Loop
from ingester.driver.loop_settings import STOP_SECONDS, LoopSettings
from ingester.driver.pausing.look import PauseLook
from ingester.driver.reload import Rhythms, Shapes, plan, rhythms, shapes, snapshot_rules
from ingester.driver.scanning.pace import SCAN_SECONDS, Pace
from ingester.driver.scanning.scanner import LogScanner
from ingester.driver.threads import Threads
from ingester.executor import Executor
from ingester.finding.finder import Finder
from ingester.lock_backends import lock_keys, lock_names, locks_of, places, scan_lock
from ingester.locks import Locks
from ingester.observation import observed
from ingester.offsets import TakenOffsets
from ingester.settings import IngesterSettings
from ingester.spark.conf import is_local
from ingester.spark.first.child import Child, forked
from ingester.spark.first.hand_over import HandOver, answered
from ingester.spark.launched import Launched, launched
from ingester.sqlserver.catalog.under_cdc import tables_under_cdc
from ingester.sqlserver.connection import Connection, given_up
from ingester.sqlserver.hints import BESIDE_THE_JOB
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.history.store import SqlServerSnapshots
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.operating.pauses import SqlServerPauses
from ingester.sqlserver.scanning.log_scan import SqlServerLogScan
from ingester.sqlserver.schema.store import SqlServerSchemas
from ingester.sqlserver.source import SqlServerSource
from ingester.sqlserver.transactions.source import sql_server_source
from ingester.stdio.executor import ThreadExecutor
from ingester.stdio.output import Output
from ingester.stdio.settings import ProviderSettings
from ingester.task.lines import LineEncoder, Lines
from ingester.watch.edits import FileWatch, noted
from ingester.watch.stats import IngesterStats
from ingester.worker import Sending, Worker, first_task, run_bundle
from ingester.worker_settings import WorkerSettings

if TYPE_CHECKING:
    from ingester.spark.executor import SparkExecutor

log = structlog.get_logger("ingester")

_PROVIDER_STOPS = 4.0
"""Seconds that the line in flight may take after a stop. With what follows, the process ends before the original's host kills it, after 10 s."""
_LOOK = 60.0
"""Seconds that a statement may take which looks where the next chunks of a snapshot end."""

_SERVER_AWAY = "check whether it is overloaded, a session holds locks in the database, or the network drops packets"
_LOCKS_AWAY = "check that this machine reaches what keeps them: the storage account, or SQL Server"
_JVM_SECONDS = 5.0
"""After which PySpark is imported although the JVM does not listen yet."""
_SCANS_APART = 0.1
"""The fewest seconds from one scan of the log to the next."""
_NO_TABLE = 5.0
"""The same in seconds while patterns match no table."""

SettingsWatch = Callable[[Callable[[IngesterSettings], None]], AbstractContextManager[object]]
"""While its context is open, it calls the given function, from any thread, with each changed configuration."""

Begun = Callable[[], AbstractContextManager[Executor]]
"""Waits until slices can run. While its context is open, they do."""

Engine = Callable[[IngesterSettings], AbstractContextManager[Begun]]
"""What runs slices, with the settings as they were resolved. It starts when its context is opened, and ends with it."""


def forked_place(settings: IngesterSettings, ahead: Launched) -> Child | None:
    """The process for the first slices, if there may be one: with a cluster, nothing of the ingester reads beside it."""
    if not is_local(settings.spark.master):
        return None
    import_module(module_of(settings.queue))
    return forked(partial(run_bundle, WorkerSettings.of(settings)), ahead.scratch.path / "first-stopping")


def run(
    settings: IngesterSettings,
    stop: threading.Event,
    *,
    watched: FileWatch = lambda take, refused: nullcontext(),
    ahead: Launched | None = None,
    first: Child | None = None,
) -> int:
    """Run stage 1 until `stop`. Returns the exit status. `ahead`: the JVM, which its launcher closes. `first`: `forked_place`, which ends with this.

    Raises ConfigurationError, and PermanentError or TransientError when it cannot start.
    """
    try:
        with observed(settings, stop) as stats:
            return _run(settings, stop, stats, partial(_on_spark, stop, ahead, first=first), noted(watched, stats))
    except Stopped:
        log.info("ingester stopped", changes=0, left_out=0)
        return 0
    finally:
        if first is not None:
            first.kill()


def provide(settings: ProviderSettings, stop: threading.Event, *, descriptor: int) -> int:
    """Run the same loop with this process's threads, and lines to `descriptor` in the place of the queue, until `stop`. Returns the exit status.

    Raises as `run`, and PermanentError when it cannot be written to. A reader that is gone is no error: that is a stop.
    """
    output = Output(descriptor, stop.set)
    output.watch(stop)
    with observed(settings, stop) as stats:
        status = _run(settings, stop, stats, partial(_in_threads, settings, output))
    output.trouble()
    return status


def _run(
    settings: IngesterSettings,
    stop: threading.Event,
    stats: IngesterStats,
    engine: Engine,
    watched: SettingsWatch = lambda take: nullcontext(),
) -> int:
    with engine(settings) as begun:
        looking = Connection(settings.db, stop=stop)
        finder = Finder(settings, partial(tables_under_cdc, looking), stats.found, looking.close)
        with given_up(stop), _asking(settings, "the tables"):
            resolved = finder.begin()
        return _run_with(resolved, finder, stop, stats, begun, watched)


def _run_with(
    settings: IngesterSettings,
    finder: Finder,
    stop: threading.Event,
    stats: IngesterStats,
    begun: Begun,
    watched: SettingsWatch,
) -> int:
    """`settings`: with the tables that were found. `begun`: entered once database and locks have answered."""
    stats.begins(settings.streams)
    locks = locks_of(settings, keys := lock_keys(settings, settings.streams))
    connection = Connection(settings.db, stop=stop)
    try:
        source = _source(settings, connection, counted := list(settings.tables))
        offsets = SqlServerOffsets(connection, destination_of(settings))
        pauses = PauseLook(SqlServerPauses(Connection(settings.db, proven=True, stop=stop)))
        with given_up(stop), _asking(settings, "offsets and pauses"):
            offsets.ensure()
            stored, paused = _stored(settings, connection, stop), pauses.first()
        with given_up(stop), told_while_unanswered(f"locks of type {settings.locks.type}", hint=_LOCKS_AWAY):
            locks.ensure()
        with begun() as executor:
            leases = LeaseKeeper(locks, clock=steady, places=places(settings, len(settings.streams)))
            loop = Loop(
                _loop_settings(settings),
                source=source,
                offsets=offsets,
                stored=stored,
                leases=leases,
                executor=executor,
                stats=stats,
                stop=stop,
                clock=steady,
                now=unix,
                chance=random.random,
            )
            loop.pauses(paused)
            if not stop.is_set():
                log.info("ingester started", tables=len(settings.tables), slots=executor.slots)
            leases.start()
            reload = _Reload(settings, loop, leases, keys, counted)
            scans = _scanning(settings, locks, stats, loop.look, stop, reload.pace)
            with finder.running(reload), watched(finder.configured), pauses.running(loop.pauses), scans:
                status = loop.run()
        log.info("ingester stopped", changes=loop.changes, left_out=loop.left_out)
        return status
    finally:
        locks.close()
        connection.close()


def _asking(settings: IngesterSettings, of: str) -> AbstractContextManager[None]:
    return told_while_unanswered(f"SQL Server {settings.db.host}, asked about {of}", hint=_SERVER_AWAY)


def _scans_apart(settings: IngesterSettings) -> float:
    every = min((table.poll_interval.total_seconds() for table in settings.schedule), default=_NO_TABLE)
    return max(_SCANS_APART, every)


def _scanning(
    settings: IngesterSettings,
    locks: Locks,
    stats: IngesterStats,
    look: Callable[[], None],
    stop: threading.Event,
    pace: Pace,
) -> AbstractContextManager[None]:
    """Scans of the log, where they are wanted. The lock is one of those of the tables, so that one ingester of a database scans."""
    if not settings.low_latency:
        return nullcontext()
    return LogScanner(
        SqlServerLogScan(Connection(settings.db, proven=True, query_seconds=SCAN_SECONDS, stop=stop)),
        LeaseKeeper(locks, clock=steady, tells=False),
        scan_lock(settings),
        pace,
        stats=stats,
        look=look,
        busy_hint=BESIDE_THE_JOB,
        clock=steady,
    ).running()


@contextmanager
def _on_spark(
    stop: threading.Event, ahead: Launched | None, settings: IngesterSettings, *, first: Child | None = None
) -> Iterator[Begun]:
    jvm = ahead or launched(settings)
    try:
        if first is not None:
            with closing(HandOver(first, partial(_starts, settings, jvm), stop)) as executor:
                yield partial(_open, stop, settings, executor)
            return
        spark, start = _spark(settings, jvm)
        if local := is_local(settings.spark.master):
            start()
        with closing(spark):
            yield partial(_begun, stop, settings, spark, None if local else start)
    finally:
        jvm.close()


def _starts(settings: IngesterSettings, jvm: Launched) -> SparkExecutor:
    """In a thread. PySpark's import would take the interpreter from the start's other steps, and is of no use before the JVM listens."""
    jvm.jvm.awaited(_JVM_SECONDS)
    executor, start = _spark(settings, jvm)
    start()
    return executor


@contextmanager
def _open(stop: threading.Event, settings: IngesterSettings, executor: HandOver) -> Iterator[Executor]:
    open_queue(settings, stop)
    executor.check()  # a start that has failed by now never takes a lock
    with closing(executor):
        yield executor


def _spark(settings: IngesterSettings, jvm: Launched) -> tuple[SparkExecutor, Callable[[], None]]:
    """The executor, and what connects it to the JVM: from then on, a cluster is asked for executors."""
    from ingester.spark.executor import SparkExecutor  # slow to import, and a provider has no Spark

    # What a bundle takes to a worker; None where all run on this machine and have it in their environment.
    local = is_local(settings.spark.master)
    carried = None if local else replace(WorkerSettings.of(settings), tracing=variables(os.environ))
    executor = SparkExecutor(partial(run_bundle, carried), jvm, slots=settings.spark.slots)
    return executor, partial(executor.start, partial(first_task, carried))


@contextmanager
def _begun(
    stop: threading.Event, settings: IngesterSettings, executor: SparkExecutor, start: Callable[[], None] | None
) -> Iterator[Executor]:
    try:
        open_queue(settings, stop)
        if start is not None:
            start()
        answered(executor, stop)
        yield executor
    finally:
        executor.close()


@contextmanager
def _in_threads(provided: ProviderSettings, output: Output, settings: IngesterSettings) -> Iterator[Begun]:
    def outlet(offsets: TakenOffsets) -> Sending:
        lines = Lines(
            offsets,
            output,
            server_name=settings.origin.server,
            poll_interval=provided.interval_of,
            longest=provided.max_line_bytes,
        )
        return Sending(lines, LineEncoder(settings.origin), lines)

    worker = Worker(WorkerSettings.of(settings), lambda: output.finishing, outlet=outlet)
    yield lambda: nullcontext(ThreadExecutor(worker.run_all, output))


def _source(settings: IngesterSettings, connection: Connection, counted: list[TableName]) -> SqlServerSource:
    return sql_server_source(
        connection, transactions=settings.transactions, tables=counted.copy, query_mode=settings.query_mode
    )


def _stored(settings: IngesterSettings, connection: Connection, stop: threading.Event) -> Stored:
    """Only snapshots that the configuration asks for need their store from the start; a person's command creates it as well."""
    snapshots = SqlServerSnapshots(connection)
    if snapshot_rules(settings, on_gap=settings.on_gap).takes_any:
        snapshots.ensure()
    if settings.keeps_schemas:
        SqlServerSchemas(connection).ensure()
    numbers = settings.decimals == "number"

    def rows() -> SqlServerRows:
        return SqlServerRows(
            Connection(settings.db, proven=True, query_seconds=_LOOK, stop=stop), decimals_as_numbers=numbers
        )

    return Stored(rows, snapshots, Threads("snapshot").run)


class _Reload:
    """Applies changed settings of tables to the running loop, and logs those that need a restart. Called by one thread at a time.

    `keys`: the offset's key of each lock; locks of added tables are added to it. `counted`: the tables whose changes count in the events
    about transactions, from the next look at the catalog on.
    """

    def __init__(
        self,
        settings: IngesterSettings,
        loop: Loop,
        leases: LeaseKeeper,
        keys: dict[str, str],
        counted: list[TableName],
    ) -> None:
        self.pace = Pace(_scans_apart(settings))  # of the scans of the log
        self._settings, self._loop, self._leases, self._keys, self._counted = settings, loop, leases, keys, counted
        self._tables: Rhythms = rhythms(settings)
        self._snapshots = snapshot_rules(settings, on_gap=settings.on_gap)
        self._shapes: Shapes = shapes(settings)
        self._most = len(self._tables)
        self._restart: tuple[str, ...] = ()

    def __call__(self, new: IngesterSettings, edited: bool) -> None:
        """`edited`: the file has changed; otherwise patterns match other tables."""
        decided = plan(self._settings, self._tables, self._shapes, new)
        if decided.restart and (edited or decided.restart != self._restart):
            log.warning("changed settings need a restart", settings=list(decided.restart))
        self._restart = decided.restart
        if not decided.changes and decided.snapshots == self._snapshots and decided.shapes == self._shapes:
            return
        added = list(decided.changes.added)
        self._keys.update(lock_keys(self._settings, added))
        self._most = max(self._most, len(decided.tables))
        self._leases.count_by(places(self._settings, self._most))
        self.pace.every = _scans_apart(new)  # read by another thread before its next scan
        self._counted[:] = [table for table in decided.tables if table != TRANSACTIONS]
        self._loop.reconfigure(decided.changes, lock_names(self._settings, added), decided.snapshots, decided.shapes)
        self._tables, self._snapshots, self._shapes = decided.tables, decided.snapshots, decided.shapes
        event = "configuration reloaded" if edited else "tables changed"
        log.info(event, tables=len(decided.tables), intervals_changed=len(decided.changes.paced))


def _loop_settings(settings: IngesterSettings) -> LoopSettings:
    return LoopSettings(
        tables=rhythms(settings),
        lock_names=lock_names(settings, settings.streams),
        page_rows=settings.page_rows,
        slice_seconds=settings.slice.total_seconds(),
        coalesce_seconds=settings.coalesce.total_seconds(),
        skip_gaps=settings.on_gap == "skip",
        stop_seconds=_PROVIDER_STOPS if isinstance(settings, ProviderSettings) else STOP_SECONDS,
        # no snapshot can bring back the events of transactions
        skips_events=settings.on_gap != "fail",
        snapshots=snapshot_rules(settings, on_gap=settings.on_gap),
        shapes=shapes(settings),
        ordering=settings.queue.ordering if settings.query_mode == "direct" else "table",
        # A slot mostly waits, but the tasks of one hot table compute: more of them than cores would only start more processes.
        most_parts=usable_cores() if is_local(settings.spark.master) else None,
    )
