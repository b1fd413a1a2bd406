"""The tables of schema cdc: their documented shapes, and the reading and writing of their rows.

Sources: the pages cdc.change_tables, cdc.captured_columns, cdc.index_columns, cdc.lsn_time_mapping and cdc.ddl_history under
https://learn.microsoft.com/sql/relational-databases/system-tables/
Decides nothing, and is called with a connection that is inside its caller's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

from emulators.sqlserver.cdc import log_store
from emulators.sqlserver.cdc.instance import (
    LSN,
    SYSNAME,
    CapturedColumn,
    CaptureInstance,
    change_table_columns,
)
from emulators.sqlserver.cdc.lsn import ZERO
from emulators.sqlserver.engine.extension import Database, KeyIndex, Table
from emulators.sqlserver.results import Column, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import invalid_object

SCHEMA = "cdc"

_INT = SqlType("int")
_BIT = SqlType("bit")
_DATETIME = SqlType("datetime")

_SHAPES: dict[str, tuple[tuple[Column, ...], tuple[str, ...]]] = {
    "change_tables": (
        (
            Column("object_id", _INT, nullable=False),
            Column("version", _INT),
            Column("source_object_id", _INT),
            Column("capture_instance", SYSNAME, nullable=False),
            Column("start_lsn", LSN),
            Column("end_lsn", LSN),
            Column("supports_net_changes", _BIT),
            Column("has_drop_pending", _BIT),
            Column("role_name", SYSNAME),
            Column("index_name", SYSNAME),
            Column("filegroup_name", SYSNAME),
            Column("create_date", _DATETIME),
            Column("partition_switch", _BIT, nullable=False),
        ),
        ("object_id",),
    ),
    "captured_columns": (
        (
            Column("object_id", _INT, nullable=False),
            Column("column_name", SYSNAME, nullable=False),
            Column("column_id", _INT),
            Column("column_type", SYSNAME, nullable=False),
            Column("column_ordinal", _INT, nullable=False),
            Column("is_computed", _BIT),
            Column("masking_function", SqlType("nvarchar", 4000)),
        ),
        ("object_id", "column_ordinal"),
    ),
    "index_columns": (
        (
            Column("object_id", _INT, nullable=False),
            Column("column_name", SYSNAME, nullable=False),
            Column("index_ordinal", SqlType("tinyint"), nullable=False),
            Column("column_id", _INT, nullable=False),
        ),
        ("object_id", "index_ordinal"),
    ),
    "lsn_time_mapping": (
        (
            Column("start_lsn", LSN, nullable=False),
            Column("tran_begin_time", _DATETIME),
            Column("tran_end_time", _DATETIME),
            Column("tran_id", SqlType("varbinary", 10)),
            Column("tran_begin_lsn", LSN),
        ),
        ("start_lsn",),
    ),
    "ddl_history": (
        (
            Column("source_object_id", _INT),
            Column("object_id", _INT, nullable=False),
            Column("required_column_update", _BIT),
            Column("ddl_command", SqlType("nvarchar", MAX)),
            Column("ddl_lsn", LSN, nullable=False),
            Column("ddl_time", _DATETIME),
        ),
        (),
    ),
}


def quoted(name: str) -> str:
    """A SQLite identifier."""
    return '"' + name.replace('"', '""') + '"'


def create_tables(database: Database, connection: sqlite3.Connection) -> None:
    for name, (columns, order) in _SHAPES.items():
        database.create_system_table(connection, SCHEMA, name, columns, order)


def drop_tables(database: Database, connection: sqlite3.Connection) -> None:
    for name in _SHAPES:
        database.drop_system_table(connection, table(database, name))


def exist(database: Database) -> bool:
    return database.table(SCHEMA, "change_tables") is not None


def table(database: Database, name: str) -> Table:
    """A table of schema cdc. Raises 208 when Change Data Capture is off, as the real functions do."""
    found = database.table(SCHEMA, name)
    if found is None:
        raise invalid_object(f"{SCHEMA}.{name}")
    return found


def storage(database: Database, name: str) -> str:
    return database.storage(table(database, name))


def insert(database: Database, connection: sqlite3.Connection, name: str, rows: Iterable[Sequence[Value]]) -> None:
    """Add rows, in the table's column order."""
    target = table(database, name)
    columns = ", ".join(quoted(column.name) for column in target.columns)
    marks = ", ".join("?" * len(target.columns))
    connection.executemany(f"INSERT INTO {database.storage(target)} ({columns}) VALUES ({marks})", rows)


def add_instance(
    database: Database,
    connection: sqlite3.Connection,
    source: Table,
    instance: CaptureInstance,
    key: KeyIndex | None,
    role_name: str | None,
    filegroup_name: str | None,
    partition_switch: bool,
) -> CaptureInstance:
    """Make the change table and register the instance; returns it with its object id."""
    change_table = database.create_system_table(
        connection, SCHEMA, instance.change_table, change_table_columns(instance), instance.clustered_key
    )
    object_id = change_table.object_id
    row = (
        *(object_id, 0, source.object_id, instance.name, instance.start_lsn, None),
        *(int(instance.supports_net_changes), None, role_name, instance.index_name, filegroup_name),
        *(database.now(), int(partition_switch)),
    )
    insert(database, connection, "change_tables", [row])
    captured = [
        (object_id, c.name, c.column_id, c.type_name, c.ordinal, int(c.computed), None) for c in instance.columns
    ]
    insert(database, connection, "captured_columns", captured)
    names = {column.column_id: column.name for column in source.columns}
    key_ids = key.column_ids if key else ()
    indexed = [(object_id, names[column_id], at, column_id) for at, column_id in enumerate(key_ids, 1)]
    insert(database, connection, "index_columns", indexed)
    return replace(instance, object_id=object_id, source_object_id=source.object_id)


def set_column_type(
    database: Database, connection: sqlite3.Connection, instance: CaptureInstance, column: CapturedColumn
) -> None:
    """Say in cdc.captured_columns what type a captured column has now."""
    connection.execute(
        f"UPDATE {storage(database, 'captured_columns')} SET column_type = ? WHERE object_id = ? AND column_ordinal = ?",
        (column.type_name, instance.object_id, column.ordinal),
    )


def remove_instance(database: Database, connection: sqlite3.Connection, instance: CaptureInstance) -> None:
    """Drop the change table and every row about it."""
    for name in ("change_tables", "captured_columns", "index_columns", "ddl_history"):
        connection.execute(f"DELETE FROM {storage(database, name)} WHERE object_id = ?", (instance.object_id,))
    database.drop_system_table(connection, table(database, instance.change_table))


def load_instances(
    database: Database, connection: sqlite3.Connection, known: Sequence[CaptureInstance] = ()
) -> tuple[CaptureInstance, ...]:
    """All capture instances, the oldest first, as the stored rows describe them. `known`: whose columns are as they were."""
    before = {instance.object_id: instance for instance in known}
    rows = connection.execute(
        "SELECT capture_instance, object_id, source_object_id, start_lsn, supports_net_changes, index_name, role_name "
        f"FROM {storage(database, 'change_tables')} ORDER BY object_id"
    ).fetchall()
    return tuple(
        CaptureInstance(
            name=name,
            object_id=object_id,
            source_object_id=source_object_id,
            start_lsn=start_lsn,
            columns=_load_columns(database, connection, object_id, f"{name}_CT"),
            supports_net_changes=bool(net),
            index_name=index_name,
            role_name=role_name,
            has_command_id=any(c.name == "__$command_id" for c in table(database, f"{name}_CT").columns),
        )
        if (same := before.get(object_id)) is None
        else same
        if same.start_lsn == start_lsn
        else replace(same, start_lsn=start_lsn)
        for name, object_id, source_object_id, start_lsn, net, index_name, role_name in rows
    )


def _load_columns(
    database: Database, connection: sqlite3.Connection, object_id: int, change_table: str
) -> tuple[CapturedColumn, ...]:
    types = {column.name: column.type for column in table(database, change_table).columns}
    rows = connection.execute(
        "SELECT column_name, column_id, column_ordinal, column_type, is_computed "
        f"FROM {storage(database, 'captured_columns')} WHERE object_id = ? ORDER BY column_ordinal",
        (object_id,),
    ).fetchall()
    return tuple(
        CapturedColumn(
            name, column_id, ordinal, SqlType("timestamp") if kind == "timestamp" else types[name], bool(computed)
        )
        for name, column_id, ordinal, kind, computed in rows
    )


def key_positions(database: Database, connection: sqlite3.Connection, instance: CaptureInstance) -> list[int]:
    """Where among its captured columns an instance has those of its unique index."""
    query = f"SELECT column_id FROM {storage(database, 'index_columns')} WHERE object_id = ? ORDER BY index_ordinal"
    at = {column.column_id: position for position, column in enumerate(instance.columns)}
    return [at[column_id] for (column_id,) in connection.execute(query, (instance.object_id,))]


def raise_start_lsn(database: Database, connection: sqlite3.Connection, instance: CaptureInstance, lsn: bytes) -> None:
    connection.execute(
        f"UPDATE {storage(database, 'change_tables')} SET start_lsn = ? WHERE object_id = ? AND start_lsn < ?",
        (lsn, instance.object_id, lsn),
    )


def min_lsn(database: Database, connection: sqlite3.Connection, instance: CaptureInstance) -> bytes:
    """The instance's low watermark as it is stored."""
    row = connection.execute(
        f"SELECT start_lsn FROM {storage(database, 'change_tables')} WHERE object_id = ?", (instance.object_id,)
    ).fetchone()
    lsn: bytes = row[0] if row else ZERO
    return lsn


def max_lsn(database: Database, connection: sqlite3.Connection) -> bytes | None:
    """How far capture has come; None before the first capture. Raises 208 when Change Data Capture is off."""
    query = f"SELECT MAX(start_lsn) FROM {storage(database, 'lsn_time_mapping')}"
    lsn: bytes | None = connection.execute(query).fetchone()[0]
    return lsn


def last_lsn(database: Database, connection: sqlite3.Connection) -> bytes:
    """The largest LSN that the database holds anywhere: where a reopened log goes on from."""
    watermarks = f"SELECT MAX(start_lsn) FROM {storage(database, 'change_tables')}"
    found = (
        max_lsn(database, connection),
        log_store.last_lsn(connection),
        connection.execute(watermarks).fetchone()[0],
    )
    return max((lsn for lsn in found if lsn is not None), default=ZERO)
