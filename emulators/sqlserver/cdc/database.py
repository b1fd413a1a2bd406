"""Change Data Capture in one database: what it knows of it (capture_state.py), its log, and its capture and cleanup jobs.

Starts and stops the jobs; parses nothing and knows no procedure.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from emulators.sqlserver.cdc import errors, jobs, log_store
from emulators.sqlserver.cdc.capture.capture import CaptureJob
from emulators.sqlserver.cdc.capture.capture_state import CaptureState
from emulators.sqlserver.cdc.capture.cleanup import cleanup_by_retention
from emulators.sqlserver.cdc.capture.cleanup_job import CleanupJob, until_two
from emulators.sqlserver.cdc.capture.log import TransactionLog
from emulators.sqlserver.cdc.capture.scan_turn import JOB_SESSION
from emulators.sqlserver.cdc.jobs import JobSettings
from emulators.sqlserver.cdc.options import DEFAULTS, CdcOptions
from emulators.sqlserver.engine.extension import Database, LogState
from emulators.sqlserver.results import Value


class DatabaseCdc(CaptureState):
    """Made when Change Data Capture is enabled, or when a database that has it is opened again."""

    def __init__(
        self,
        database: Database,
        options: CdcOptions = DEFAULTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: seconds, monotone. Starts nothing: see `open`."""
        super().__init__(database, options)
        self.log = TransactionLog(self)
        self._clock = clock
        self._job: CaptureJob | None = None
        self._cleanup_job: CleanupJob | None = None
        self._job_lock = threading.Lock()
        self._closed = False

    def open(self) -> None:
        """Take up what the database holds, begin to observe it, and start its capture job if it has one."""
        with self.database.writer() as connection:
            self.take_up(connection)
            settings = jobs.load(connection)
        self.observe()
        self._start(settings)

    def observe(self) -> None:
        """Log what is committed from now on; in a database where capture has just been enabled there is nothing more to take up."""
        self.database.set_observer(self.log)
        self.work_waits()

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

    def log_state(self) -> LogState:
        """It begins with the oldest transaction that waits for capture, else at its end: what was captured is cut off."""
        first = log_store.first_lsn(self.database.reader())
        end = self.lsns.end  # asked last: a transaction that has committed before lies below
        return LogState(first or end, end, first is not None)

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

    def _cleanup(self) -> None:
        if self.database.for_jobs:
            self.cleanup_now()

    def _schedule_cleanup(self) -> None:
        with self._job_lock:
            if self._cleanup_job is None and not self._closed:
                self._cleanup_job = CleanupJob(self.database.name, self._cleanup, self._cleanup_pause)
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
        """A scan by a session. Raises 22903 while another session scans or keeps the log, or while the job runs and keeps it."""
        if self.options.job_keeps_log and self.job_running:
            raise errors.log_is_being_read(JOB_SESSION)
        with self.turn.of_session(session_id, keep=self.options.session_keeps_log):
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
            self.work_waits()
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
