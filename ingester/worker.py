"""What a Python worker keeps between tasks, and how it drains a bundle: the worker's half of wiring.

A connection and a sender cost up to half a second to open, so they live as long as the worker. Spark closes workers after 60 s
of quiet; the next task opens them again.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from common.bus import Sender
from common.buses import bus_of
from common.clock import SteadyClock, steady, unix
from common.errors import PermanentError
from common.names import TableName
from common.observability.stacks import tell_stacks_on_signal
from ingester.offsets import TakenOffsets
from ingester.position import Position
from ingester.slices import Slice, SliceResult, WorkerClock, failed
from ingester.spark.early_results import Driver, Reach
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.login.trust import authorities
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.source import SqlServerSource
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.pack import PackingSender
from ingester.task.read_ahead import ReadAhead
from ingester.worker_settings import WorkerSettings, from_environment

THREADS = 8
"""Tables of a bundle whose waiting overlaps in one task: cheaper than as many worker processes."""
IDLE_SECONDS = 60.0
"""After so long without use a bench is closed: a connection costs the server something, and opening one again half a second."""


@dataclass(slots=True)
class _Bench:
    """One thread's tools: nothing in it may be used by two at once. `connection`: beside the source's own, opened when that is busy."""

    drain: Drain
    connection: Connection
    sender: Sender
    used: float = 0.0

    def close(self) -> None:
        self.drain.source.close()
        self.connection.close()
        self.sender.close()


class OffsetsBeside:
    """Offsets over the source's connection while nothing is read ahead over it, and over one of their own otherwise: most slices read one page,
    and need one session at the server. Called by the one thread that also asks the source for pages."""

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
    """The benches of one process; as many as were lately needed at once. `stopping`: a file that is there once a stop was asked for."""

    def __init__(self, settings: WorkerSettings, stopping: Path, *, clock: SteadyClock = steady) -> None:
        self._settings = settings
        self._stopping = stopping
        self._clock = clock
        # One for all benches, so that an identity is asked for a token once; the driver has signed in before any task was sent.
        self._bus = bus_of(settings.queue, proven=True)
        self._reach = Reach(clock)
        self._idle: list[_Bench] = []
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="table")

    def run(self, bundle: Sequence[Slice], driver: Driver | None = None) -> list[SliceResult]:
        """Drain every slice; what goes wrong with one is its result. `driver` is told of those that end before the last."""
        if len(bundle) == 1:
            return [self._run(bundle[0])]
        results: list[SliceResult] = []
        for ended in as_completed([self._threads.submit(self._run, todo) for todo in bundle]):
            results.append(ended.result())
            if driver is not None and len(results) < len(bundle):
                self._reach.tell(driver, results[-1])
        return [*results[:-1], replace(results[-1], unreached=self._reach.news())]

    def _run(self, todo: Slice) -> SliceResult:
        begun_at = unix()
        result = self._drained(todo)
        return replace(result, clock=WorkerClock(socket.gethostname(), todo.sent_at, begun_at, unix()))

    def _drained(self, todo: Slice) -> SliceResult:
        try:
            bench = self._take()
        except Exception as error:
            return failed(todo, error)
        try:
            result = bench.drain.run(todo)
        except (
            Exception
        ) as error:  # a defect of ours or of a driver: said with its type, and the tools are not trusted again
            result = failed(todo, error)
        if result.trouble is None:
            self._put_back(bench)
        else:
            bench.close()
        return result

    def _put_back(self, bench: _Bench) -> None:
        """The last used is used first, so what is not needed grows old, and is closed by another thread: a result does not wait for it."""
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
        connection = Connection(settings.db, proven=True)  # the driver has logged in before any task was sent
        sources = Connection(settings.db, proven=True)
        sender: Sender = self._bus.sender(settings.queue.name)
        source = ReadAhead(
            SqlServerSource(
                sources,
                before_images=settings.before_images,
                decimals_as_numbers=settings.decimals_as_numbers,
                query_mode=settings.query_mode,
            )
        )
        queue = settings.queue
        if queue.most_packed > 1:
            sender = PackingSender(sender, queue.most_packed)
        encoder = Encoder(settings.origin, queue.name, queue.ordering, queue.key_buckets)
        drain = Drain(
            source,
            OffsetsBeside(SqlServerOffsets(sources), SqlServerOffsets(connection), source.busy),
            sender,
            encoder,
            unix,
            stand_ins=settings.stand_ins,
            transforms=settings.transforms,
            stopping=self._stopping.exists,
        )
        return _Bench(drain, connection, sender)


def _close(benches: Sequence[_Bench]) -> None:
    for bench in benches:
        bench.close()


_worker: Worker | None = None


def run_bundle(
    settings: WorkerSettings | None, bundle: Sequence[Slice], stopping: Path, driver: Driver | None
) -> list[SliceResult]:
    """The task that Spark runs: `settings` and `stopping` are the same for all tasks of an ingester. None: they are in the environment."""
    global _worker
    if _worker is None:
        tell_stacks_on_signal()
        _worker = Worker(settings or from_environment(), stopping)
    return _worker.run(bundle, driver)


def first_task(settings: WorkerSettings | None) -> str | None:
    """What an executor lacks for its tasks, None if nothing. Connects to nothing."""
    found = settings or from_environment()
    try:
        if found.db.verified:
            authorities(found.db)
    except PermanentError as error:
        return f"on {socket.gethostname()}, where tasks run: {error}"
    return None
