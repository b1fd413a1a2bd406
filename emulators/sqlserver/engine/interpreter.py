"""Runs the statements of a batch in order, and decides what an error ends: the statement, the batch, or the transaction as well.

Which errors end what follows SQL Server's behaviour as documented for SET XACT_ABORT and TRY...CATCH:
https://learn.microsoft.com/sql/t-sql/statements/set-xact-abort-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from emulators.sqlserver.engine.definitions import Definer
from emulators.sqlserver.engine.links import StaleName
from emulators.sqlserver.engine.names import SessionNames
from emulators.sqlserver.engine.procedures import Procedures
from emulators.sqlserver.engine.runner import RowStream
from emulators.sqlserver.engine.writing import Writing
from emulators.sqlserver.results import (
    Column,
    DatabaseChanged,
    ErrorMessage,
    Event,
    Info,
    Parameter,
    ResultSet,
    SqlError,
    StatementDone,
    TransactionChanged,
)
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import definitions as df
from emulators.sqlserver.tsql import errors, temporal
from emulators.sqlserver.tsql import statements as st
from emulators.sqlserver.tsql.batch import parse_batch
from emulators.sqlserver.tsql.convert import Truncation, converter
from emulators.sqlserver.tsql.fragments import Fragment

if TYPE_CHECKING:
    from emulators.sqlserver.engine.session import SqlSession

_GO_ON = frozenset(
    (
        201,
        220,
        512,
        515,
        544,
        545,
        547,
        1222,
        2601,
        2627,
        2628,
        2812,
        3701,
        3902,
        3903,
        4701,
        8102,
        8115,
        8134,
        8144,
        8145,
        8152,
        50000,
    )
)
"""Errors that end the statement only, XACT_ABORT being OFF."""
_PROCEDURE_ERRORS = range(22800, 23000)
"""Change Data Capture reports these with RAISERROR, which ends nothing by itself."""
_ROLL_BACK = frozenset((241, 242, 245, 248, 8114, 8169, 3960))
"""Conversion errors end the batch and the transaction."""
_TERMINATED = frozenset((515, 547, 2601, 2627, 2628, 8115, 8134, 8152, 220))
_HARMLESS = frozenset(
    (
        "ARITHABORT",
        "ARITHIGNORE",
        "ANSI_DEFAULTS",
        "ANSI_NULL_DFLT_ON",
        "ANSI_PADDING",
        "ANSI_WARNINGS",
        "CURSOR_CLOSE_ON_COMMIT",
        "TEXTSIZE",
        "NUMERIC_ROUNDABORT",
        "DEADLOCK_PRIORITY",
        "IO",
        "TIME",
        "QUERY_GOVERNOR_COST_LIMIT",
        "ANSI_NULL_DFLT_OFF",
    )
)
_FIXED = {
    "ANSI_NULLS": "ON",
    "CONCAT_NULL_YIELDS_NULL": "ON",
    "QUOTED_IDENTIFIER": "ON",
    "IMPLICIT_TRANSACTIONS": "OFF",
    "FMTONLY": "OFF",
    "NOEXEC": "OFF",
    "PARSEONLY": "OFF",
    "SHOWPLAN_ALL": "OFF",
    "ROWCOUNT": "0",
    "DATEFORMAT": "MDY",
    "DATEFIRST": "7",
    "LANGUAGE": "US_ENGLISH",
    "REMOTE_PROC_TRANSACTIONS": "OFF",
}


class _BreakLoop(Exception):
    pass


class _ContinueLoop(Exception):
    pass


class _ReturnBatch(Exception):
    pass


class Interpreter:
    """Statement by statement, for one session."""

    def __init__(self, session: SqlSession) -> None:
        self.session = session
        self._writing = Writing(session)
        self._procedures = Procedures(session, self.nested)
        self._tries = 0
        self._handlers: dict[type[st.Statement], Callable[[Any], Iterator[Event]]] = {
            st.Select: self._select,
            st.Insert: self._writing.insert,
            st.Update: self._writing.update,
            st.Delete: self._writing.delete,
            st.Declare: self._declare,
            st.SetVariable: self._set_variable,
            st.SetOption: self._set_option,
            st.Print: self._print,
            st.Use: self._use,
            st.Execute: self._procedures.execute,
            st.ExecuteText: self._procedures.execute_text,
            st.BeginTransaction: lambda s: session.begin_transaction(s.name),
            st.CommitTransaction: lambda s: session.commit_transaction(),
            st.RollbackTransaction: lambda s: session.rollback_transaction(s.name),
            st.SaveTransaction: lambda s: session.save_transaction(s.name),
            st.Throw: self._throw,
            st.RaiseError: self._raise_error,
            st.WaitFor: self._wait,
            df.CreateDatabase: self._create_database,
            df.AlterDatabase: self._alter_database,
            df.DropDatabase: self._drop_database,
        }
        self._flow: dict[type[st.Statement], Callable[[Any], Iterator[Event]]] = {
            st.Block: self._block,
            st.If: self._if,
            st.While: self._while,
            st.TryCatch: self._try,
        }

    # -- batches

    def batch(self, sql: str) -> Iterator[Event]:
        session = self.session
        session.settle()
        self._tries = 0
        try:
            yield from self.nested(sql)
        except _ReturnBatch:
            pass
        except (_BreakLoop, _ContinueLoop):
            raise errors.keyword_syntax("BREAK") from None
        finally:
            session.caught = None
        if session.doomed:
            ended = session.undo()
            yield TransactionChanged("rollback", ended)
            raise SqlError(
                3998,
                "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
                16,
            )

    def nested(self, sql: str) -> Iterator[Event]:
        """A batch, or the text of EXEC and sp_executesql."""
        for statement in parse_batch(sql):
            yield from self.run(statement)

    def call(self, name: str, parameters: Sequence[Parameter]) -> Iterator[Event]:
        self.session.settle()
        self.session.statement_time = self.session.engine.clock()
        try:
            yield from self._procedures.call_by_rpc(name, parameters)
        except SqlError as error:
            yield from self._failed(error, 1)

    def run(self, statement: st.Statement) -> Iterator[Event]:
        session = self.session
        flow = self._flow.get(type(statement))
        if flow is not None:
            yield from flow(statement)
            return
        if isinstance(statement, st.Break):
            raise _BreakLoop
        if isinstance(statement, st.Continue):
            raise _ContinueLoop
        if isinstance(statement, st.Return):
            raise _ReturnBatch
        session.settle()
        session.statement_time = session.engine.clock()
        handler = self._handlers.get(type(statement), self._define)
        try:
            yield from handler(statement)
            session.settle()
        except SqlError as error:
            yield from self._failed(error, statement.line, isinstance(statement, st.Insert | st.Update | st.Delete))
            return
        except StaleName:
            yield from self._failed(errors.unsupported("a statement whose tables change while it runs"), statement.line)
            return
        if not isinstance(statement, st.Throw):
            session.last_error = 0

    def _failed(self, error: SqlError, line: int, writes: bool = False) -> Iterator[Event]:
        session = self.session
        session.last_error = error.number
        session.row_count = 0
        error.line = line if error.line == 1 else error.line
        abort = (session.settings.xact_abort and error.number != 50000) or error.number in _ROLL_BACK
        if self._tries:
            if abort and session.transactions:
                session.doomed = True
            raise error
        if abort:
            if session.transactions:
                yield TransactionChanged("rollback", session.undo())
            raise error
        if not isinstance(error, _Thrown) and (error.number in _GO_ON or error.number in _PROCEDURE_ERRORS):
            yield ErrorMessage(error.number, error.message, error.severity, error.state, error.procedure, error.line)
            if error.number in _TERMINATED and writes:
                yield Info(3621, "The statement has been terminated.", 0, 0, "", error.line)
            return
        raise error

    # -- control flow

    def _block(self, statement: st.Block) -> Iterator[Event]:
        for inner in statement.body:
            yield from self.run(inner)

    def _holds(self, condition: Fragment) -> bool:
        self.session.settle()
        self.session.statement_time = self.session.engine.clock()
        return self.session.runner.value(condition)[1] == 1

    def _if(self, statement: st.If) -> Iterator[Event]:
        try:
            holds = self._holds(statement.condition)
        except SqlError as error:
            yield from self._failed(error, statement.line)
            return
        if holds:
            yield from self.run(statement.then)
        elif statement.otherwise is not None:
            yield from self.run(statement.otherwise)

    def _while(self, statement: st.While) -> Iterator[Event]:
        while self._holds(statement.condition):
            if self.session.cancelled():
                return
            try:
                yield from self.run(statement.body)
            except _BreakLoop:
                return
            except _ContinueLoop:
                continue

    def _try(self, statement: st.TryCatch) -> Iterator[Event]:
        session = self.session
        self._tries += 1
        try:
            yield from self.run(statement.body)
        except SqlError as error:
            caught = error
        else:
            return
        finally:
            self._tries -= 1
        before, session.caught = session.caught, caught
        try:
            yield from self.run(statement.handler)
        finally:
            session.caught = before

    # -- queries and variables

    def _select(self, statement: st.Select) -> Iterator[Event]:
        session = self.session
        if statement.assigns:
            yield from self._assign(statement)
            return
        plan, link, cursor = session.runner.open(statement.query, statement.locks)
        session.stream = RowStream(link, cursor, session.cancelled)
        if self._tries:
            rows = list(session.stream.rows())
            session.settle()
            yield ResultSet(plan.columns, iter(rows))
            return
        yield ResultSet(plan.columns, session.stream.rows())

    def _assign(self, statement: st.Select) -> Iterator[Event]:
        """The last row wins; no row leaves the variables alone."""
        session = self.session
        plan, link, cursor = session.runner.open(statement.query, statement.locks)
        stream = RowStream(link, cursor, session.cancelled)
        last = None
        for last in stream.rows():  # noqa: B007 - the last row is what counts
            pass
        session.row_count = stream.settle()
        if last is not None:
            for name, column, value in zip(statement.assigns, plan.columns, last, strict=True):
                self._store(name, column, value)
        yield StatementDone()

    def _store(self, name: str, column: Column, value: Any) -> None:
        known = self.session.variables.get(name)
        if known is None:
            raise errors.undeclared_variable(name)
        stored = None if value is None else converter(column.type, known[0])(value)
        self.session.variables[name] = (known[0], stored)

    def _declare(self, statement: st.Declare) -> Iterator[Event]:
        for name, kind, value in statement.variables:
            self.session.variables[name] = (kind, None)
            if value is not None:
                plan, row = self.session.runner.row(value)
                self._store(name, plan.columns[0], row[0])
        return iter(())

    def _set_variable(self, statement: st.SetVariable) -> Iterator[Event]:
        plan, row = self.session.runner.row(statement.value)
        self._store(statement.name, plan.columns[0], row[0])
        yield StatementDone()

    def _print(self, statement: st.Print) -> Iterator[Event]:
        kind, value = self.session.runner.value(statement.value)
        text = "" if value is None else str(converter(kind, _PRINTED)(value))
        yield Info(0, text, 0, 1, "", statement.line)

    def _use(self, statement: st.Use) -> Iterator[Event]:
        session = self.session
        found = session.engine.find(statement.database)
        if found is None:
            raise errors.unknown_database(statement.database)
        old = session.database
        session.use(found)
        yield DatabaseChanged(found.name, old)
        yield Info(5701, f"Changed database context to '{found.name}'.", 0, 2, "", statement.line)
        yield StatementDone()

    def _set_option(self, statement: st.SetOption) -> Iterator[Event]:
        session = self.session
        option, value = statement.option, statement.value.upper()
        settings = session.settings
        if option == "NOCOUNT":
            session.settings = replace(settings, nocount=value == "ON")
        elif option == "XACT_ABORT":
            session.settings = replace(settings, xact_abort=value == "ON")
        elif option == "LOCK_TIMEOUT":
            session.settings = replace(settings, lock_timeout=int(value))
        elif option == "ISOLATION":
            session.settings = replace(settings, isolation=value)
        elif option == "IDENTITY_INSERT":
            session.settings = replace(settings, identity_insert=self._identity_insert(statement))
        elif option not in _HARMLESS and _FIXED.get(option) != value:
            raise errors.unsupported(f"SET {option} {statement.value}")
        yield StatementDone()

    def _identity_insert(self, statement: st.SetOption) -> tuple[str, int] | None:
        database = SessionNames(self.session).database(statement.table)
        schema = statement.table[-2] if len(statement.table) > 1 else "dbo"
        entry = database.catalog_for(self.session).find(schema, statement.table[-1])
        shown = ".".join(statement.table)
        if entry is None:
            raise SqlError(
                1088, f'Cannot find the object "{shown}" because it does not exist or you do not have permissions.', 16
            )
        if entry.identity is None:
            text = f"Table '{shown}' does not have the identity property. Cannot perform SET operation."
            raise SqlError(8106, text, 16)
        return (database.name, entry.table.object_id) if statement.value == "ON" else None

    # -- errors and waiting

    def _throw(self, statement: st.Throw) -> Iterator[Event]:
        session = self.session
        if statement.arguments is None:
            if session.caught is None:
                text = (
                    "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement "
                    "inside a CATCH block, or add error parameters to the THROW statement."
                )
                raise SqlError(10704, text, 15)
            error = session.caught
        else:
            _, row = session.runner.row(statement.arguments)
            if len(row) != 3:
                raise errors.syntax("THROW")
            error = SqlError(int(str(row[0])), str(row[1]), 16, int(str(row[2])), "", statement.line)
        session.last_error = error.number
        if not self._tries and session.settings.xact_abort and session.transactions:
            yield TransactionChanged("rollback", session.undo())
        raise _Thrown(error)

    def _raise_error(self, statement: st.RaiseError) -> Iterator[Event]:
        _, row = self.session.runner.row(statement.arguments)
        if len(row) < 3:
            raise errors.syntax(")")
        text, severity, state = row[0], int(str(row[1])), int(str(row[2]))
        if len(row) > 3:
            raise errors.unsupported("RAISERROR with substitution arguments")
        if not isinstance(text, str):
            raise errors.unsupported("RAISERROR with a message number")
        if severity <= 10:
            yield Info(50000, text, severity, state, "", statement.line)
            return
        if severity > 19:
            raise errors.unsupported(f"RAISERROR with severity {severity}")
        raise SqlError(50000, text, severity, state, "", statement.line)

    def _wait(self, statement: st.WaitFor) -> Iterator[Event]:
        value = self.session.runner.value(statement.delay)[1]
        ticks = temporal.parse(str(value)).ticks
        self.session.engine.wait(ticks / temporal.TICKS, self.session.cancelled)
        yield StatementDone()

    # -- definitions

    def _define(self, statement: Any) -> Iterator[Event]:
        session = self.session
        names = [*(statement.tables if isinstance(statement, df.DropTable) else [getattr(statement, "table", ())])]
        database = SessionNames(session).database(names[0])
        if isinstance(statement, df.CreateIndex) and not statement.unique:
            yield StatementDone()
            return
        try:
            with session.writing(database):
                definer = Definer(database, self._writing.default_value)
                _DEFINERS[type(statement)](definer, statement)
        except Truncation as cut:
            raise errors.unsupported(f"a change of type that would cut {cut.value!r}") from None
        yield StatementDone()

    def _create_database(self, statement: df.CreateDatabase) -> Iterator[Event]:
        if self.session.transactions:
            raise SqlError(226, "CREATE DATABASE statement not allowed within multi-statement transaction.", 16, 6)
        self.session.engine.create_database(statement.name)
        yield StatementDone()

    def _alter_database(self, statement: df.AlterDatabase) -> Iterator[Event]:
        engine = self.session.engine
        database = engine.find(statement.name or self.session.database)
        if database is None:
            text = (
                f"User does not have permission to alter database '{statement.name}', the database does not exist, or the "
                "database is not in a state that allows access checks."
            )
            raise SqlError(5011, text, 14, 5)
        if statement.option == "ALLOW_SNAPSHOT_ISOLATION":
            database.snapshot_allowed = statement.value == "ON"
        elif statement.option not in _DATABASE_OPTIONS:
            raise errors.unsupported(f"ALTER DATABASE ... SET {statement.option}")
        yield StatementDone()

    def _drop_database(self, statement: df.DropDatabase) -> Iterator[Event]:
        for name in statement.names:
            self.session.engine.drop_database(name, statement.if_exists, self.session)
        yield StatementDone()


_DATABASE_OPTIONS = frozenset(
    ("RECOVERY", "SINGLE_USER", "MULTI_USER", "AUTO_CLOSE", "AUTO_SHRINK", "COMPATIBILITY_LEVEL")
)
_PRINTED = SqlType("nvarchar", 4000)
_DEFINERS: Mapping[type, Callable[[Definer, Any], None]] = {
    df.CreateTable: Definer.create_table,
    df.AddColumns: Definer.add_columns,
    df.DropParts: Definer.drop_parts,
    df.AlterColumn: Definer.alter_column,
    df.DropTable: Definer.drop_table,
    df.TruncateTable: Definer.truncate,
    df.CreateIndex: Definer.create_index,
    df.DropIndex: Definer.drop_index,
    df.CreateSchema: Definer.create_schema,
    df.DropSchema: Definer.drop_schema,
}


class _Thrown(SqlError):
    """THROW always ends the batch, whatever the number."""

    def __init__(self, error: SqlError) -> None:
        super().__init__(error.number, error.message, error.severity, error.state, error.procedure, error.line)
