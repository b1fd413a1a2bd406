"""Change Data Capture in one database: its LSN source, its capture instances, its log and its capture job.

Holds the state that the other modules work on; parses nothing and knows no procedure. The instances are replaced as a whole, and
only under the database's writer lock, so that no statement is logged by one list and committed by another.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from emulators.sqlserver.cdc import errors, jobs, metadata
from emulators.sqlserver.cdc.capture import CaptureJob
from emulators.sqlserver.cdc.cleanup import cleanup_by_retention
from emulators.sqlserver.cdc.cleanup_job import CleanupJob, until_two
from emulators.sqlserver.cdc.hold import NO_HOLD
from emulators.sqlserver.cdc.instance import CapturedColumn, CaptureInstance
from emulators.sqlserver.cdc.jobs import JobSettings
from emulators.sqlserver.cdc.log import TransactionLog
from emulators.sqlserver.cdc.lsn import LsnSource
from emulators.sqlserver.cdc.options import DEFAULTS, CdcOptions
from emulators.sqlserver.cdc.scan_sessions import ScanSessions
from emulators.sqlserver.cdc.scan_turn import JOB_SESSION, ScanTurn
from emulators.sqlserver.engine.extension import Database
from emulators.sqlserver.results import Cancel, SqlError, Value


class DatabaseCdc:
    """Made when Change Data Capture is enabled, or when a database that has it is opened again."""

    def __init__(
        self,
        database: Database,
        options: CdcOptions = DEFAULTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: seconds, monotone. Starts nothing: see `open`."""
        self.database = database
        self.lsns = LsnSource()
        self.log = TransactionLog(self)
        self.sessions = ScanSessions(database.now())
        self.turn = ScanTurn()
        self.hold = NO_HOLD
        self.options = options
        self._clock = clock
        self._instances: tuple[CaptureInstance, ...] = ()
        self._by_source: dict[int, tuple[CaptureInstance, ...]] = {}
        self._work = threading.Event()
        self._job: CaptureJob | None = None
        self._cleanup_job: CleanupJob | None = None
        self._job_lock = threading.Lock()
        self._closed = False

    def open(self) -> None:
        """Take up what the database holds, begin to observe it, and start its capture job if it has one."""
        with self.database.writer() as connection:
            self.lsns = LsnSource(metadata.last_lsn(self.database, connection))
            self._set(metadata.load_instances(self.database, connection))
            settings = jobs.load(connection)
        self.observe()
        self._start(settings)

    def observe(self) -> None:
        """Log what is committed from now on; in a database where capture has just been enabled there is nothing more to take up."""
        self.database.set_observer(self.log)
        self._work.set()

    def _start(self, settings: JobSettings | None) -> None:
        if jobs.has(settings, "capture"):
            self.start_job()
        if jobs.has(settings, "cleanup"):
            self._schedule_cleanup()

    def close(self) -> None:
        """Stop both jobs, for good; the log goes on."""
        with self._job_lock:
            self._closed = True
        self.stop_job()
        self._unschedule_cleanup()

    @property
    def instances(self) -> tuple[CaptureInstance, ...]:
        return self._instances

    def tracks(self, object_id: int) -> bool:
        return object_id in self._by_source

    def instances_of(self, object_id: int) -> tuple[CaptureInstance, ...]:
        return self._by_source.get(object_id, ())

    def instance(self, name: str) -> CaptureInstance | None:
        """Names compare by the database's collation."""
        fold = self.database.fold
        return next((i for i in self._instances if fold(i.name) == fold(name)), None)

    @contextmanager
    def changing_instances(self) -> Iterator[sqlite3.Connection]:
        """A write transaction after whose end the instances are those that its rows describe."""
        before: tuple[CaptureInstance, ...] | None = None
        try:
            with self.database.writer() as connection:
                before = self._instances
                yield connection
                self._set(metadata.load_instances(self.database, connection))
        except BaseException:
            if (
                before is not None
            ):  # else it was the wait for the lock that ended, and another may have set them meanwhile
                self._set(before)
            raise

    @contextmanager
    def keeping_instances(self, gives_way: Cancel | None = None) -> Iterator[sqlite3.Connection]:
        """A write transaction that leaves the instances alone, or takes back what `retype` did to them when it fails.

        `gives_way`: as for `Database.writer`.
        """
        before: tuple[CaptureInstance, ...] | None = None
        try:
            with self.database.writer(gives_way) as connection:
                before = self._instances
                yield connection
        except BaseException:
            if before is not None:
                self._set(before)
            raise

    def retype(
        self, connection: sqlite3.Connection, instance: CaptureInstance, columns: Sequence[CapturedColumn]
    ) -> None:
        """Give captured columns the types that `columns` say, in the change table and in what is known of the instance. Raises 22976."""
        for column in columns:
            change_table = metadata.table(self.database, instance.change_table)
            try:
                self.database.alter_system_table(connection, change_table, column.name, column.captured_type)
            except SqlError as wrong:
                name = change_table.name
                raise errors.change_table_not_altered(column.name, name, name.removesuffix("_CT")) from wrong
            metadata.set_column_type(self.database, connection, instance, column)
        self._set(metadata.load_instances(self.database, connection))

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

    # -- capture on demand, for tests

    def hold_back(self, *, seconds: float = 0.0, transactions: int = 0) -> None:
        """From the next scan on leave commits younger than `seconds`, and the newest `transactions`, in the log; zeros: none."""
        self.hold = replace(self.hold, seconds=seconds, transactions=transactions)
        self.work_waits()

    def fail_scans(self, message: str | None = None) -> None:
        """Let every scan end with error 22859, seen in sys.dm_cdc_errors, and move nothing. `message`: another text."""
        self.hold = replace(self.hold, error=errors.scan_failed(message))

    def let_scans_pass(self) -> None:
        self.hold = replace(self.hold, error=None)
        self.work_waits()

    # -- jobs

    def stored_jobs(self) -> JobSettings | None:
        """The settings of the jobs; None before the first table was enabled."""
        return jobs.load(self.database.reader())

    def job_settings(self, job_type: str = "capture") -> JobSettings:
        """Raises 22997 when there is no such job: no table has been enabled yet, or it was dropped."""
        settings = self.stored_jobs()
        if settings is None or not jobs.has(settings, job_type):
            raise errors.no_job(job_type)
        return settings

    def ensure_jobs(self, connection: sqlite3.Connection) -> bool:
        """Make the jobs with the first enabled table; whether they are new."""
        if jobs.load(connection) is not None:
            return False
        jobs.save(connection, jobs.new_settings(self.options.capture_interval))
        return True

    def start_new_jobs(self) -> None:
        """Start the jobs that came with the first enabled table."""
        self._start(self.stored_jobs())

    def add_job(self, job_type: str, arguments: Mapping[str, Value]) -> None:
        """sys.sp_cdc_add_job; raises 14261 for a job that is there. A capture job is not started, a cleanup job scheduled."""
        with self.database.writer() as connection:
            settings = jobs.load(connection)
            if jobs.has(settings, job_type):
                raise errors.job_exists(f"cdc.{self.database.name}_{job_type}")
            jobs.save(connection, jobs.added(settings, job_type, arguments, self.options.capture_interval))
        if job_type == "cleanup":
            self._schedule_cleanup()

    def drop_job(self, job_type: str) -> None:
        """sys.sp_cdc_drop_job: the job is stopped first. Raises 22997."""
        settings = self.job_settings(job_type)
        if job_type == "capture":
            self.stop_job()
        else:
            self._unschedule_cleanup()
        with self.database.writer() as connection:
            jobs.save(connection, jobs.without(settings, job_type))

    def cleanup_now(self) -> None:
        """What the cleanup job does. Raises 22997."""
        settings = self.job_settings("cleanup")
        cleanup_by_retention(self, settings.retention, settings.threshold)

    def _schedule_cleanup(self) -> None:
        with self._job_lock:
            if self._cleanup_job is None and not self._closed:
                self._cleanup_job = CleanupJob(self.database.name, self.cleanup_now, self._cleanup_pause)
                self._cleanup_job.start()

    def _cleanup_pause(self) -> float:
        interval = self.options.cleanup_interval
        return until_two(self.database.now()) if interval is None else interval

    def _unschedule_cleanup(self) -> None:
        with self._job_lock:
            job, self._cleanup_job = self._cleanup_job, None
        if job is not None:
            job.stop()

    @contextmanager
    def scanning(self, session_id: int) -> Iterator[None]:
        """A scan by a session. Raises 22903 while another session scans, or while the job runs and keeps the log."""
        if self.options.job_keeps_log and self.job_running:
            raise errors.log_is_being_read(JOB_SESSION)
        with self.turn.of_session(session_id):
            yield

    @property
    def job_running(self) -> bool:
        return self._job is not None and self._job.running

    def start_job(self) -> bool:
        """Start the capture job with the settings stored now; False when it is running already."""
        settings = self.job_settings()
        with self._job_lock:
            if self.job_running or self._closed:
                return False
            self._work.set()
            self._job = CaptureJob(self, settings, self.options.idle_interval, self._clock)
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
