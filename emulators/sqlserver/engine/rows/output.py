"""OUTPUT: what a statement's changed rows look like to its client, or to the table behind INTO."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from emulators.sqlserver.engine.rows.changes import Row
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store.catalog import TableEntry
from emulators.sqlserver.results import Column, Event, ResultSet
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.planning.lowering import OutputShape
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.dml.clauses import outside_columns

Change = tuple[Row | None, Row | None, str, Row]
"""A row as inserted and as deleted, $action, and the values of the further columns that OUTPUT names."""
Store = Callable[[st.Name, tuple[str, ...] | None, Sequence[Column], list[Row]], None]


def output_events(
    session: StatementSession,
    output: st.Output | None,
    entry: TableEntry,
    changes: Sequence[Change],
    outside: Sequence[SqlType],
    store: Store,
    statement: str,
) -> Iterator[Event]:
    """To be exhausted inside the statement, which fails as a whole. `store` inserts into the table of INTO."""
    if output is None:
        return
    table = entry.table
    named = [_split(name) for name in outside_columns(output)]
    shape = OutputShape(
        tuple(Column(c.name, c.type, c.nullable) for c in table.columns),
        tuple((at, entry.computed[c.column_id].value) for at, c in enumerate(table.columns) if c.computed),
        statement != "DELETE",
        statement != "INSERT",
        statement == "MERGE",
        tuple((qualifier, name, kind) for (qualifier, name), kind in zip(named, outside, strict=True)),
    )
    empty = (None,) * len(table.columns)
    rows = [(*(new or empty), *(old or empty), action, *further) for new, old, action, further in changes]
    plan, found = session.runner.output(output.query, shape, rows)
    if output.into:
        store(output.into, output.columns, plan.columns, [tuple(row) for row in found])
        return
    yield ResultSet(plan.columns, iter(found))


def _split(name: str) -> tuple[str, str]:
    """ "[s].[a]" as (qualifier, column)."""
    parts = name[1:-1].split("].[")
    return parts[-2], parts[-1]
