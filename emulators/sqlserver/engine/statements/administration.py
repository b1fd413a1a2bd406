"""What a session does beside reading and writing rows: definitions, databases, USE, KILL and WAITFOR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from emulators.sqlserver.collation import SERVER_DEFAULT
from emulators.sqlserver.engine.definitions.definer import Definer
from emulators.sqlserver.engine.definitions.defining import DefaultValue, schema_of
from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.statements.database_options import alter_database
from emulators.sqlserver.engine.store.database import StoredDatabase
from emulators.sqlserver.engine.store.table_locks import Change
from emulators.sqlserver.results import DatabaseChanged, Event, Info, SqlError, StatementDone
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.values import temporal
from emulators.sqlserver.tsql.values.conversions.steps import Truncation
from emulators.sqlserver.tsql.values.types import collation_named

_DAY = 86_400.0
_DEFINERS: Mapping[type, Callable[[Definer, Any], None]] = {
    df.CreateTable: Definer.create_table,
    df.AddColumns: Definer.add_columns,
    df.DropParts: Definer.drop_parts,
    df.AlterColumn: Definer.alter_column,
    df.DropTable: Definer.drop_table,
    df.TruncateTable: Definer.truncate,
    df.CreateIndex: Definer.create_index,
    df.DropIndex: Definer.drop_index,
    df.CreateView: Definer.create_view,
    df.DropView: Definer.drop_view,
    df.CreateSchema: Definer.create_schema,
    df.DropSchema: Definer.drop_schema,
}

_OF_TABLES = (df.AddColumns, df.DropParts, df.AlterColumn, df.DropTable, df.TruncateTable)
"""What locks a table's definition, so that nobody reads it: https://learn.microsoft.com/sql/t-sql/statements/truncate-table-transact-sql"""


def _object(statement: Any) -> st.Name:
    """The name of what a definition is about, which says the database; () where it has none."""
    if isinstance(statement, df.DropTable):
        return statement.tables[0]
    if isinstance(statement, df.DropView):
        return statement.names[0]
    if isinstance(statement, df.CreateView):
        return statement.name
    name: st.Name = getattr(statement, "table", ())
    return name


class Administration:
    """These statements of one session. `value_of` computes a default's value."""

    def __init__(self, session: StatementSession, value_of: DefaultValue) -> None:
        self.session = session
        self._value_of = value_of

    def handlers(self) -> dict[type[st.Statement], Callable[[Any], Iterator[Event]]]:
        return {
            **dict.fromkeys(_DEFINERS, self._define),
            df.CreateDatabase: self._create_database,
            df.AlterDatabase: partial(alter_database, self.session),
            df.DropDatabase: self._drop_database,
            st.Use: self._use,
            st.Kill: self._kill,
            st.WaitFor: self._wait,
        }

    def _define(self, statement: Any) -> Iterator[Event]:
        session = self.session
        database = SessionNames(session).database(_object(statement))
        try:
            change: Change = "TABLE" if isinstance(statement, _OF_TABLES) else "CHANGE"
            with session.writing(database, self._defined(database, statement), change):
                _DEFINERS[type(statement)](Definer(session, database, self._value_of), statement)
        except Truncation as cut:
            raise errors.unsupported(f"a change of type that would cut {cut.value!r}") from None
        yield StatementDone()

    def _defined(self, database: StoredDatabase, statement: Any) -> list[str]:
        """The tables that a definition is about and that are there, by their names in the storage."""
        catalog = database.catalog_for(self.session)
        names = statement.tables if isinstance(statement, df.DropTable) else [_object(statement)]
        found = [catalog.find(schema_of(name), name[-1]) for name in names if name]
        return [database.storage(entry.table) for entry in found if entry is not None]

    def _create_database(self, statement: df.CreateDatabase) -> Iterator[Event]:
        self._outside_transaction("CREATE DATABASE")
        found = collation_named(statement.collation or SERVER_DEFAULT, "")
        self.session.engine.create_database(statement.name, found)
        yield StatementDone()

    def _outside_transaction(self, statement: str) -> None:
        if self.session.transaction.count:
            raise SqlError(226, f"{statement} statement not allowed within multi-statement transaction.", 16, 6)

    def _drop_database(self, statement: df.DropDatabase) -> Iterator[Event]:
        self._outside_transaction("DROP DATABASE")
        for name in statement.names:
            self.session.engine.drop_database(name, statement.if_exists, self.session)
        yield StatementDone()

    def _use(self, statement: st.Use) -> Iterator[Event]:
        session = self.session
        found = session.engine.find(statement.database)
        if found is None:
            raise errors.unknown_database(statement.database)
        old = session.current()
        session.engine.enter(found, session)
        yield DatabaseChanged(found.name, old.name, found.collation, old.collation)
        yield Info(5701, f"Changed database context to '{found.name}'.", 0, 2, "", statement.line)
        yield StatementDone()

    def _kill(self, statement: st.Kill) -> Iterator[Event]:
        if statement.session_id == self.session.session_id:
            raise SqlError(6104, "Cannot use KILL to kill your own process.", 16)
        self._outside_transaction("KILL")
        self.session.engine.kill(statement.session_id)
        yield StatementDone()

    def _wait(self, statement: st.WaitFor) -> Iterator[Event]:
        session = self.session
        value = session.runner.value(statement.delay)[1]
        seconds = temporal.parse(str(value)).ticks / temporal.TICKS
        if statement.until:
            now = session.engine.clock()
            seconds = (seconds - (now.hour * 3600 + now.minute * 60 + now.second + now.microsecond / 1e6)) % _DAY
        session.engine.wait(seconds, session.cancelled)
        yield StatementDone()
