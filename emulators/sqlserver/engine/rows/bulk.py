"""INSERT BULK of a session: which table and columns it is about, and the rows that the client sends behind it.

One message of rows is one statement: all of them are stored, or none. Constraints are checked only where the client asks for it; otherwise
they are not trusted afterwards. What the rows look like on the wire is not known here.
Source: https://learn.microsoft.com/sql/t-sql/statements/bulk-insert-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emulators.sqlserver.engine.rows.changes import Row, RowBuilder, TableWriter
from emulators.sqlserver.engine.rows.writing import Writing
from emulators.sqlserver.results import Column, Event, SqlError, StatementDone, Value
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st


class BulkLoading:
    """Of one session."""

    def __init__(self, writing: Writing) -> None:
        self._session = writing.session
        self._writing = writing
        self._expected: st.InsertBulk | None = None

    def forget(self) -> None:
        """Another request came instead of the rows."""
        self._expected = None

    def begin(self, statement: st.InsertBulk) -> Iterator[Event]:
        """Raises what is wrong before the first row is sent: 207, 208, 264, 271."""
        database, entry = self._writing.entry(statement.table)
        self._builder(statement, TableWriter(database, entry, database.write_link, "INSERT"))
        self._expected = statement
        yield StatementDone()

    def load(self, columns: Sequence[Column], rows: Sequence[Sequence[Value]]) -> Iterator[Event]:
        """Raises 515, 547, 2627, 2628, 4816 and what a conversion raises."""
        statement, self._expected = self._expected, None
        if statement is None:
            raise unsupported("rows of a bulk load without INSERT BULK before them")
        if columns and len(columns) != len(statement.columns):
            raise SqlError(4816, f"Invalid column type from bcp client for colid {len(statement.columns)}.", 16)
        database, entry = self._writing.entry(statement.table)
        with self._session.writing(database, [database.storage(entry.table)], "INSERT") as link:
            _, entry = self._writing.entry(statement.table)
            writer = TableWriter(database, entry, link, "INSERT")
            builder = self._builder(statement, writer)
            steps = [writer.coerce(at, column.type) for at, column in zip(builder.targets, columns, strict=False)]
            finished = builder.finished(
                self._filled(statement, builder, writer.converted(rows, steps, builder.targets))
            )
            writer.insert(finished)
            if statement.checked:
                self._writing.check(writer)
            elif writer.constrained:
                rules = [*(check.name for check in entry.checks), *(key.name for key in entry.foreign_keys)]
                database.change(database.catalog_for(self._session).with_untrusted(entry, rules))
        yield self._writing.done(len(finished))

    def _builder(self, statement: st.InsertBulk, writer: TableWriter) -> RowBuilder:
        """A client that names the identity column keeps its values."""
        identity = writer.entry.table.columns[writer.identity].name if writer.identity >= 0 else ""
        fold = writer.entry.fold
        named = bool(identity) and fold(identity) in {fold(name) for name in statement.columns}
        return RowBuilder(writer, statement.columns, named, self._writing.default_of(writer.entry))

    def _filled(self, statement: st.InsertBulk, builder: RowBuilder, rows: Sequence[Row]) -> Sequence[Row]:
        """NULL becomes the column's default, unless the client keeps NULL."""
        entry = builder.writer.entry
        ids = [entry.table.columns[at].column_id for at in builder.targets]
        if statement.nulls or not any(number in entry.defaults for number in ids):
            return rows
        default = self._writing.default_of(entry)
        defaults = [entry.defaults.get(number) for number in ids]
        return [
            tuple(
                default(d) if value is None and d is not None else value for value, d in zip(row, defaults, strict=True)
            )
            for row in rows
        ]
