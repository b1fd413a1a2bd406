"""DECLARE, SET and SELECT @x = ... of one session: its variables and table variables, which live as long as their batch.

Refuses an assignment to a variable that is not declared (137); two declarations of one were refused when the batch was read.
Source: https://learn.microsoft.com/sql/t-sql/language-elements/declare-local-variable-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from emulators.sqlserver.engine.row_stream import RowStream
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.results import Column, Event, SqlError, StatementDone, Value
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.values.convert import converter


class Variables:
    """`create`: CREATE TABLE, which a table variable begins with."""

    def __init__(self, session: StatementSession, create: Callable[[df.CreateTable], Iterator[Event]]) -> None:
        self.session = session
        self._create = create

    def assign(self, statement: st.Select) -> Iterator[Event]:
        """The last row wins; no row leaves the variables alone."""
        session = self.session
        plan, link, cursor = session.runner.open(statement.query)
        stream = RowStream(link, cursor, session.cancelled)
        last = None
        for last in stream.rows():  # noqa: B007 - the last row is what counts
            pass
        session.row_count = stream.settle()
        if last is not None:
            for name, column, value in zip(statement.assigns, plan.columns, last, strict=True):
                self._store(name, column, value)
        yield StatementDone()

    def _store(self, name: str, column: Column, value: Value) -> None:
        known = self.session.variables.get(name)
        if known is None:
            raise errors.undeclared_variable(name)
        stored = None if value is None else converter(column.type, known[0])(value)
        self.session.variables[name] = (known[0], stored)

    def declared(self, statement: st.Declared) -> Iterator[Event]:
        for name, kind in statement.variables:
            if not isinstance(kind, st.DeclareTable):
                self.session.variables[name] = (kind, None)
                continue
            with suppress(SqlError):  # fails again where it is reached
                yield from self.declare_table(kind)

    def declare(self, statement: st.Declare) -> Iterator[Event]:
        for name, kind, value in statement.variables:
            self.session.variables.setdefault(name, (kind, None))  # a loop declares it once
            if value is not None:
                plan, row = self.session.runner.row(value)
                self._store(name, plan.columns[0], row[0])
        return iter(())

    def declare_table(self, statement: st.DeclareTable) -> Iterator[Event]:
        definition = statement.definition
        assert isinstance(definition, df.CreateTable)
        database = self.session.private("@")
        if database.catalog_for(self.session).find("dbo", definition.table[-1]) is None:  # a loop declares it once
            for _ in self._create(definition):
                pass
        return iter(())

    def set(self, statement: st.SetVariable) -> Iterator[Event]:
        plan, row = self.session.runner.row(statement.value)
        self._store(statement.name, plan.columns[0], row[0])
        yield StatementDone()
