"""`dstream check` of stage 1: the machine, the source database, the locks and the queue, with the ingester's own
questions. Starts no Spark."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing

from common.buses import bus_of
from common.check import Finding, by_hand, failed, guarded, ok, remarked, warn
from common.errors import DStreamError, PermanentError
from common.observability.check_port import port_findings
from ingester.blocks.locks import AzureBlobLockSettings
from ingester.destination import destination_of
from ingester.finding.judge import judge
from ingester.finding.matches import matches
from ingester.lock_backends import lock_keys, locks_of
from ingester.locks import Locks
from ingester.settings import IngesterSettings
from ingester.spark.check import NOWHERE, written
from ingester.spark.check import findings as spark_findings
from ingester.spark.conf import is_local, spark_settings
from ingester.spark.java import JAVA_HOME_HINT, java_home, overruled
from ingester.spark.jvm import kind_of
from ingester.spark.kept.check import findings as archive_findings
from ingester.spark.launch import plain
from ingester.spark.launched import conf_files
from ingester.sqlserver.catalog.under_cdc import tables_under_cdc
from ingester.sqlserver.check import findings as database_findings
from ingester.sqlserver.connection import Connection


def findings(settings: IngesterSettings) -> Iterator[Finding]:
    """One by one. Raises ConfigurationError."""
    yield from remarked(settings.remarks)
    yield from guarded("Java", _java)
    spark = settings.spark
    yield from guarded("Spark", lambda: spark_findings(spark.master, spark.conf, os.environ))
    yield from guarded("Spark's folders", lambda: written(spark.conf, os.environ))
    if is_local(spark.master):
        yield from guarded("Spark's archive", lambda: _archive(settings))
    yield from guarded("health", lambda: port_findings(settings.health))
    settings = yield from _matched(settings)
    may_have_sent = yield from database_findings(settings, destination_of(settings))
    yield from guarded("locks", lambda: _locks(settings))
    yield from guarded(f"queue {settings.queue.name}", lambda: _queue(settings, used=may_have_sent))


def _matched(settings: IngesterSettings) -> Generator[Finding, None, IngesterSettings]:
    """Returns the settings with the tables that patterns match now; without them where the database cannot be asked."""
    if not settings.selection.patterns:
        return settings
    try:
        with closing(Connection(settings.db)) as connection:
            there = tables_under_cdc(connection)
    except DStreamError as error:
        yield failed("patterns", error)
        return settings
    found = matches(settings, there)
    yield from judge(settings, there, found)
    return found.settings


def _java() -> Iterator[Finding]:
    home = java_home()
    if (why := overruled(home)) is not None:
        yield warn("Java", why, JAVA_HOME_HINT, fix=by_hand("the variable is set where the ingester is started"))
        return
    yield ok("Java", f"found at {home}" if home is not None else "the machine's own")


def _archive(settings: IngesterSettings) -> Iterator[Finding]:
    master, conf = settings.spark.master, settings.spark.conf
    direct = plain(master, conf, os.environ, conf_files())
    try:
        home = java_home()
    except PermanentError:  # which has a line of its own
        return
    kind = kind_of(spark_settings(master, conf, local_dir=NOWHERE, log4j=NOWHERE), home) if direct else None
    yield from archive_findings(os.environ, direct=direct, kind=kind)


def _locks(settings: IngesterSettings) -> Iterator[Finding]:
    keys = lock_keys(settings, settings.streams)
    with closing(locks_of(settings, keys)) as locks:
        if isinstance(settings.locks, AzureBlobLockSettings) and _container_missing(locks):
            text = f"the container {settings.locks.container_name} does not exist yet and is created at the first start"
            yield ok("locks", text)
            return
        yield _judge_locks(settings.locks.type, held=len(locks.held(list(keys))), tables=len(keys))


def _judge_locks(kind: str, *, held: int, tables: int) -> Finding:
    if kind == "local":
        return ok("locks", "within one process: run one ingester")
    return ok("locks", f"{kind}, reachable; {held} of {tables} tables are locked by running ingesters")


def _container_missing(locks: Locks) -> bool:
    from ingester.azure_blob.locks import AzureBlobLocks  # the SDK is slow to import, and needed here alone

    return isinstance(locks, AzureBlobLocks) and locks.missing()


def _queue(settings: IngesterSettings, *, used: bool) -> Iterator[Finding]:
    queue = settings.queue
    with closing(bus_of(queue)) as bus:
        yield from bus.entities.queue_findings(
            queue.name, sessions=queue.ordering != "none", provision=queue.provision, sends=True, used=used
        )
