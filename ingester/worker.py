"""What a Python worker keeps between tasks, and how it drains a bucket: the worker's half of wiring.

A connection and a sender cost up to half a second to open, so they live as long as the worker. Spark closes workers after 60 s
of quiet; the next task opens them again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from common.bus import Sender
from common.servicebus import ServiceBus
from common.stacks import tell_stacks_on_signal
from ingester.drain import Drain
from ingester.encode import Encoder
from ingester.packs import PackingSender
from ingester.read_ahead import ReadAhead
from ingester.settings import IngesterSettings
from ingester.slices import Slice, SliceResult, WorkerClock, failed
from ingester.sqlserver_connection import Connection
from ingester.sqlserver_offsets import SqlServerOffsets
from ingester.sqlserver_source import SqlServerSource

THREADS = 8
"""Tables of a bucket whose waiting overlaps in one task: cheaper than as many worker processes."""


@dataclass(slots=True)
class _Bench:
    """One thread's tools: nothing in it may be used by two at once. `connection`: the offsets'; the source has another."""

    drain: Drain
    connection: Connection
    sender: Sender

    def close(self) -> None:
        self.drain.source.close()
        self.connection.close()
        self.sender.close()


class Worker:
    """The benches of one process; as many as were ever needed at once. `stopping`: a file that is there once a stop was asked for."""

    def __init__(self, settings: IngesterSettings, stopping: Path) -> None:
        self._settings = settings
        self._stopping = stopping
        # One for all benches, so that an identity is asked for a token once; the driver has signed in before any task was sent.
        self._bus = ServiceBus.of(settings.queue, proven=True)
        self._idle: list[_Bench] = []
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="table")

    def run(self, bucket: Sequence[Slice]) -> list[SliceResult]:
        """Drain every slice; what goes wrong with one is its result."""
        if len(bucket) == 1:
            return [self._run(bucket[0])]
        return list(self._threads.map(self._run, bucket))

    def _run(self, todo: Slice) -> SliceResult:
        begun_at = time.time()
        result = self._drained(todo)
        return replace(result, clock=WorkerClock(socket.gethostname(), todo.sent_at, begun_at, time.time()))

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
            with self._lock:
                self._idle.append(bench)
        else:
            bench.close()
        return result

    def _take(self) -> _Bench:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        settings = self._settings
        connection = Connection(settings.db, proven=True)  # the driver has logged in before any task was sent
        sender: Sender = self._bus.sender(settings.queue.name)
        source = SqlServerSource(
            Connection(settings.db, proven=True),
            before_images=settings.before_images,
            decimals_as_numbers=settings.decimals == "number",
            query_mode=settings.query_mode,
        )
        queue = settings.queue
        if queue.most_packed > 1:
            sender = PackingSender(sender, queue.most_packed)
        encoder = Encoder(settings.origin, queue.name, queue.ordering, queue.key_buckets)
        drain = Drain(
            ReadAhead(source),
            SqlServerOffsets(connection),
            sender,
            encoder,
            time.time,
            stand_ins=settings.on_oversize == "dead_letter",
            stopping=self._stopping.exists,
        )
        return _Bench(drain, connection, sender)


_worker: Worker | None = None


def run_bucket(settings: IngesterSettings, bucket: Sequence[Slice], stopping: Path) -> list[SliceResult]:
    """The task that Spark runs: `settings` and `stopping` are the same for all tasks of an ingester."""
    global _worker
    if _worker is None:
        tell_stacks_on_signal()
        _worker = Worker(settings, stopping)
    return _worker.run(bucket)
