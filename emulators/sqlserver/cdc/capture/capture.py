"""The capture job: moves whole committed transactions from the log to the change tables, one SQLite transaction a scan.

Source: https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server ("opens and commits its
own transaction on each scan cycle"). A scan that finds something waits for a user's open write transaction, which on the real server
it would not: the database below has one writer. It never reads the log twice, and never takes half a transaction.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from emulators.sqlserver.cdc import errors, log_store, metadata
from emulators.sqlserver.cdc.capture.capture_state import CaptureState
from emulators.sqlserver.cdc.instance import change_row
from emulators.sqlserver.cdc.jobs import JobSettings
from emulators.sqlserver.cdc.log_store import LoggedTransaction
from emulators.sqlserver.cdc.lsn import ZERO
from emulators.sqlserver.engine.extension import Row
from emulators.sqlserver.results import Cancel, Cancelled, SqlError

_LOG = logging.getLogger(__name__)

IDLE_TRAN_ID = b"\0"
"""`tran_id` of an entry of cdc.lsn_time_mapping that stands for no transaction (Debezium filters it)."""


def scan_once(
    cdc: CaptureState, maxtrans: int, stopped: Cancel = lambda: False, gives_way: Cancel | None = None
) -> int:
    """Move up to `maxtrans` transactions, one log scan session; returns how many. Raises the error of a failing capture.

    `stopped` is asked once the writer lock is held, `gives_way` while it is waited for. Raises Cancelled.
    """
    sessions = cdc.sessions
    session = sessions.begin(cdc.database.now())
    try:
        with cdc.keeping_instances(gives_way) as connection:
            if stopped():
                sessions.abandon(session)
                return 0
            if not metadata.exist(cdc.database):  # switched off while this waited
                raise errors.not_enabled(cdc.database.name)
            moved = _move(cdc, connection, maxtrans)
    except Cancelled:
        sessions.abandon(session)
        raise
    except BaseException as error:
        shown = error if isinstance(error, SqlError) else errors.scan_failed(f"Log Scan process failed: {error}")
        sessions.fail(session, shown, cdc.database.now())
        raise
    sessions.end(session, moved, cdc.database.now())
    return len(moved)


def scan_by_hand(cdc: CaptureState, maxtrans: int) -> int:
    """`scan_once` that waits for no writer while the log is empty."""
    if cdc.hold.error is None and _is_empty(cdc):
        now = cdc.database.now()
        cdc.sessions.end(cdc.sessions.begin(now), (), now)
        return 0
    return scan_once(cdc, maxtrans)


def _is_empty(cdc: CaptureState) -> bool:
    """Whether the log holds nothing. Without a log capture is being switched off: who has the writer lock will see."""
    try:
        return log_store.count(cdc.database.reader()) == 0
    except sqlite3.OperationalError:
        return False


def _move(cdc: CaptureState, connection: sqlite3.Connection, maxtrans: int) -> Sequence[LoggedTransaction]:
    hold = cdc.hold
    if hold.error is not None:
        raise hold.error
    oldest = log_store.first(connection, maxtrans)
    transactions = hold.released(oldest, log_store.count(connection), cdc.database.now())
    if transactions:
        _write(cdc, connection, transactions)
        log_store.forget(connection, transactions[-1].start_lsn)
    if len(transactions) < len(oldest):
        cdc.work_waits()
    return transactions


def scan(scan_once: Callable[[], int], maxtrans: int, maxscans: int) -> int:
    """Up to `maxscans` scan cycles of up to `maxtrans` transactions each; returns how many transactions were moved."""
    total = 0
    for _ in range(maxscans):
        moved = scan_once()
        total += moved
        if moved < maxtrans:
            break
    return total


def mark_idle(cdc: CaptureState, stopped: Cancel = lambda: False, gives_way: Cancel | None = None) -> None:
    """Enter a moment without transactions in cdc.lsn_time_mapping, unless one has come in the meantime. Raises Cancelled."""
    with cdc.database.writer(gives_way) as connection:
        if stopped() or log_store.first(connection, 1):
            return
        entry = (cdc.lsns.commit(), None, cdc.database.now(), IDLE_TRAN_ID, ZERO)
        metadata.insert(cdc.database, connection, "lsn_time_mapping", [entry])


def _write(cdc: CaptureState, connection: sqlite3.Connection, transactions: Sequence[LoggedTransaction]) -> None:
    rows: dict[str, list[Row]] = defaultdict(list)
    ddl: list[Row] = []
    for transaction in transactions:
        lsn = transaction.start_lsn
        for record in transaction.records:
            for instance in cdc.instances_of(record.object_id):
                row = change_row(instance, record, lsn) if instance.start_lsn < lsn else None
                if row is not None:
                    rows[instance.change_table].append(row)
        for change in transaction.ddl:
            for instance in cdc.instances_of(change.object_id):
                if instance.start_lsn >= lsn:
                    continue
                altered = [c for c in instance.columns if c.column_id in change.retyped]
                if altered:
                    _flush(cdc, connection, rows)
                    cdc.retype(connection, instance, [replace(c, type=change.retyped[c.column_id]) for c in altered])
                entry = (change.object_id, instance.object_id, int(bool(altered)), change.command, lsn, change.time)
                ddl.append(entry)
    _flush(cdc, connection, rows)
    metadata.insert(cdc.database, connection, "ddl_history", ddl)
    entries = [(t.start_lsn, t.begin_time, t.end_time, t.tran_id, t.begin_lsn) for t in transactions]
    metadata.insert(cdc.database, connection, "lsn_time_mapping", entries)


def _flush(cdc: CaptureState, connection: sqlite3.Connection, rows: dict[str, list[Row]]) -> None:
    """What is collected goes to the change tables, before one of them changes its shape."""
    for change_table, its_rows in rows.items():
        metadata.insert(cdc.database, connection, change_table, its_rows)
    rows.clear()


class CaptureJob:
    """The thread that scans one database every polling interval, until stopped or, when not continuous, once."""

    def __init__(
        self, cdc: CaptureState, settings: JobSettings, idle_interval: float, clock: Callable[[], float]
    ) -> None:
        """`clock`: seconds, monotone; it decides when the log counts as idle."""
        self._cdc = cdc
        self._settings = settings
        self._idle_interval = idle_interval
        self._clock = clock
        self._busy_at = clock()
        self._stop = threading.Event()
        self._gate = threading.Lock()
        self._writing = False
        self._marked = False
        self._thread = threading.Thread(target=self._run, name=f"cdc.{cdc.database.name}_capture", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive() and not self._stop.is_set()

    def stop(self) -> None:
        """No scan commits once this returns. May be called by a thread that holds the writer lock.

        A scan that is writing is waited for, and its thread's end; one that waits for the writer lock gives that up.
        """
        with self._gate:
            self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _gives_way(self) -> bool:
        """Asked while a cycle waits for the writer lock."""
        return self._stop.is_set() or self._cdc.turn.wanted

    def _must_not_write(self) -> bool:
        """Asked with the writer lock held."""
        with self._gate:
            self._writing = not self._stop.is_set()
            return not self._writing

    def _run(self) -> None:
        while not self._stop.is_set():
            done = True
            try:
                done = self.cycle()
            except Exception as error:
                if is_closed(error):
                    _LOG.info("capture job ends: database %s is closed", self._cdc.database.name)
                    return
                if not self._cdc.database.for_jobs:
                    _LOG.info("capture job of database %s waits: no job works there now", self._cdc.database.name)
                elif isinstance(error, SqlError) and error is self._cdc.hold.error:
                    _LOG.info("capture job of database %s: scan failed as told", self._cdc.database.name)
                else:
                    _LOG.exception("capture job of database %s: scan failed, trying again", self._cdc.database.name)
            if not done:
                continue
            if not self._settings.continuous:
                return
            self._stop.wait(self._settings.polling_interval)

    def cycle(self) -> bool:
        """One scan cycle of the job: move what waits, or mark the log idle when nothing has come for long.

        False: it gave way to a session, or was stopped. Nothing is done in a database that is offline or has a single user.
        """
        if not self._cdc.database.for_jobs:
            return True
        with self._cdc.turn.of_job(self._stop.is_set) as mine:
            if mine:
                with suppress(Cancelled):
                    self._cycle()
                    return True
            return False

    def _cycle(self) -> None:
        if self._cdc.take_waiting_work() or self._cdc.hold.error is not None:
            moved = self._scan()
        else:
            moved = 0
            now = self._cdc.database.now()
            self._cdc.sessions.end(self._cdc.sessions.begin(now), (), now)
        if moved:
            self._busy_at = self._clock()
        elif self._clock() - self._busy_at >= self._idle_interval or self._first_scan_is_empty():
            with self._one_write():
                mark_idle(self._cdc, self._must_not_write, self._gives_way)
            self._busy_at = self._clock()

    def _first_scan_is_empty(self) -> bool:
        """Tables are captured, and no scan has said yet how far it has come."""
        if self._marked or not (self._cdc.options.first_entry and self._cdc.instances):
            return False
        self._marked = metadata.max_lsn(self._cdc.database, self._cdc.database.reader()) is not None
        return not self._marked

    def _scan(self) -> int:
        maxtrans, maxscans = self._settings.maxtrans, self._settings.maxscans
        moved = maxtrans * maxscans
        try:
            moved = scan(self._scan_once, maxtrans, maxscans)
        finally:
            if moved >= maxtrans * maxscans:
                self._cdc.work_waits()
        return moved

    def _scan_once(self) -> int:
        with self._one_write():
            return scan_once(self._cdc, self._settings.maxtrans, self._must_not_write, self._gives_way)

    @contextmanager
    def _one_write(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._gate:
                self._writing = False


def is_closed(error: Exception) -> bool:
    """Whether the database was closed or dropped; the engine may have put an error of its own before SQLite's."""
    return isinstance(error, sqlite3.ProgrammingError) or isinstance(error.__cause__, sqlite3.ProgrammingError)
