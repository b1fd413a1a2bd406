"""`dstream schema` and `dstream asyncapi`: the columns of tables' messages, with the JSON Schema of each value. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from common.errors import PermanentError
from common.names import TRANSACTIONS, TableName
from ingester.commands.stores import chosen, with_matches
from ingester.schema.version import SchemaColumn, schema_version
from ingester.settings import IngesterSettings, TableSettings
from ingester.shape.columns import ShapeRefused, fitted
from ingester.shape.versions import schema_of
from ingester.source import TableState
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.schema.json_types import Schema, json_schema
from ingester.sqlserver.schema.store import SqlServerSchemas
from ingester.sqlserver.source import SqlServerSource

_QUERY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class TableColumns:
    """`table`: as messages spell it. `values`: the schema of each column's value, by its name. `key`: the key's columns in its order."""

    table: TableName
    version: str
    values: dict[str, Schema]
    key: tuple[str, ...] = ()


def columns_of(settings: IngesterSettings, name: str, version: str | None = None) -> TableColumns:
    """Of one table: the newest columns, or those of a `version` that was kept. Raises DStreamError."""
    settings = with_matches(settings)
    [table] = chosen(settings, [name])
    with closing(Connection(settings.db, query_seconds=_QUERY_SECONDS)) as connection:
        [found] = _present(connection, settings, [table])
        if version is None or version == found.version:
            return found
        kept = {one.version: one.columns for one in SqlServerSchemas(connection).of(table)}
    if version not in kept:
        known = ", ".join([*kept, *([found.version] if found.version not in kept else [])])
        raise PermanentError(
            f"{table.key}: version {version} is not known",
            hint=f"known: {known}. Versions are kept where schema_events is on (docs/schemas.md)",
        )
    return _columns(settings, found.table, kept[version])


def columns_of_all(settings: IngesterSettings) -> Sequence[TableColumns]:
    """Of every table. Raises DStreamError."""
    settings = with_matches(settings)
    with closing(Connection(settings.db, query_seconds=_QUERY_SECONDS)) as connection:
        found = _present(connection, settings, settings.tables)
    events = [TableColumns(TRANSACTIONS, schema_version(()), {})] if settings.transactions else []
    return [*found, *events]


def _present(connection: Connection, settings: IngesterSettings, tables: Sequence[TableName]) -> Sequence[TableColumns]:
    source = SqlServerSource(connection, query_mode=settings.query_mode)
    states, shaped = source.states(tables), {each.name: each for each in settings.schedule}
    return [
        _newest(settings, shaped[table], states[table], source.hints.absence(table, states[table])) for table in tables
    ]


def _newest(settings: IngesterSettings, table: TableSettings, state: TableState, absent: str | None) -> TableColumns:
    """Those of the capture instance that the table's next changes are read from in the end."""
    if not state.instances:
        raise PermanentError(f"{table.name.key}: {absent or 'it is not under Change Data Capture'}")
    newest = state.instances[-1]
    try:
        return _columns(settings, newest.table, schema_of(newest.columns, fitted(table.shape, newest)))
    except ShapeRefused as error:
        raise ShapeRefused(f"the shape of {table.name.key}: {error.message}", hint=error.hint or "") from None


def _columns(settings: IngesterSettings, table: TableName, columns: Sequence[SchemaColumn]) -> TableColumns:
    numbers = settings.decimals == "number"
    return TableColumns(
        table,
        schema_version(columns),
        {column.name: json_schema(column.type, decimals_as_numbers=numbers) for column in columns},
        tuple(column.name for column in sorted(columns, key=lambda one: one.key or 0) if column.key),
    )
