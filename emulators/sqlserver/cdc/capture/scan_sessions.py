"""What the log scan sessions of a database did and met: the contents of sys.dm_cdc_log_scan_sessions and sys.dm_cdc_errors.

Kept in memory, as on the real server, where a restart empties them. A run of sessions without transactions is one row here, its
empty_scan_count counting them. Decides nothing about scanning.
Sources: the pages of these names under https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from emulators.sqlserver.cdc.log_store import LoggedTransaction
from emulators.sqlserver.engine.extension import Row
from emulators.sqlserver.results import Column, SqlError, Value
from emulators.sqlserver.sqltypes import SqlType

_INT, _BIGINT, _DATETIME = SqlType("int"), SqlType("bigint"), SqlType("datetime")
_LSN_TEXT = SqlType("nvarchar", 23)
_NO_LSN = "00000000:00000000:0000\0"
_KEPT = 32
"""Sessions whose errors are kept (documented for sys.dm_cdc_errors)."""
_DONE, _SECOND_SCAN = 8, 3

SESSION_COLUMNS = (
    Column("session_id", _INT),
    Column("start_time", _DATETIME),
    Column("end_time", _DATETIME),
    Column("duration", _INT),
    Column("scan_phase", SqlType("nvarchar", 200)),
    Column("error_count", _INT),
    Column("start_lsn", _LSN_TEXT),
    Column("current_lsn", _LSN_TEXT),
    Column("end_lsn", _LSN_TEXT),
    Column("tran_count", _BIGINT),
    Column("last_commit_lsn", _LSN_TEXT),
    Column("last_commit_time", _DATETIME),
    Column("log_record_count", _BIGINT),
    Column("schema_change_count", _INT),
    Column("command_count", _BIGINT),
    Column("first_begin_cdc_lsn", _LSN_TEXT),
    Column("last_commit_cdc_lsn", _LSN_TEXT),
    Column("last_commit_cdc_time", _DATETIME),
    Column("latency", _INT),
    Column("empty_scan_count", _INT),
    Column("failed_sessions_count", _INT),
)

ERROR_COLUMNS = (
    Column("session_id", _INT),
    Column("phase_number", _INT),
    Column("entry_time", _DATETIME),
    Column("error_number", _INT),
    Column("error_severity", _INT),
    Column("error_state", _INT),
    Column("error_message", SqlType("nvarchar", 1024)),
    Column("start_lsn", _LSN_TEXT),
    Column("begin_lsn", _LSN_TEXT),
    Column("sequence_value", _LSN_TEXT),
)


@dataclass(slots=True)
class ScanSession:
    """One scan cycle over the log; times in datetime form, LSNs as they are."""

    session_id: int
    start_time: str
    end_time: str | None = None
    phase: int = 1
    transactions: int = 0
    records: int = 0
    commands: int = 0
    schema_changes: int = 0
    begin_lsn: bytes | None = None
    commit_lsn: bytes | None = None
    commit_time: str | None = None
    empty_scans: int = 0
    errors: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class _Totals:
    sessions: int = 0
    duration: int = 0
    errors: int = 0
    failed: int = 0
    transactions: int = 0
    records: int = 0
    commands: int = 0
    schema_changes: int = 0
    first_begin_lsn: bytes | None = None
    latency: int = 0


class ScanSessions:
    """The sessions of one database since it was opened. Sessions begin and end one after another; views are read at any time."""

    def __init__(self, opened: str) -> None:
        """`opened`: when the collection began (datetime form)."""
        self._opened = opened
        self._lock = threading.Lock()
        self._sessions: list[ScanSession] = []
        self._totals = _Totals()
        self._last_commit: tuple[bytes, str] | None = None

    def begin(self, now: str) -> ScanSession:
        with self._lock:
            self._totals.sessions += 1
            session = ScanSession(self._totals.sessions, now)
            self._sessions.append(session)
            del self._sessions[:-_KEPT]
            return session

    def abandon(self, session: ScanSession) -> None:
        """It was stopped before it read anything."""
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)

    def end(self, session: ScanSession, moved: Sequence[LoggedTransaction], now: str) -> None:
        """`moved`: the transactions whose rows are in the change tables now."""
        with self._lock:
            session.end_time, session.phase = now, _DONE
            if not moved:
                self._join_empty(session)
                return
            self._count(session, moved)
            totals = self._totals
            totals.transactions += session.transactions
            totals.records += session.records
            totals.commands += session.commands
            totals.schema_changes += session.schema_changes
            totals.duration += _seconds(session.start_time, now)
            totals.first_begin_lsn = totals.first_begin_lsn or session.begin_lsn
            totals.latency = _latency(session) or totals.latency
            self._last_commit = (moved[-1].start_lsn, moved[-1].end_time)

    def _count(self, session: ScanSession, moved: Sequence[LoggedTransaction]) -> None:
        session.transactions = len(moved)
        session.commands = sum(len(transaction.records) for transaction in moved)
        session.schema_changes = sum(len(transaction.ddl) for transaction in moved)
        session.records = session.commands + session.schema_changes + 2 * len(moved)  # each begins and commits
        session.begin_lsn, session.commit_lsn = moved[0].begin_lsn, moved[-1].start_lsn
        session.commit_time = moved[-1].end_time

    def _join_empty(self, session: ScanSession) -> None:
        session.empty_scans = 1
        former = self._sessions[-2] if len(self._sessions) > 1 and self._sessions[-1] is session else None
        if former is not None and former.empty_scans and not former.errors:
            former.empty_scans += 1
            former.end_time = session.end_time
            self._sessions.pop()

    def fail(self, session: ScanSession, error: SqlError, now: str) -> None:
        with self._lock:
            session.end_time, session.phase = now, _SECOND_SCAN
            session.errors.append(
                (
                    *(session.session_id, session.phase, now, error.number, error.severity, error.state),
                    *(error.message[:1024], _NO_LSN, _NO_LSN, _NO_LSN),
                )
            )
            self._totals.errors += 1
            self._totals.failed += 1

    def rows(self) -> list[Row]:
        """The aggregate row 0, then a row a session, the current one last."""
        with self._lock:
            return [self._aggregate(), *map(_row, self._sessions)]

    def error_rows(self) -> list[Row]:
        with self._lock:
            return [row for session in self._sessions for row in session.errors]

    def _aggregate(self) -> Row:
        totals, last = self._totals, self._sessions[-1] if self._sessions else None
        commit_lsn, commit_time = self._last_commit or (None, None)
        ended = next((s.end_time for s in reversed(self._sessions) if s.end_time is not None), None)
        return (
            *(0, self._opened, ended, totals.duration, "Aggregate", totals.errors),
            *(lsn_text(last.begin_lsn if last else None), _NO_LSN, lsn_text(last.commit_lsn if last else None)),
            *(totals.transactions, lsn_text(commit_lsn), commit_time, totals.records, totals.schema_changes),
            *(totals.commands, lsn_text(totals.first_begin_lsn), lsn_text(commit_lsn), commit_time),
            *(totals.latency, last.empty_scans if last else 0, totals.failed),
        )


def _row(session: ScanSession) -> Row:
    begin, commit = lsn_text(session.begin_lsn), lsn_text(session.commit_lsn)
    duration = _seconds(session.start_time, session.end_time) if session.transactions and session.end_time else 0
    return (
        *(session.session_id, session.start_time, session.end_time, duration, _phase(session), len(session.errors)),
        *(begin, commit, None if session.end_time is None else commit, session.transactions, commit),
        *(session.commit_time, session.records, session.schema_changes, session.commands),
        *(begin, commit, session.commit_time, _latency(session), session.empty_scans, int(bool(session.errors))),
    )


def _phase(session: ScanSession) -> str:
    return "Done" if session.phase == _DONE else str(session.phase)


def lsn_text(lsn: bytes | None) -> Value:
    """An LSN as the views show it: three hexadecimal numbers parted by colons, and a NUL; zeros for none."""
    return "{:08x}:{:08x}:{:04x}\0".format(*struct.unpack(">IIH", lsn)) if lsn is not None else _NO_LSN


def _latency(session: ScanSession) -> int:
    """Seconds from the last commit to the end of the session that captured it."""
    if session.commit_time is None or session.end_time is None:
        return 0
    return _seconds(session.commit_time, session.end_time)


def _seconds(earlier: str, later: str) -> int:
    return max(0, int((datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()))
