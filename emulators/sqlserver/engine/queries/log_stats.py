"""sys.dm_db_log_stats: how far a database's log has come. The extension counts; where it does not, the log stands still.

The log is one virtual log file of 64 MB. A log that waits for its reader is held up by REPLICATION, as capture holds up the real one.
Source: https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-log-stats-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulators.sqlserver.engine.extension import CallContext, LogState, Row, TableFunction
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import SqlType

_SIZE_MB = 64.0
_INT, _BIG, _FLOAT = SqlType("int"), SqlType("bigint"), SqlType("float")
_TEXT, _LSN = SqlType("nvarchar", 60), SqlType("nvarchar", 24)
_COLUMNS = (
    Column("database_id", _INT, nullable=False),
    Column("recovery_model", _TEXT),
    Column("log_min_lsn", _LSN),
    Column("log_end_lsn", _LSN),
    Column("current_vlf_sequence_number", _BIG),
    Column("current_vlf_size_mb", _FLOAT),
    Column("total_vlf_count", _BIG),
    Column("total_log_size_mb", _FLOAT),
    Column("active_vlf_count", _BIG),
    Column("active_log_size_mb", _FLOAT),
    Column("log_truncation_holdup_reason", _TEXT),
    Column("log_backup_time", SqlType("datetime")),
    Column("log_backup_lsn", _LSN),
    Column("log_since_last_log_backup_mb", _FLOAT),
    Column("log_checkpoint_lsn", _LSN),
    Column("log_since_last_checkpoint_mb", _FLOAT),
    Column("log_recovery_lsn", _LSN),
    Column("log_recovery_size_mb", _FLOAT),
    Column("recovery_vlf_count", _BIG),
)


def log_stats(session: DatabaseAccess) -> TableFunction:
    """The function for one session; NULL means its current database."""

    def rows(context: CallContext, arguments: Sequence[Value]) -> Iterator[Row]:
        session.rights(session.current()).require_server_state()
        wanted = arguments[0]
        for database in session.engine.databases():
            if database.database_id == wanted or (wanted is None and database is session.current()):
                yield _row(database, session.engine.log(database))

    return TableFunction(1, _COLUMNS, rows)


def _row(database: StoredDatabase, log: LogState) -> Row:
    first, end = shown(log.first), shown(log.end)
    reason = "REPLICATION" if log.waits else "NOTHING"
    return (
        *(database.database_id, database.recovery_model, first, end),
        *(int.from_bytes(log.end[:4], "big"), _SIZE_MB, 1, _SIZE_MB, 1, 0.0, reason),
        *(None, None, None, first, 0.0, first, 0.0, 1),
    )


def shown(lsn: bytes) -> str:
    """An LSN as the views over the log write it."""
    return ":".join((lsn[:4].hex(), lsn[4:8].hex(), lsn[8:].hex()))
