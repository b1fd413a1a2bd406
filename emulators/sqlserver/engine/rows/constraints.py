"""CHECK and FOREIGN KEY constraints, checked when a statement has changed all of its rows. Raises 547 with Microsoft's text.

Source: https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-547-database-engine-error ; cascades do not exist here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.rows.changes import TableWriter
from emulators.sqlserver.engine.session_ports import DatabaseAccess
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Catalog, Check, ForeignKey, TableEntry
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import Column, SqlError
from emulators.sqlserver.tsql.planning.lowering import lower_over_row
from emulators.sqlserver.tsql.planning.plans import Expr, Source
from emulators.sqlserver.tsql.reading.fragments import Fragment


def row_value(session: DatabaseAccess, entry: TableEntry, fragment: Fragment, row: str = "s1.") -> Expr:
    """An expression over a row of a table, for SQLite, which knows the row as s1; `row`: what stands before its columns."""
    table = entry.table
    columns = tuple(Column(c.name, c.type, c.nullable) for c in table.columns)
    computed = tuple((at, entry.computed[c.column_id].value) for at, c in enumerate(table.columns) if c.computed)
    return lower_over_row(
        fragment, Source("", table.schema, table.name, columns, computed=computed), SessionNames(session), row
    )


def check_rows(session: DatabaseAccess, writer: TableWriter) -> None:
    """The rows that a statement inserted or updated, by the constraints of their table."""
    rows = f"s1.{writer.rowid} IN (SELECT value FROM json_each(?1))"
    if writer.new_from is not None:
        rows = f"({rows} OR s1.{writer.rowid} >= {writer.new_from})"
    active = writer.database.active
    assert active is not None
    check_constraints(
        session,
        writer.link,
        active.catalog,
        writer.entry,
        _Named(writer.database.shown, writer.statement),
        (rows, writer.numbers),
    )


class _Named:
    """What the error text says beside the constraint."""

    def __init__(self, database: str, statement: str) -> None:
        self.database = database
        self.statement = statement

    def error(self, kind: str, constraint: str, entry: TableEntry, column: str) -> SqlError:
        table = entry.table
        text = (
            f'The {self.statement} statement conflicted with the {kind} constraint "{constraint}". The conflict occurred in '
            f'database "{self.database}", table "{table.schema}.{table.name}"'
        )
        return SqlError(547, f"{text}, column '{column}'." if column else f"{text}.", 16)


def check_existing(
    session: DatabaseAccess, link: Link, catalog: Catalog, entry: TableEntry, database: str, only: Sequence[str]
) -> None:
    """All rows of a table by the constraints called `only`, which ALTER TABLE adds."""
    chosen = (
        tuple(check for check in entry.checks if check.name in only),
        tuple(key for key in entry.foreign_keys if key.name in only),
    )
    _violations(session, link, catalog, entry, _Named(database, "ALTER TABLE"), ("1 = 1", ()), *chosen)


def check_constraints(
    session: DatabaseAccess,
    link: Link,
    catalog: Catalog,
    entry: TableEntry,
    named: _Named,
    rows: tuple[str, Sequence[int]],
) -> None:
    _violations(session, link, catalog, entry, named, rows, entry.checks, entry.foreign_keys)


def _violations(
    session: DatabaseAccess,
    link: Link,
    catalog: Catalog,
    entry: TableEntry,
    named: _Named,
    rows: tuple[str, Sequence[int]],
    checks: Sequence[Check],
    keys: Sequence[ForeignKey],
) -> None:
    where, numbers = rows
    parameters = [json.dumps(list(numbers))] if "?1" in where else []
    for check in checks:
        broken = row_value(session, entry, check.condition).sql
        sql = f"SELECT 1 FROM {storage.storage_name(entry.table)} AS s1 WHERE {where} AND ({broken}) = 1 LIMIT 1"
        if link.execute(sql, parameters).fetchone() is not None:
            raise named.error("CHECK", check.name, entry, _column_name(entry, check.column_id))
    for key in keys:
        parent = catalog.tables[key.referenced_id]
        if link.execute(f"{_orphans(entry, parent, key)} AND {where} LIMIT 1", parameters).fetchone() is not None:
            kind = "FOREIGN KEY SAME TABLE" if parent.table.object_id == entry.table.object_id else "FOREIGN KEY"
            raise named.error(kind, key.name, parent, _single(parent, key.referenced_column_ids))


def check_references(session: DatabaseAccess, writer: TableWriter) -> None:
    """Rows elsewhere that reference keys which a statement deleted or changed."""
    active = writer.database.active
    assert active is not None
    parent = active.catalog.tables[writer.entry.table.object_id]
    for child, key in active.catalog.referencing(parent.table.object_id):
        if writer.link.execute(f"{_orphans(child, parent, key)} LIMIT 1").fetchone() is not None:
            kind = "SAME TABLE REFERENCE" if child.table.object_id == parent.table.object_id else "REFERENCE"
            named = _Named(writer.database.shown, writer.statement)
            raise named.error(kind, key.name, child, _single(child, key.column_ids))


def _orphans(child: TableEntry, parent: TableEntry, key: ForeignKey) -> str:
    """The rows of `child`, known as s1, whose key has no row in `parent`; a key with a NULL in it references nothing."""
    pairs = [
        (storage.quote(_column_name(child, mine)), storage.quote(_column_name(parent, other)))
        for mine, other in zip(key.column_ids, key.referenced_column_ids, strict=True)
    ]
    given = " AND ".join(f"s1.{mine} IS NOT NULL" for mine, _ in pairs)
    same = " AND ".join(f"s2.{other} = s1.{mine}" for mine, other in pairs)
    found = f"SELECT 1 FROM {storage.storage_name(parent.table)} AS s2 WHERE {same}"
    return f"SELECT 1 FROM {storage.storage_name(child.table)} AS s1 WHERE {given} AND NOT EXISTS ({found})"


def _column_name(entry: TableEntry, column_id: int) -> str:
    return next((c.name for c in entry.table.columns if c.column_id == column_id), "")


def _single(entry: TableEntry, column_ids: Sequence[int]) -> str:
    return _column_name(entry, column_ids[0]) if len(column_ids) == 1 else ""
