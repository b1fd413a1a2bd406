"""The capture instances of a database as the catalog has them: all of them, or one."""

from __future__ import annotations

from typing import Any, Final

from common.names import TableName
from ingester.source import CapturedColumn
from ingester.sqlserver.change_table import ChangeTable, Shape
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.literals import in_its_scope
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql import columns as queries_of_columns
from ingester.sqlserver.sql.changes import Statement
from ingester.sqlserver.sql.declared import declared

_READINGS: Final = 3
"""How often the catalog is read because a capture instance was made meanwhile."""


def instances(connection: Connection, *, by_function: bool, of: str | None = None) -> list[tuple[int, ChangeTable]]:
    """Each with its source table's object id, in order of creation. `of`: the one of this name alone, which costs nothing for the others.

    Every capture instance has columns: one that was made between two of the questions seems to have none, and is left out where further readings
    do not help.
    """
    found: list[tuple[int, ChangeTable]] = []
    for _ in range(_READINGS):
        found = _instances(connection, by_function=by_function, of=of)
        if all(instance.columns for _, instance in found):
            break
    return [one for one in found if one[1].columns]


def _instances(connection: Connection, *, by_function: bool, of: str | None) -> list[tuple[int, ChangeTable]]:
    # Before the columns, so that an ALTER in between shows.
    stamps = dict(catalog_rows(connection, queries_of_columns.stamps(of)))
    columns: dict[int, list[CapturedColumn]] = {}
    for object_id, *column in catalog_rows(connection, queries_of_columns.captured(of)):
        columns.setdefault(object_id, []).append(_captured(*column))
    added: dict[int, list[str]] = {}
    for object_id, name in catalog_rows(connection, queries_of_columns.added(of)):
        added.setdefault(object_id, []).append(name)
    return [
        (
            source_id,
            ChangeTable(
                name=capture_instance,
                table=TableName(schema, source),
                change_table=change_table,
                start=LogPosition.before(Lsn(bytes(start_lsn))),
                columns=tuple(columns.get(object_id, ())),
                has_command_id=command_id_length is not None and not by_function,
                shape=Shape(stamps.get(object_id, stamps.get(source_id)), source_id, object_id),
                types_known=object_id in stamps,
                source=identity or "",
                added=tuple(added.get(object_id, ())),
            ),
        )
        for (
            source_id,
            schema,
            source,
            capture_instance,
            change_table,
            object_id,
            start_lsn,
            command_id_length,
            identity,
        ) in catalog_rows(connection, queries.capture_instances(of))
        if start_lsn is not None and schema is not None
    ]


def catalog_rows(connection: Connection, question: Statement) -> list[tuple[Any, ...]]:
    """Rows of the catalog, with a short wait for locks: a session that alters a table holds some, and the loop has other tables."""
    text, parameters = question
    return connection.rows(in_its_scope(f"{queries.SHORT_WAIT};\n{text}", parameters))


def _captured(
    name: str,
    type_: str,
    ordinal: int,
    computed: bool | None,
    length: int | None,
    precision: int | None,
    scale: int | None,
    key: int | None,
    gone: int,
) -> CapturedColumn:
    sql_type = type_.lower()
    return CapturedColumn(
        *(name, sql_type, ordinal, bool(computed), length == -1, key, length, bool(gone)),
        declared=declared(sql_type, length, precision, scale),
    )
