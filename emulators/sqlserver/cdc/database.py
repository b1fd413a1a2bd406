"""Change Data Capture in one database: its LSN source, its capture instances, its log and its capture job.

Holds the state that the other modules work on; parses nothing and knows no procedure. The instances are replaced as a whole, and
only under the database's writer lock, so that no statement is logged by one list and committed by another.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from emulators.sqlserver.cdc import errors, jobs, metadata
from emulators.sqlserver.cdc.capture import DEFAULT_IDLE_INTERVAL, CaptureJob
from emulators.sqlserver.cdc.instance import CaptureInstance
from emulators.sqlserver.cdc.jobs import JobSettings
from emulators.sqlserver.cdc.log import TransactionLog
from emulators.sqlserver.cdc.lsn import LsnSource
from emulators.sqlserver.engine.extension import Database


class DatabaseCdc:
    """Made when Change Data Capture is enabled, or when a database that has it is opened again."""

    def __init__(
        self,
        database: Database,
        *,
        capture_interval: float | None = None,
        idle_interval: float = DEFAULT_IDLE_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`capture_interval`: seconds, replaces the polling interval of new capture jobs. Starts nothing: see `open`."""
        self.database = database
        self.lsns = LsnSource()
        self.log = TransactionLog(self)
        self._capture_interval = capture_interval
        self._idle_interval = idle_interval
        self._clock = clock
        self._instances: tuple[CaptureInstance, ...] = ()
        self._by_source: dict[int, tuple[CaptureInstance, ...]] = {}
        self._work = threading.Event()
        self._job: CaptureJob | None = None
        self._job_lock = threading.Lock()

    def open(self) -> None:
        """Take up what the database holds, begin to observe it, and start its capture job if it has one."""
        with self.database.writer() as connection:
            self.lsns = LsnSource(metadata.last_lsn(self.database, connection))
            self._set(metadata.load_instances(self.database, connection))
            settings = jobs.load(connection)
        self.database.set_observer(self.log)
        self._work.set()
        if settings is not None:
            self.start_job()

    def close(self) -> None:
        """Stop the capture job; the log goes on."""
        self.stop_job()

    @property
    def instances(self) -> tuple[CaptureInstance, ...]:
        return self._instances

    def tracks(self, object_id: int) -> bool:
        return object_id in self._by_source

    def instances_of(self, object_id: int) -> tuple[CaptureInstance, ...]:
        return self._by_source.get(object_id, ())

    def instance(self, name: str) -> CaptureInstance | None:
        """Names compare without case."""
        return next((i for i in self._instances if i.name.casefold() == name.casefold()), None)

    @contextmanager
    def changing_instances(self) -> Iterator[sqlite3.Connection]:
        """A write transaction after whose end the instances are those that its rows describe."""
        before = self._instances
        try:
            with self.database.writer() as connection:
                yield connection
                self._set(metadata.load_instances(self.database, connection))
        except BaseException:
            self._set(before)
            raise

    def remove_instances_of(
        self, connection: sqlite3.Connection, object_ids: Sequence[int]
    ) -> tuple[CaptureInstance, ...]:
        """Drop the capture instances of dropped tables, inside the transaction that drops them; returns them."""
        removed = tuple(i for object_id in object_ids for i in self.instances_of(object_id))
        for instance in removed:
            metadata.remove_instance(self.database, connection, instance)
        self._set(tuple(i for i in self._instances if i not in removed))
        return removed

    def restore_instances(self, removed: Sequence[CaptureInstance]) -> None:
        """The transaction that dropped them did not commit after all."""
        self._set((*self._instances, *removed))

    def _set(self, instances: tuple[CaptureInstance, ...]) -> None:
        by_source: dict[int, tuple[CaptureInstance, ...]] = {}
        for instance in instances:
            by_source[instance.source_object_id] = (*by_source.get(instance.source_object_id, ()), instance)
        self._instances, self._by_source = instances, by_source

    def work_waits(self) -> None:
        """A transaction is about to commit: the next scan, which has to wait for that commit, finds it."""
        self._work.set()

    def take_waiting_work(self) -> bool:
        """Whether a scan may find anything; asked before the scan, so that what comes during it is not missed."""
        waiting = self._work.is_set()
        self._work.clear()
        return waiting

    def job_settings(self) -> JobSettings:
        """Raises 22997 when no table has been enabled yet, and so no job exists."""
        settings = jobs.load(self.database.reader())
        if settings is None:
            raise errors.no_job("capture")
        return settings

    def ensure_jobs(self, connection: sqlite3.Connection) -> bool:
        """Make the jobs with the first enabled table; whether they are new."""
        if jobs.load(connection) is not None:
            return False
        jobs.create(connection, jobs.new_settings(self._capture_interval))
        return True

    @property
    def job_running(self) -> bool:
        return self._job is not None and self._job.running

    def start_job(self) -> bool:
        """Start the capture job with the settings stored now; False when it is running already."""
        settings = self.job_settings()
        with self._job_lock:
            if self.job_running:
                return False
            self._work.set()
            self._job = CaptureJob(self, settings, self._idle_interval, self._clock)
            self._job.start()
            return True

    def stop_job(self) -> bool:
        """Stop the capture job; False when it is not running."""
        with self._job_lock:
            job, self._job = self._job, None
        if job is None:
            return False
        running = job.running
        job.stop()
        return running
