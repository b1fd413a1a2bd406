"""Settings to a running worker: what a Python worker keeps between tasks, and how it drains a bundle.

Opening a connection and a sender takes up to half a second, so they live as long as the worker. Spark closes a worker that was idle for
60 s; the next task opens them again.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from common.bus.ports import Sender
from common.buses import bus_of
from common.clock import SteadyClock, SteadyTime, steady, unix
from common.errors import PermanentError, TransientError
from common.names import TableName
from common.observability.stacks import tell_stacks_on_signal
from common.observability.tracing import spans_of
from common.side_topic import SideTopics
from ingester.blocks.spark import RESULTS_PORT
from ingester.executor import Early
from ingester.offsets import TakenOffsets
from ingester.position import Position
from ingester.slices import Slice, SliceResult, WorkerClock, failed, unsettled, untouched
from ingester.spark.driver_line import Driver
from ingester.spark.reach import Reach
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.history.rows import SqlServerRows
from ingester.sqlserver.history.store import SqlServerSnapshots
from ingester.sqlserver.login.trust import authorities
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.schema.store import SqlServerSchemas
from ingester.sqlserver.transactions.source import sql_server_source
from ingester.task.chunk_pages import ChunkReader
from ingester.task.collecting import collect_seldom
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.pack import PackingSender
from ingester.task.read_ahead import ReadAhead
from ingester.task.read_chunk import ChunkDrain
from ingester.task.traced import TracedChunks, TracedPages, traced_sender
from ingester.worker_settings import WorkerSettings, from_environment

THREADS = 8
"""Tables of a bundle that one task drains at a time: they mostly wait, and threads are cheaper than processes."""

BEGIN_SECONDS = 60.0
"""A slice that the driver gave its time and shape so long ago does not begin: an edited mask must hold soon, however long a slice waits."""

IDLE_SECONDS = 60.0
"""A bench that was idle for so long is closed: a connection costs the server memory, and opening it again takes half a second."""


class Sending(NamedTuple):
    """What a bench sends with, and the offsets that it moves."""

    sender: Sender
    encoder: Encoder
    offsets: TakenOffsets


Outlet = Callable[[TakenOffsets], Sending]
"""Where all benches of a process send to; called for each, with the offsets of its database."""


class _QueueOutlet:
    """The ingest queue."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        # One for all benches, so that they share an identity's token. Proven, because the driver has signed in before it sent a task.
        self._bus = bus_of(settings.queue, proven=True)

    def __call__(self, offsets: TakenOffsets) -> Sending:
        queue = self._settings.queue
        sender: Sender = self._bus.sender(queue.name)
        if queue.most_packed > 1:
            sender = PackingSender(sender, queue.most_packed)
        return Sending(sender, Encoder(self._settings.origin, queue.name, queue.ordering, queue.key_buckets), offsets)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """What reads chunks, over connections of its own: one for the rows, which are read ahead, and one for the fence."""

    drain: ChunkDrain
    connection: Connection

    def close(self) -> None:
        self.drain.reader.close()
        self.connection.close()


@dataclass(slots=True)
class _Bench:
    """What one thread works with; never used by two threads at once. `connection`: next to the source's own, opened when that one is busy.

    `chunks`: what it reads chunks of snapshots with, since the first one came.
    """

    drain: Drain
    connection: Connection
    sender: Sender
    open_chunks: Callable[[Drain, TracedPages | None], _Chunks]
    used: float = 0.0
    chunks: _Chunks | None = None
    pages: TracedPages | None = None
    """Where spans are made."""

    def run(self, todo: Slice) -> SliceResult:
        if self.pages is None:
            return self._run(todo)
        try:
            return self._run(todo)
        finally:
            self.pages.forget()

    def _run(self, todo: Slice) -> SliceResult:
        if todo.chunk is None:
            return self.drain.run(todo)
        if self.chunks is None:
            self.chunks = self.open_chunks(self.drain, self.pages)
        return self.chunks.drain.run(todo, todo.chunk)

    def close(self) -> None:
        if self.chunks is not None:
            self.chunks.close()
        self.drain.source.close()
        self.connection.close()
        self.sender.close()


class OffsetsBeside:
    """Offsets over the source's connection, and over a second one while the source reads ahead. Most slices read one page and so need only one
    session at the server. Called by the thread that also asks the source for pages.
    """

    def __init__(self, beside: TakenOffsets, own: TakenOffsets, busy: Callable[[], bool]) -> None:
        self._beside, self._own, self._busy = beside, own, busy

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        return self._free.load(table, epoch, source)

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        self._free.commit(table, epoch, seen=seen, position=position)

    @property
    def _free(self) -> TakenOffsets:
        return self._own if self._busy() else self._beside


class Worker:
    """The benches of one process, as many as were recently needed at once. `stopping`: whether a stop was requested, as far as
    it can be seen on this machine. `outlet`: the ingest queue unless given.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        stopping: Callable[[], bool],
        *,
        outlet: Outlet | None = None,
        clock: SteadyClock = steady,
    ) -> None:
        self._settings = settings
        self._stopping = stopping
        self._clock = clock
        self._outlet = outlet or _QueueOutlet(settings)
        self._spans = None if outlet is not None else spans_of("dstream-ingester")
        self._reach = Reach(clock)
        self._idle: list[_Bench] = []
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="table")

    def run(self, bundle: Sequence[Slice], driver: Driver | None = None) -> list[SliceResult]:
        """Drain every slice. A failure is the result of its slice. `driver` gets each result but the last as soon as it is there."""
        begun = self._clock()  # before the driver is asked: its answer counts from then on
        if driver is None or not driver.elsewhere:
            results = self.run_all(bundle, begun, self._early(driver))
        elif (now := self._reach.begin(driver, bundle)) is None:
            return [untouched(todo) for todo in bundle]
        elif now is bundle and (waited := unix() - min(todo.sent_at for todo in bundle)) > BEGIN_SECONDS:
            results = [_unasked(todo, waited) for todo in bundle]
        else:
            with self._reach.listening(driver):
                results = self.run_all(now, begun, self._early(driver))
            if now is bundle:
                results = [unsettled(result) for result in results]
        return [*results[:-1], replace(results[-1], unreached=self._reach.news())]

    def _early(self, driver: Driver | None) -> Early | None:
        return None if driver is None else partial(self._reach.tell, driver)

    def run_all(self, bundle: Sequence[Slice], begun: SteadyTime, early: Early | None = None) -> list[SliceResult]:
        """Drain every slice. `begun`: since when their times count. `early` is called with each result but the last as soon as it is there."""
        if len(bundle) == 1:
            return [self._run(bundle[0], begun)]
        results: list[SliceResult] = []
        for ended in as_completed([self._threads.submit(self._run, todo, begun) for todo in bundle]):
            results.append(ended.result())
            if early is not None and len(results) < len(bundle):
                early(results[-1])
        return results

    def _run(self, todo: Slice, begun: SteadyTime) -> SliceResult:
        """`begun`: when the lease had `lease_seconds` left. A slice may have waited for a thread since then."""
        begun_at, waited = unix(), self._clock() - begun
        if waited > BEGIN_SECONDS:
            return untouched(todo)
        if todo.lease_seconds is not None:
            todo = replace(todo, lease_seconds=todo.lease_seconds - waited)
        result = self._drained(todo)
        return replace(result, clock=WorkerClock(socket.gethostname(), todo.sent_at, begun_at, unix()))

    def _drained(self, todo: Slice) -> SliceResult:
        try:
            bench = self._take()
        except Exception as error:
            return failed(todo, error)
        try:
            result = bench.run(todo)
        except Exception as error:  # unexpected: report its type, and close this thread's bench below
            result = failed(todo, error)
        if result.trouble is None:
            self._put_back(bench)
        else:
            bench.close()
        return result

    def _put_back(self, bench: _Bench) -> None:
        """The bench used last is taken first, so those that are not needed stay idle. Another thread closes them: no result waits for that."""
        now = bench.used = self._clock()
        with self._lock:
            self._idle.append(bench)
            old = [known for known in self._idle if now - known.used >= IDLE_SECONDS]
            self._idle = [known for known in self._idle if now - known.used < IDLE_SECONDS]
        if old:
            threading.Thread(target=_close, args=(old,), name="idle", daemon=True).start()

    def _take(self) -> _Bench:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        settings = self._settings
        connection = Connection(settings.db, proven=True)  # the driver has logged in before it sent a task
        sources = Connection(settings.db, proven=True)
        source = ReadAhead(
            sql_server_source(
                sources,
                transactions=settings.transactions,
                before_images=settings.before_images,
                decimals_as_numbers=settings.decimals_as_numbers,
                query_mode=settings.query_mode,
            )
        )
        beside = OffsetsBeside(SqlServerOffsets(sources), SqlServerOffsets(connection), source.busy)
        sender, encoder, offsets = self._outlet(beside)
        pages = None if self._spans is None else TracedPages(source, self._spans)
        if pages is not None and self._spans is not None:
            sender = traced_sender(sender, self._spans, settings.queue.name, pages)
        drain = Drain(
            source if pages is None else pages.source,
            offsets,
            sender,
            encoder,
            unix,
            stand_ins=settings.stand_ins,
            before_images=settings.before_images,
            transforms=settings.transforms,
            schemas=SqlServerSchemas(connection),
            stopping=self._stops,
        )
        return _Bench(drain, connection, sender, self._open_chunks, pages=pages)

    def _open_chunks(self, drain: Drain, pages: TracedPages | None) -> _Chunks:
        """Connections are opened when they are first used."""
        settings = self._settings
        rows, fence = Connection(settings.db, proven=True), Connection(settings.db, proven=True)
        reader = ChunkReader(SqlServerRows(rows, decimals_as_numbers=settings.decimals_as_numbers))
        if pages is not None:
            reader = TracedChunks(reader, pages).reader
        topics = SideTopics.of(settings.origin, settings.queue.name)
        return _Chunks(ChunkDrain(reader, SqlServerSnapshots(fence), drain, topics), fence)

    def _stops(self) -> bool:
        return self._reach.stopping or self._stopping()


def _unasked(todo: Slice, waited: float) -> SliceResult:
    """The result of a slice that waited too long to begin with the shape that it came with."""
    host, now = socket.gethostname(), unix()
    error = TransientError(
        f"reading {todo.table.key}: {host} got the slice {waited:.0f} s after the driver had sent it, by its own clock, and cannot ask the "
        "driver whether the table still has the same shape",
        hint=f"open the driver's port to the workers ({RESULTS_PORT} in spark.conf fixes it), and synchronise the machines' clocks",
    )
    return replace(failed(todo, error), clock=WorkerClock(host, todo.sent_at, now, now))


def _close(benches: Sequence[_Bench]) -> None:
    for bench in benches:
        bench.close()


_worker: Worker | None = None
_making = threading.Lock()
"""The process for the first slices runs several bundles at once."""


def run_bundle(
    settings: WorkerSettings | None, bundle: Sequence[Slice], stopping: Path, driver: Driver | None
) -> list[SliceResult]:
    """The task that Spark runs. `settings` (None: those in the environment) and `stopping` are the same for all tasks of an ingester."""
    global _worker
    with _making:
        if _worker is None:
            collect_seldom()
            tell_stacks_on_signal()
            found = settings or from_environment()
            for name, value in found.tracing:  # the SDK reads the process's own variables; those that are set here hold
                os.environ.setdefault(name, value)
            _worker = Worker(found, stopping.exists)
    return _worker.run(bundle, driver)


def first_task(settings: WorkerSettings | None) -> str | None:
    """What an executor needs for its tasks and does not have; None: nothing. Opens no connection."""
    found = settings or from_environment()
    try:
        if found.db.verified:
            authorities(found.db)
    except PermanentError as error:
        return f"on {socket.gethostname()}, where tasks run: {error}"
    return None
