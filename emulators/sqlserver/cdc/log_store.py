"""Where committed log records wait for capture: three SQLite tables that no query can see, written in the user's own transaction.

Decides nothing: what a record says is records.py's and capture.py's business.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field

from emulators.sqlserver.cdc.instance import LogRecord
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType

_TABLES = {
    "cdc$transactions": "start_lsn BLOB PRIMARY KEY, begin_time TEXT, end_time TEXT, tran_id BLOB, begin_lsn BLOB",
    "cdc$records": "start_lsn BLOB, position INTEGER, object_id INTEGER, command_id INTEGER, seqval BLOB, "
    "operation INTEGER, changed TEXT, image TEXT, mask BLOB, PRIMARY KEY (start_lsn, position)",
    "cdc$ddl": "start_lsn BLOB, position INTEGER, object_id INTEGER, command TEXT, time TEXT, retyped TEXT, "
    "PRIMARY KEY (start_lsn, position)",
}


@dataclass(frozen=True, slots=True)
class DdlRecord:
    """A DDL statement on a tracked table: its text, when it ran (datetime form), and the columns it gave another type, by id."""

    object_id: int
    command: str
    time: str
    retyped: Mapping[int, SqlType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """One committed transaction: `start_lsn` is the LSN of its commit record, `begin_lsn` that of its first record."""

    start_lsn: bytes
    begin_time: str | None
    end_time: str
    tran_id: bytes
    begin_lsn: bytes
    records: Sequence[LogRecord] = ()
    ddl: Sequence[DdlRecord] = ()


def create(connection: sqlite3.Connection) -> None:
    """Make the tables; the position that a former log left stays."""
    connection.execute('CREATE TABLE IF NOT EXISTS "cdc$position" (lsn BLOB)')
    for name, columns in _TABLES.items():
        connection.execute(f'CREATE TABLE "{name}" ({columns}) WITHOUT ROWID')


def drop(connection: sqlite3.Connection, position: bytes) -> None:
    """Drop the tables, and leave word of how far the log had come: the log of a database goes on, whoever reads it."""
    for name in _TABLES:
        connection.execute(f'DROP TABLE "{name}"')
    connection.execute('DELETE FROM "cdc$position"')
    connection.execute('INSERT INTO "cdc$position" VALUES (?)', (position,))


def append(connection: sqlite3.Connection, transaction: LoggedTransaction) -> None:
    """Add a committed transaction; the caller's SQLite transaction decides whether it was."""
    lsn = transaction.start_lsn
    connection.execute(
        'INSERT INTO "cdc$transactions" VALUES (?, ?, ?, ?, ?)',
        (lsn, transaction.begin_time, transaction.end_time, transaction.tran_id, transaction.begin_lsn),
    )
    connection.executemany(
        'INSERT INTO "cdc$records" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
        (
            (
                *(lsn, at, r.object_id, r.command_id, r.seqval, r.operation),
                *(_ids_text(r.changed), _image_text(r.values), r.mask),
            )
            for at, r in enumerate(transaction.records)
        ),
    )
    connection.executemany(
        'INSERT INTO "cdc$ddl" VALUES (?, ?, ?, ?, ?, ?)',
        ((lsn, at, d.object_id, d.command, d.time, _types_text(d.retyped)) for at, d in enumerate(transaction.ddl)),
    )


def first(connection: sqlite3.Connection, limit: int) -> list[LoggedTransaction]:
    """The oldest `limit` transactions, whole, in commit order."""
    rows = connection.execute(
        'SELECT start_lsn, begin_time, end_time, tran_id, begin_lsn FROM "cdc$transactions" ORDER BY start_lsn LIMIT ?',
        (limit,),
    ).fetchall()
    return [
        LoggedTransaction(lsn, begun, ended, tran_id, begin_lsn, _records(connection, lsn), _ddl(connection, lsn))
        for lsn, begun, ended, tran_id, begin_lsn in rows
    ]


def count(connection: sqlite3.Connection) -> int:
    """How many transactions wait for capture."""
    waiting: int = connection.execute('SELECT COUNT(*) FROM "cdc$transactions"').fetchone()[0]
    return waiting


def forget(connection: sqlite3.Connection, up_to: bytes) -> None:
    """Drop what capture has moved: every transaction up to and including this commit LSN."""
    for name in _TABLES:
        connection.execute(f'DELETE FROM "{name}" WHERE start_lsn <= ?', (up_to,))


def first_lsn(connection: sqlite3.Connection) -> bytes | None:
    """The LSN of the first record of the oldest transaction that waits for capture."""
    lsn: bytes | None = connection.execute('SELECT MIN(begin_lsn) FROM "cdc$transactions"').fetchone()[0]
    return lsn


def last_lsn(connection: sqlite3.Connection) -> bytes | None:
    """The largest LSN of those that wait and of the position that a former log left."""
    lsn: bytes | None = connection.execute(
        'SELECT MAX(lsn) FROM (SELECT MAX(start_lsn) AS lsn FROM "cdc$transactions" UNION ALL SELECT lsn FROM "cdc$position")'
    ).fetchone()[0]
    return lsn


def _records(connection: sqlite3.Connection, lsn: bytes) -> list[LogRecord]:
    rows = connection.execute(
        'SELECT object_id, command_id, seqval, operation, image, changed, mask FROM "cdc$records" WHERE start_lsn = ? '
        "ORDER BY position",
        (lsn,),
    )
    return [
        LogRecord(object_id, command_id, seqval, operation, _image(image), frozenset(json.loads(changed)), mask)
        for object_id, command_id, seqval, operation, image, changed, mask in rows.fetchall()
    ]


def _ddl(connection: sqlite3.Connection, lsn: bytes) -> list[DdlRecord]:
    query = 'SELECT object_id, command, time, retyped FROM "cdc$ddl" WHERE start_lsn = ? ORDER BY position'
    rows = connection.execute(query, (lsn,)).fetchall()
    return [DdlRecord(object_id, command, time, _types(types)) for object_id, command, time, types in rows]


def _ids_text(ids: frozenset[int]) -> str:
    return json.dumps(sorted(ids))


def _types_text(types: Mapping[int, SqlType]) -> str:
    return json.dumps({column_id: astuple(kind) for column_id, kind in types.items()})


def _types(text: str) -> dict[int, SqlType]:
    return {int(column_id): SqlType(*parts) for column_id, parts in json.loads(text).items()}


def _image_text(values: Mapping[int, Value]) -> str:
    """JSON keeps every storage form but bytes, which travel as a one-element list of hex digits."""
    return json.dumps({key: [value.hex()] if isinstance(value, bytes) else value for key, value in values.items()})


def _image(text: str) -> dict[int, Value]:
    pairs = json.loads(text).items()
    return {int(key): bytes.fromhex(value[0]) if isinstance(value, list) else value for key, value in pairs}
