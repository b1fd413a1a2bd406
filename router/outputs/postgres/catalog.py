"""What the database says of a table: its columns with their types, and its primary key. Reads; changes nothing."""

from __future__ import annotations

from typing import Final

from common.errors import EntityUnavailable
from router.outputs.postgres.connections import Timed
from router.outputs.postgres.definitions import add_position
from router.outputs.postgres.table import Column, Table

_KIND: Final = (
    "SELECT c.oid, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = $2"
)

_COLUMNS: Final = (
    "SELECT a.attname, format_type(a.atttypid, -1), format_type(a.atttypid, a.atttypmod), "
    "array_position(i.indkey::smallint[], a.attnum), a.attgenerated <> '' "
    "FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary "
    "WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)

_TABLES: Final = ("r", "p")


def table_of(connection: Timed, schema: str, name: str, position: str) -> Table | None:
    """None if there is none. Raises EntityUnavailable for a view or anything else; psycopg.Error."""
    found = connection.execute(_KIND, (schema, name)).fetchone()
    if found is None:
        return None
    oid, kind = found
    if kind not in _TABLES:
        raise EntityUnavailable(f"{schema}.{name} is not a table", hint="name another one, or drop it")
    rows = connection.execute(_COLUMNS, (oid,)).fetchall()
    columns = [Column(column, base, declared, key, generated) for column, base, declared, key, generated in rows]
    return Table(schema, name, tuple(columns), position)


def unfit(table: Table) -> tuple[str, str] | None:
    """Why rows cannot be applied to it, and what to do."""
    if not table.key:
        return (
            "it has no primary key, so its rows cannot be told apart",
            f"ALTER TABLE {table.place} ADD PRIMARY KEY (...)",
        )
    if not table.has_position:
        return f'it has no column "{table.position}" of the type bytea for positions', add_position(table)
    return None
