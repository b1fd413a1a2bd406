"""Runs INSERT, UPDATE and DELETE statements of a session: finds rows and values by lowered queries, hands them to changes.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from emulators.sqlserver.engine.extension import TableColumn
from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.rows.changes import Row, RowBuilder, TableWriter
from emulators.sqlserver.engine.rows.constraints import check_references, check_rows
from emulators.sqlserver.engine.rows.output import Change, output_events
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.store.catalog import Default, TableEntry
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.engine.store.table_locks import Change as Changing
from emulators.sqlserver.results import (
    Cancelled,
    Column,
    Event,
    ResultSet,
    ReturnStatus,
    RowCount,
    SqlError,
    StatementDone,
    Value,
)
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.errors import computed_column, invalid_column, invalid_object, unsupported
from emulators.sqlserver.tsql.planning.plans import Plan
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.values.conversions.steps import Converter
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import INT


class Writing:
    """DML of one session."""

    def __init__(self, session: StatementSession, run: Callable[[st.Statement], Iterator[Event]]) -> None:
        """`run` runs the EXEC of an INSERT ... EXEC."""
        self.session = session
        self._run = run

    def done(self, count: int) -> Event:
        self.session.row_count = count
        return StatementDone() if self.session.settings.nocount else RowCount(count)

    def entry(self, name: st.Name) -> tuple[StoredDatabase, TableEntry]:
        database = SessionNames(self.session).database(name)
        schema = name[-2] if len(name) > 1 and name[-2] else "dbo"
        entry = database.catalog_for(self.session).find(schema, name[-1])
        if entry is None:
            if database.catalog_for(self.session).view(schema, name[-1]) is not None:
                raise unsupported("a change of rows through a view")
            raise invalid_object(".".join(name))
        return database, entry

    def entry_now(self, name: st.Name, database: StoredDatabase, entry: TableEntry) -> TableEntry:
        """The table again: it may have changed while the statement waited for its turn to write."""
        known = database.catalog_for(self.session).tables.get(entry.table.object_id)
        return entry if known is entry else self.entry(name)[1]

    def default_value(self, default: Default, column: TableColumn) -> Value:
        kind, value = self.session.runner.value(default.value)
        return None if value is None else converter(kind, column.type, 0, True)(value)

    # -- INSERT

    def insert(self, statement: st.Insert) -> Iterator[Event]:
        if statement.execute is not None:
            yield from self._insert_results(statement, statement.execute)
            return
        database, entry = self.entry(statement.table)
        plans = [self.session.runner.plan(statement.query)] if statement.query is not None else []
        change: Changing = "TABLE" if statement.whole else "INSERT"
        with self.session.writing(database, [database.storage(entry.table)], change, plans) as link:
            entry = self.entry_now(statement.table, database, entry)
            writer = TableWriter(database, entry, link, "INSERT")
            rows = self._rows(statement, writer, self.builder(writer, statement.columns))
            writer.insert(rows)
            self.check(writer)
            self.remember_identity(writer, rows)
            events: list[Event] = []
            if statement.output is not None:
                changes: list[Change] = [(row, None, "INSERT", ()) for row in rows]
                events = self.output(statement.output, entry, changes, (), "INSERT")
        yield from events
        yield self.done(len(rows))

    def _insert_results(self, statement: st.Insert, execute: st.Statement) -> Iterator[Event]:
        """INSERT ... EXEC: every result set of the procedure or text."""
        self.entry(statement.table)
        found: list[tuple[Sequence[Column], list[Row]]] = []
        for event in self._run(execute):
            if isinstance(event, ResultSet):
                found.append((event.columns, [tuple(row) for row in event.rows]))
            elif not isinstance(event, RowCount | StatementDone | ReturnStatus):
                yield event
            if self.session.cancelled():
                raise Cancelled
        for columns, rows in found:
            self.store(statement.table, statement.columns, columns, rows, statement.whole)
        yield self.done(sum(len(rows) for _, rows in found))

    def builder(self, writer: TableWriter, columns: Sequence[str] | None) -> RowBuilder:
        entry = writer.entry
        explicit = self.session.settings.identity_insert == (writer.database.name, entry.table.object_id)
        return RowBuilder(writer, columns, explicit, self.default_of(entry))

    def default_of(self, entry: TableEntry) -> Callable[[Default], Value]:
        """The value of one of the table's defaults, for its column."""
        return lambda default: self._table_default(entry, default)

    def remember_identity(self, writer: TableWriter, rows: Sequence[Row]) -> None:
        if writer.identity >= 0 and rows:
            self.session.identity = str(rows[-1][writer.identity])

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
        builder.check_count(len(statement.rows[0]), statement.columns is not None)
        if builder.explicit_identity:
            at = builder.targets.index(writer.identity)
            if any(isinstance(cell, tuple) and cell[1] is None for cell in (row[at] for row in statement.rows)):
                raise errors.no_explicit_identity()
        if not any(isinstance(cell, st.Default) for row in statement.rows for cell in row):
            return builder.finished(self._cells(statement.rows, builder.targets, writer))
        rows: list[Row] = []
        for row in statement.rows:
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
            return self.session.runner.literal(*cell)
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
        found = self.all_rows(source, runner.execute(query, plan, source))
        steps = [writer.coerce(at, column.type) for at, column in zip(builder.targets, plan.columns, strict=True)]
        return builder.finished(writer.converted(found, steps, builder.targets))

    # -- UPDATE and DELETE

    def _stored(self, name: st.Name) -> list[str]:
        database, entry = self.entry(name)
        return [database.storage(entry.table)]

    def _found(
        self, query: Fragment, target: st.Name, has_from: bool
    ) -> tuple[StoredDatabase, st.Name, list[str], Sequence[Plan]]:
        """The database to lock, the table that the target means by its full name and in the storage, and what the statement reads."""
        if target[-1][:1] in ("#", "@"):
            return SessionNames(self.session).database(target), target, self._stored(target), ()
        plan, source = self.session.runner.plan_rows(query, target, has_from)
        database = self.session.find(source.database)
        assert database is not None
        name = (
            (source.schema, source.name)
            if source.name[:1] in ("#", "@")
            else (source.database, source.schema, source.name)
        )
        return database, name, [source.storage] if source.storage else self._stored(name), (plan,)

    def update(self, statement: st.Update) -> Iterator[Event]:
        database, table, stored, plans = self._found(statement.query, statement.target, statement.has_from)
        with self.session.writing(database, stored, "TABLE" if statement.whole else "CHANGE", plans) as link:
            _, entry = self.entry(table)
            writer = TableWriter(database, entry, link, "UPDATE")
            changed = self.set_columns([name for name, _ in statement.columns], writer)
            plan, _ = self.session.runner.plan_rows(statement.query, statement.target, statement.has_from)
            found, given = self._touched(statement.query, plan, link, len(entry.table.columns))
            steps: list[Converter] = [
                (lambda value: value) if how == "DEFAULT" else writer.coerce(at, column.type)
                for at, column, (_, how) in zip(changed, plan.columns, statement.columns, strict=False)
            ]
            size = len(changed)
            values = writer.converted([row[:size] for row in given], steps, changed)
            after = writer.update(found, self._after(statement, entry, found, values, changed), changed)
            self.check(writer)
            events: list[Event] = []
            if statement.output is not None:
                pairs = zip(after, found, given, strict=True)
                changes: list[Change] = [(new, old, "UPDATE", row[size:]) for new, (_, old), row in pairs]
                outside = [column.type for column in plan.columns[size:]]
                events = self.output(statement.output, entry, changes, outside, "UPDATE")
        yield from events
        yield self.done(len(found))

    def set_columns(self, given: Sequence[str], writer: TableWriter) -> list[int]:
        """Positions of the columns that SET names. Raises 207, 264, 271, 272, 8102."""
        fold = writer.entry.fold
        names = {fold(column.name): index for index, column in enumerate(writer.entry.table.columns)}
        changed: list[int] = []
        for name in given:
            position = names.get(fold(name))
            if position is None:
                raise invalid_column(name)
            if position == writer.identity:
                raise SqlError(8102, f"Cannot update identity column '{name}'.", 16)
            if position == writer.rowversion:
                raise SqlError(272, "Cannot update a timestamp column.", 16)
            if writer.entry.table.columns[position].computed:
                raise computed_column(name)
            if position in changed:
                text = (
                    f"The column name '{name}' is specified more than once in the SET clause or column list of an INSERT. "
                    "A column cannot be assigned more than one value in the same clause."
                )
                raise SqlError(264, text, 16)
            changed.append(position)
        return changed

    def set_defaults(
        self, columns: Sequence[tuple[str, str]], changed: Sequence[int], entry: TableEntry
    ) -> dict[int, Value]:
        """Position -> value of the columns that are set to DEFAULT."""
        defaults: dict[int, Value] = {}
        for at, (_, how) in zip(changed, columns, strict=True):
            if how == "DEFAULT":
                default = entry.defaults.get(entry.table.columns[at].column_id)
                defaults[at] = self._table_default(entry, default) if default else None
        return defaults

    def _after(
        self,
        statement: st.Update,
        entry: TableEntry,
        found: Sequence[tuple[int, Row]],
        values: Sequence[Row],
        changed: Sequence[int],
    ) -> list[Row]:
        defaults = self.set_defaults(statement.columns, changed, entry)
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
        seen: dict[int, tuple[Row, Row]] = {}
        for row in self.all_rows(link, runner.execute(query, plan, link)):
            seen.setdefault(int(str(row[0])), (tuple(row[1 : width + 1]), tuple(row[width + 1 :])))
        return [(number, pair[0]) for number, pair in seen.items()], [pair[1] for pair in seen.values()]

    def delete(self, statement: st.Delete) -> Iterator[Event]:
        database, table, stored, plans = self._found(statement.query, statement.target, statement.has_from)
        with self.session.writing(database, stored, "TABLE" if statement.whole else "CHANGE", plans) as link:
            _, entry = self.entry(table)
            writer = TableWriter(database, entry, link, "DELETE")
            plan, _ = self.session.runner.plan_rows(statement.query, statement.target, statement.has_from)
            found, given = self._touched(statement.query, plan, link, len(entry.table.columns))
            writer.delete(found)
            self.check(writer)
            events: list[Event] = []
            if statement.output is not None:
                pairs = zip(found, given, strict=True)
                changes: list[Change] = [(None, old, "DELETE", row[1:]) for (_, old), row in pairs]
                outside = [column.type for column in plan.columns[1:]]
                events = self.output(statement.output, entry, changes, outside, "DELETE")
        yield from events
        yield self.done(len(found))

    # -- what all statements share

    def output(
        self,
        output: st.Output | None,
        entry: TableEntry,
        changes: Sequence[Change],
        outside: Sequence[SqlType],
        statement: str,
    ) -> list[Event]:
        return list(output_events(self.session, output, entry, changes, outside, self.store, statement))

    def store(
        self,
        table: st.Name,
        columns: tuple[str, ...] | None,
        given: Sequence[Column],
        rows: list[Row],
        whole: bool = False,
    ) -> None:
        """INSERT of rows that are there already: OUTPUT ... INTO, INSERT ... EXEC, SELECT ... INTO."""
        database, entry = self.entry(table)
        change: Changing = "TABLE" if whole else "INSERT"
        with self.session.writing(database, [database.storage(entry.table)], change) as link:
            _, entry = self.entry(table)
            writer = TableWriter(database, entry, link, "INSERT")
            builder = self.builder(writer, columns)
            builder.check_count(len(given), columns is not None)
            steps = [writer.coerce(at, column.type) for at, column in zip(builder.targets, given, strict=True)]
            finished = builder.finished(writer.converted(rows, steps, builder.targets))
            writer.insert(finished)
            self.check(writer)
            self.remember_identity(writer, finished)

    def check(self, writer: TableWriter) -> None:
        """CHECK and FOREIGN KEY, when the statement has changed all of its rows. Raises 547."""
        if writer.constrained and (writer.new_from is not None or writer.numbers):
            check_rows(self.session, writer)
        if writer.keys_gone:
            check_references(self.session, writer)

    def all_rows(self, link: Link, cursor: sqlite3.Cursor) -> list[Row]:
        return link.rest(cursor, self.session.cancelled)
