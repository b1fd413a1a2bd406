"""Runs INSERT, UPDATE and DELETE statements of a session: finds rows and values by lowered queries, hands them to changes.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from emulators.sqlserver.engine.catalog import Default, TableEntry
from emulators.sqlserver.engine.changes import Row, RowBuilder, TableWriter
from emulators.sqlserver.engine.database import StoredDatabase
from emulators.sqlserver.engine.extension import TableColumn
from emulators.sqlserver.engine.links import Link
from emulators.sqlserver.engine.names import SessionNames
from emulators.sqlserver.results import Column, Event, ResultSet, RowCount, SqlError, StatementDone, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import statements as st
from emulators.sqlserver.tsql.convert import Converter, converter
from emulators.sqlserver.tsql.errors import invalid_column, invalid_object, unsupported
from emulators.sqlserver.tsql.fragments import Fragment
from emulators.sqlserver.tsql.plans import Plan
from emulators.sqlserver.tsql.trees import parse_query
from emulators.sqlserver.tsql.types import INT

if TYPE_CHECKING:
    from emulators.sqlserver.engine.session import SqlSession


class Writing:
    """DML of one session."""

    def __init__(self, session: SqlSession) -> None:
        self.session = session

    def _done(self, count: int) -> Event:
        self.session.row_count = count
        return StatementDone() if self.session.settings.nocount else RowCount(count)

    def _entry(self, name: st.Name) -> tuple[StoredDatabase, TableEntry]:
        database = SessionNames(self.session).database(name)
        schema = name[-2] if len(name) > 1 and name[-2] else "dbo"
        entry = database.catalog_for(self.session).find(schema, name[-1])
        if entry is None:
            raise invalid_object(".".join(name))
        return database, entry

    def default_value(self, default: Default, column: TableColumn) -> Value:
        kind, value = self.session.runner.value(default.value)
        return None if value is None else converter(kind, column.type, 0, True)(value)

    # -- INSERT

    def insert(self, statement: st.Insert) -> Iterator[Event]:
        database, _ = self._entry(statement.table)
        with self.session.writing(database) as link:
            _, entry = self._entry(statement.table)
            writer = TableWriter(database, entry, link)
            builder = RowBuilder(
                writer,
                statement.columns,
                self.session.settings.identity_insert == (database.name, entry.table.object_id),
                lambda default: self._table_default(entry, default),
            )
            rows = self._rows(statement, writer, builder)
            writer.insert(rows)
            if writer.identity >= 0 and rows:
                self.session.identity = str(rows[-1][writer.identity])
        yield from self._output(statement.output, entry, rows, None)
        yield self._done(len(rows))

    def _table_default(self, entry: TableEntry, default: Default) -> Value:
        number = next(number for number, known in entry.defaults.items() if known is default)
        column = next(column for column in entry.table.columns if column.column_id == number)
        return self.default_value(default, column)

    def _rows(self, statement: st.Insert, writer: TableWriter, builder: RowBuilder) -> list[Row]:
        if statement.query is not None:
            return self._query_rows(statement.query, statement.columns is not None, writer, builder)
        if statement.rows is None:
            builder.targets = []
            return builder.finished([()])
        if not any(isinstance(cell, st.Default) for row in statement.rows for cell in row):
            builder.check_count(len(statement.rows[0]), statement.columns is not None)
            return builder.finished(self._cells(statement.rows, builder.targets, writer))
        rows: list[Row] = []
        for row in statement.rows:
            builder.check_count(len(row), statement.columns is not None)
            omitted = [at for at, cell in zip(builder.targets, row, strict=True) if isinstance(cell, st.Default)]
            given = tuple((INT, None) if isinstance(cell, st.Default) else cell for cell in row)
            rows += builder.finished(self._cells([given], builder.targets, writer), omitted)
        return rows

    def _cells(self, rows: Sequence[Sequence[st.Cell]], targets: Sequence[int], writer: TableWriter) -> list[Row]:
        """Values of VALUES, coerced. Each type in a column gets its conversion once."""
        known: list[dict[SqlType, Converter]] = [{} for _ in targets]
        plain: list[Row] = []
        for row in rows:
            values: list[Value] = []
            for position, target, cell in zip(known, targets, row, strict=True):
                kind, value = self._cell(cell)
                if value is not None:
                    step = position.get(kind)
                    if step is None:
                        step = position[kind] = writer.coerce(target, kind)
                    value = writer.converted([(value,)], [step], [target])[0][0]
                values.append(value)
            plain.append(tuple(values))
        return plain

    def _cell(self, cell: st.Cell) -> tuple[SqlType, Value]:
        if isinstance(cell, tuple):
            return cell
        assert isinstance(cell, Fragment)
        return self.session.runner.value(cell)

    def _query_rows(self, query: Fragment, listed: bool, writer: TableWriter, builder: RowBuilder) -> list[Row]:
        runner = self.session.runner
        plan = runner.plan(query)
        if len(plan.columns) != len(builder.targets):
            if not listed:
                builder.check_count(len(plan.columns), listed)
            more = "more" if len(plan.columns) > len(builder.targets) else "fewer"
            text = (
                f"The select list for the INSERT statement contains {more} items than the insert list. The number of SELECT "
                "values must match the number of INSERT columns."
            )
            raise SqlError(121 if more == "more" else 120, text, 15)
        source = runner.link(plan)
        found = _all(source, runner.execute(query, plan, source))
        steps = [writer.coerce(at, column.type) for at, column in zip(builder.targets, plan.columns, strict=True)]
        return builder.finished(writer.converted(found, steps, builder.targets))

    # -- UPDATE and DELETE

    def _found(self, query: Fragment, target: st.Name, has_from: bool) -> tuple[StoredDatabase, st.Name]:
        """The database to lock, and the full name of the table that the target means."""
        _, source = self.session.runner.plan_rows(query, target, has_from)
        database = self.session.engine.find(source.database)
        assert database is not None
        return database, (source.database, source.schema, source.name)

    def update(self, statement: st.Update) -> Iterator[Event]:
        database, table = self._found(statement.query, statement.target, statement.has_from)
        with self.session.writing(database) as link:
            _, entry = self._entry(table)
            writer = TableWriter(database, entry, link)
            changed = self._set_columns(statement, writer)
            plan, _ = self.session.runner.plan_rows(statement.query, statement.target, statement.has_from)
            found, given = self._touched(statement.query, plan, link, len(entry.table.columns))
            steps: list[Converter] = [
                (lambda value: value) if how == "DEFAULT" else writer.coerce(at, column.type)
                for at, column, (_, how) in zip(changed, plan.columns, statement.columns, strict=True)
            ]
            values = writer.converted(given, steps, changed)
            after = self._after(statement, entry, found, values, changed)
            writer.update(found, after, changed)
        before = [row for _, row in found]
        yield from self._output(statement.output, entry, after, before)
        yield self._done(len(found))

    def _set_columns(self, statement: st.Update, writer: TableWriter) -> list[int]:
        names = {column.name.lower(): index for index, column in enumerate(writer.entry.table.columns)}
        changed: list[int] = []
        for name, _ in statement.columns:
            position = names.get(name.lower())
            if position is None:
                raise invalid_column(name)
            if position == writer.identity:
                raise SqlError(8102, f"Cannot update identity column '{name}'.", 16)
            if position == writer.rowversion:
                raise SqlError(272, "Cannot update a timestamp column.", 16)
            if position in changed:
                text = (
                    f"The column name '{name}' is specified more than once in the SET clause or column list of an INSERT. "
                    "A column cannot be assigned more than one value in the same clause."
                )
                raise SqlError(264, text, 16)
            changed.append(position)
        return changed

    def _after(
        self,
        statement: st.Update,
        entry: TableEntry,
        found: Sequence[tuple[int, Row]],
        values: Sequence[Row],
        changed: Sequence[int],
    ) -> list[Row]:
        defaults: dict[int, Value] = {}
        for at, (_, how) in zip(changed, statement.columns, strict=True):
            if how == "DEFAULT":
                default = entry.defaults.get(entry.table.columns[at].column_id)
                defaults[at] = self._table_default(entry, default) if default else None
        after: list[Row] = []
        for (_, row), new in zip(found, values, strict=True):
            cells = list(row)
            for at, value in zip(changed, new, strict=True):
                cells[at] = defaults.get(at, value)
            after.append(tuple(cells))
        return after

    def _touched(self, query: Fragment, plan: Plan, link: Link, width: int) -> tuple[list[tuple[int, Row]], list[Row]]:
        """(row number, row) and the further items of each row once, however often a join yields it."""
        runner = self.session.runner
        if len(plan.databases) > 1:
            raise unsupported("a statement over tables of several databases")
        seen: dict[int, tuple[Row, Row]] = {}
        for row in _all(link, runner.execute(query, plan, link)):
            seen.setdefault(int(str(row[0])), (tuple(row[1 : width + 1]), tuple(row[width + 1 :])))
        return [(number, pair[0]) for number, pair in seen.items()], [pair[1] for pair in seen.values()]

    def delete(self, statement: st.Delete) -> Iterator[Event]:
        database, table = self._found(statement.query, statement.target, statement.has_from)
        with self.session.writing(database) as link:
            _, entry = self._entry(table)
            writer = TableWriter(database, entry, link)
            plan, _ = self.session.runner.plan_rows(statement.query, statement.target, statement.has_from)
            found, _ = self._touched(statement.query, plan, link, len(entry.table.columns))
            writer.delete(found)
        yield from self._output(statement.output, entry, None, [row for _, row in found])
        yield self._done(len(found))

    # -- OUTPUT

    def _output(
        self, output: st.Output | None, entry: TableEntry, inserted: Sequence[Row] | None, deleted: Sequence[Row] | None
    ) -> Iterator[Event]:
        if output is None:
            return
        columns: list[Column] = []
        places: list[tuple[bool, int]] = []
        for item in parse_query(output.query.text).expressions:
            name = item.alias if isinstance(item, exp.Alias) else ""
            column = item.this if isinstance(item, exp.Alias) else item
            if not isinstance(column, exp.Column) or column.table.lower() not in ("inserted", "deleted"):
                raise unsupported("an OUTPUT item that is no column of inserted or deleted")
            new = column.table.lower() == "inserted"
            for index, known in enumerate(entry.table.columns):
                if isinstance(column.this, exp.Star) or known.name.lower() == column.name.lower():
                    columns.append(Column(name or known.name, known.type, known.nullable))
                    places.append((new, index))
        rows = self._output_rows(places, inserted, deleted)
        yield ResultSet(columns, iter(rows))

    def _output_rows(
        self, places: Sequence[tuple[bool, int]], inserted: Sequence[Row] | None, deleted: Sequence[Row] | None
    ) -> list[Row]:
        sides = {True: inserted, False: deleted}
        for new, _ in places:
            if sides[new] is None:
                text = f'The multi-part identifier "{"inserted" if new else "deleted"}" could not be bound.'
                raise SqlError(4104, text, 16)
        count = len(inserted if inserted is not None else deleted or ())
        return [tuple((sides[new] or ())[row][index] for new, index in places) for row in range(count)]


def _all(link: Link, cursor: sqlite3.Cursor) -> list[Row]:
    try:
        return cursor.fetchall()
    except sqlite3.Error as error:
        raise link.translated(error) from error
    finally:
        cursor.close()
