"""Settings -> running ingester. With its half in the workers (worker.py) the only module that names adapters.

What can be known to be wrong before Spark starts is found before Spark starts: it takes seconds, and a wrong password none.
"""

from __future__ import annotations

import random
import threading
import time
from functools import partial

import structlog

from common.errors import ConfigurationError
from common.provision import QueueNeed, provision
from common.servicebus import ServiceBus
from ingester.job import Job, JobSettings
from ingester.local_locks import LocalLocks
from ingester.locks import Locks
from ingester.schedule import Rhythm
from ingester.settings import IngesterSettings
from ingester.spark import SparkExecutor
from ingester.sqlserver_connection import Connection
from ingester.sqlserver_offsets import SqlServerOffsets
from ingester.sqlserver_source import SqlServerSource
from ingester.worker import run_bucket

log = structlog.get_logger("ingester")


def run(settings: IngesterSettings, stop: threading.Event) -> int:
    """Run stage 1 until `stop`; the exit status.

    Raises ConfigurationError, and PermanentError or TransientError when it could not start.
    """
    locks = _locks(settings)
    connection = Connection(settings.db)
    try:
        source, offsets = SqlServerSource(connection), SqlServerOffsets(connection)
        offsets.ensure()
        _open_queue(settings)
        executor = SparkExecutor(partial(run_bucket, settings), master=settings.spark.master, conf=settings.spark.conf)
        try:
            job = Job(
                _job_settings(settings),
                source=source,
                offsets=offsets,
                locks=locks,
                executor=executor,
                stop=stop,
                now=time.time,
                chance=random.random,
            )
            log.info("ingester started", tables=len(settings.tables), slots=executor.slots)
            status = job.run()
        finally:
            executor.close()
        log.info("ingester stopped", changes=job.changes)
        return status
    finally:
        connection.close()


def _locks(settings: IngesterSettings) -> Locks:
    """Refuses what this version cannot do, so that nobody relies on it."""
    problems = []
    if settings.locks.type != "local":
        problems.append(
            f'ingester.locks.type = "{settings.locks.type}" is not available in this version; use "local" and run one ingester'
        )
    if settings.on_oversize != "fail":
        problems.append('ingester.on_oversize = "dead_letter" is not available in this version; use "fail"')
    if problems:
        raise ConfigurationError(problems)
    return LocalLocks(time.time)


def _open_queue(settings: IngesterSettings) -> None:
    """The queue is there before anything is read; the router does the same, whoever comes first."""
    queue = settings.queue
    bus = ServiceBus.from_connection_string(queue.connection_string.get_secret_value())
    need = QueueNeed(queue.name, sessions=queue.ordering != "none")
    provision(bus.address, [need], how=queue.provision, management_endpoint=queue.management_endpoint)
    sender = bus.sender(queue.name)
    try:
        sender.open()
    finally:
        sender.close()


def _job_settings(settings: IngesterSettings) -> JobSettings:
    return JobSettings(
        tables={
            table.name: Rhythm(table.poll_interval.total_seconds(), table.max_poll_interval.total_seconds())
            for table in settings.schedule
        },
        lock_names={table: settings.origin.lock_path(table) for table in settings.tables},
        page_rows=settings.page_rows,
        slice_seconds=settings.slice.total_seconds(),
        coalesce_seconds=settings.coalesce.total_seconds(),
        skip_gaps=settings.on_gap == "skip",
    )
