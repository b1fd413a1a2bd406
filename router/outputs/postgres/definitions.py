"""The SQL that makes tables: DStream's own, and those of a target from a schema event. Pure.

Nothing here takes anything away: a column that the source has dropped stays, and a type only becomes a wider one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from router.outputs.postgres.statements import Own
from router.outputs.postgres.table import Table, identifier, quoted
from router.outputs.postgres.types import column_type, wider

_TIMED: Final = re.compile(r"(time|timestamp)(?:\((\d)\))? (with|without) time zone")


class Sent(NamedTuple):
    """A column of the source, as a schema event says it: the type as it is declared, and its place in the key."""

    name: str
    declared: str
    key: int | None

    @property
    def type(self) -> str:
        return column_type(self.declared, key=self.key is not None)


def sent_columns(metadata: Mapping[str, Any]) -> tuple[Sent, ...]:
    """Of a schema event. Raises ValueError for one that is not as the ingester writes it."""
    try:
        columns = metadata["SchemaChange"]["Columns"]
        found = tuple(Sent(each["Name"], each["Type"], each.get("Key")) for each in columns)
        if not all(map(_well_formed, found)):
            raise ValueError("a column without a name, a type or a place")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError("metadata.SchemaChange is not as the ingester writes it") from error
    return found


def _well_formed(sent: Sent) -> bool:
    """Raises ValueError for half a surrogate pair."""
    for text in (sent.name, sent.declared):
        if not isinstance(text, str) or not text or "\0" in text:
            return False
        text.encode()
    return sent.key is None or type(sent.key) is int


def make_table(schema: str, name: str, columns: Sequence[Sent], position: str, *, lower: bool) -> str:
    lines = [f"{quoted(identifier(each.name, lower=lower))} {each.type}" for each in columns]
    key = sorted((each for each in columns if each.key is not None), key=lambda each: each.key or 0)
    names = ", ".join(quoted(identifier(each.name, lower=lower)) for each in key)
    parts = [*lines, f"{quoted(position)} bytea", f"PRIMARY KEY ({names})"]
    return f"CREATE TABLE IF NOT EXISTS {quoted(schema, name)} ({', '.join(parts)})"


def changes(table: Table, columns: Sequence[Sent], *, lower: bool) -> list[str]:
    """What makes a table hold `columns` too."""
    found = list[str]()
    for each in columns:
        column = table.column(each.name)
        if column is None:
            name = quoted(identifier(each.name, lower=lower))
            found.append(f"ALTER TABLE {table.place} ADD COLUMN IF NOT EXISTS {name} {each.type}")
        elif column.key is None and wider(_short(column.declared), each.type):
            found.append(f"ALTER TABLE {table.place} ALTER COLUMN {quoted(column.name)} TYPE {each.type}")
    return found


def add_position(table: Table) -> str:
    return f"ALTER TABLE {table.place} ADD COLUMN {quoted(table.position)} bytea"


def make_schema(name: str) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}"


def make_own(own: Own) -> tuple[str, ...]:
    """The schema excepted."""
    deleted = "target text NOT NULL, key text[] NOT NULL, position bytea NOT NULL, deleted_at timestamptz NOT NULL DEFAULT now()"
    lsn = 'text COLLATE "C" NOT NULL'
    return (
        f"CREATE TABLE IF NOT EXISTS {own.deleted} ({deleted}, PRIMARY KEY (target, key))",
        f"CREATE INDEX IF NOT EXISTS deleted_rows_by_time ON {own.deleted} (target, deleted_at)",
        f"CREATE TABLE IF NOT EXISTS {own.tables} (target text PRIMARY KEY, gap {lsn} DEFAULT '', whole {lsn} DEFAULT '')",
        f"ALTER TABLE {own.tables} ADD COLUMN IF NOT EXISTS origin text",
        f"CREATE TABLE IF NOT EXISTS {own.snapshots} (target text, snapshot text, begun {lsn}, PRIMARY KEY (target, snapshot))",
    )


def _short(declared: str) -> str:
    """A type as `column_type` writes it, of what `format_type` says."""
    if (found := _TIMED.fullmatch(declared)) is None:
        return declared
    zone = "tz" if found[3] == "with" else ""
    return f"{found[1]}{zone}({found[2] or 6})"
