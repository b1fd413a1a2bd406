"""Runs the statements of a batch in order, and decides what an error ends: the statement, the batch, or the transaction as well.

Which errors end what follows SQL Server's behaviour as documented for SET XACT_ABORT and TRY...CATCH:
https://learn.microsoft.com/sql/t-sql/statements/set-xact-abort-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from emulators.sqlserver.engine.queries.binding import Binding
from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.row_stream import RowStream
from emulators.sqlserver.engine.rows.bulk import BulkLoading
from emulators.sqlserver.engine.rows.merging import Merging
from emulators.sqlserver.engine.rows.writing import Writing
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.statements.administration import Administration
from emulators.sqlserver.engine.statements.configuring import reconfigure
from emulators.sqlserver.engine.statements.ends import BINDING, GO_ON, PROCEDURE_ERRORS, ROLL_BACK, TERMINATED
from emulators.sqlserver.engine.statements.options import set_option
from emulators.sqlserver.engine.statements.principals import Principals
from emulators.sqlserver.engine.statements.procedures import Procedures
from emulators.sqlserver.engine.statements.raising import Thrown, print_text, raise_error, refuse, throw
from emulators.sqlserver.engine.statements.required_rights import check_statement
from emulators.sqlserver.engine.statements.variables import Variables
from emulators.sqlserver.engine.store.links import StaleName
from emulators.sqlserver.results import (
    Cancelled,
    Column,
    ErrorMessage,
    Event,
    Info,
    Parameter,
    ResultSet,
    SqlError,
    TransactionChanged,
    Value,
)
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import definitions as df
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.batch import parse_batch
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.values.types import collation_shown


def _message(error: SqlError, line: int) -> ErrorMessage:
    return ErrorMessage(error.number, error.message, error.severity, error.state, error.procedure, line)


def _opens_transaction(statement: st.Statement) -> bool:
    """SET IMPLICIT_TRANSACTIONS: https://learn.microsoft.com/sql/t-sql/statements/set-implicit-transactions-transact-sql"""
    if isinstance(statement, st.Select):
        return " from " in f" {statement.query.text.lower()} ".replace("\n", " ").replace("\t", " ")
    return isinstance(statement, st.Insert | st.Update | st.Delete | st.Merge | df.Definition) and not isinstance(
        statement, df.CreateDatabase | df.AlterDatabase | df.DropDatabase
    )


_DEEPEST = 33
"""A batch, and 32 levels of EXEC in it."""


class _BreakLoop(Exception):
    pass


class _ContinueLoop(Exception):
    pass


class _ReturnBatch(Exception):
    pass


class Interpreter:
    """Statement by statement, for one session."""

    def __init__(self, session: StatementSession) -> None:
        self.session = session
        self._writing = Writing(session, self.run)
        self._procedures = Procedures(session, self.nested, partial(self.nested, parameterised=True))
        self._bulk = BulkLoading(self._writing)
        self._variables = Variables(session, lambda table: self._handlers[df.CreateTable](table))
        self._binding = Binding(session, self._variables.declare_table)
        self._tries = 0
        self._level = 0
        self._unbound: dict[int, int] = {}
        """Names that were not found: identity of the error -> the level of nesting at which it was raised."""
        self._handlers: dict[type[st.Statement], Callable[[Any], Iterator[Event]]] = {
            st.Select: self._select,
            st.Insert: self._writing.insert,
            st.InsertBulk: self._bulk.begin,
            st.Update: self._writing.update,
            st.Delete: self._writing.delete,
            st.Merge: Merging(self._writing).merge,
            st.Declare: self._variables.declare,
            st.DeclareTable: self._variables.declare_table,
            st.SetVariable: self._variables.set,
            st.SetOption: partial(set_option, session),
            st.Print: partial(print_text, session),
            st.Execute: self._procedures.execute,
            st.ExecuteText: self._procedures.execute_text,
            st.BeginTransaction: lambda s: session.transaction.begin(s.name),
            st.CommitTransaction: lambda s: session.transaction.commit(),
            st.RollbackTransaction: lambda s: session.transaction.rollback(s.name),
            st.SaveTransaction: lambda s: session.transaction.save(s.name),
            st.Throw: partial(throw, session),
            st.RaiseError: partial(raise_error, session),
            st.Refused: refuse,
            st.Reconfigure: partial(reconfigure, session),
            **Administration(session, self._writing.default_value).handlers(),
            **Principals(session).handlers(),
        }
        self._flow: dict[type[st.Statement], Callable[[Any], Iterator[Event]]] = {
            st.Block: self._block,
            st.Declared: self._variables.declared,
            st.If: self._if,
            st.While: self._while,
            st.TryCatch: self._try,
        }

    # -- batches

    def batch(self, sql: str, scoped: bool = False) -> Iterator[Event]:
        """`scoped`: sp_executesql, whose temporary tables end with it."""
        session = self.session
        session.settle()
        self._tries = self._level = 0
        self._unbound = {}
        self._bulk.forget()
        try:
            if scoped:
                with session.scope():
                    yield from self.nested(sql, parameterised=True)
                    session.settle()
            else:
                yield from self.nested(sql)
        except _ReturnBatch:
            pass
        except (_BreakLoop, _ContinueLoop):
            raise errors.keyword_syntax("BREAK") from None
        except SqlError:
            yield from self._undo_doomed()
            raise
        finally:
            session.caught = None
        yield from self._end()

    def _undo_doomed(self) -> Iterator[Event]:
        """It does not outlive its batch."""
        if self.session.transaction.doomed:
            yield TransactionChanged("rollback", self.session.transaction.undo())

    def _end(self) -> Iterator[Event]:
        """The end of a batch, or of a call. Raises 3998."""
        if self.session.transaction.doomed:
            yield from self._undo_doomed()
            raise SqlError(
                3998,
                "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
                16,
            )

    def nested(self, sql: str, *, parameterised: bool = False) -> Iterator[Event]:
        """A batch, or the text of EXEC and sp_executesql. `parameterised`: with values beside it."""
        self._level += 1
        try:
            if self._level > _DEEPEST:
                raise errors.nested_calls()
            statements = parse_batch(sql, parameterised=parameterised)
            try:
                self._binding.bind(sql, statements)
            except SqlError as error:
                self._unbound.setdefault(id(error), self._level)
                raise
            for statement in statements:
                yield from self.run(statement)
        except RecursionError:
            yield from self._failed(errors.nested_too_deeply(), 1)
        finally:
            self._level -= 1

    def call(self, name: str, parameters: Sequence[Parameter]) -> Iterator[Event]:
        self.session.settle()
        self.session.statement_time = self.session.engine.clock()
        try:
            yield from self._procedures.call_by_rpc(name, parameters)
        except SqlError as error:
            yield from self._undo_doomed()
            yield from self._failed(error, 1)
        yield from self._end()

    def bulk_load(self, columns: Sequence[Column], rows: Sequence[Sequence[Value]]) -> Iterator[Event]:
        self.session.settle()
        try:
            yield from self._bulk.load(columns, rows)
        except SqlError as error:
            yield from self._failed(error, 1, writes=True)

    def run(self, statement: st.Statement) -> Iterator[Event]:
        session = self.session
        if session.settings.fmtonly and not isinstance(statement, st.SetOption | st.Execute | st.ExecuteText):
            yield from self._described(statement)
            return
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
        if session.settings.implicit_transactions and not session.transaction.count and _opens_transaction(statement):
            yield from session.transaction.begin()
        try:
            check_statement(session, statement)
            yield from self._handlers[type(statement)](statement)
            session.settle()
        except SqlError as error:
            yield from self._failed(
                error, statement.line, isinstance(statement, st.Insert | st.Update | st.Delete | st.Merge)
            )
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
        # RAISERROR does not heed XACT_ABORT, THROW does.
        raised = error.number == 50000 and not isinstance(error, Thrown)
        abort = (session.settings.xact_abort and not raised) or error.number in ROLL_BACK
        if self._tries:
            if abort and session.transaction.count:
                session.transaction.doomed = True
            if error.number in BINDING:
                self._unbound.setdefault(id(error), self._level)
            raise error
        if error.earlier is not None:
            yield _message(error.earlier, error.line)
        if abort:
            if session.transaction.count:
                yield TransactionChanged("rollback", session.transaction.undo())
            raise error
        if not isinstance(error, Thrown) and (error.number in GO_ON or error.number in PROCEDURE_ERRORS):
            yield _message(error, error.line)
            if error.number in TERMINATED and writes:
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
        self.session.last_error = 0
        if holds:
            yield from self.run(statement.then)
        elif statement.otherwise is not None:
            yield from self.run(statement.otherwise)

    def _while(self, statement: st.While) -> Iterator[Event]:
        while self._holds(statement.condition):
            if self.session.cancelled():
                raise Cancelled
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
            if self._unbound.get(id(error)) == self._level:
                raise  # https://learn.microsoft.com/sql/t-sql/language-elements/try-catch-transact-sql : not at the same level
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
            yield from self._variables.assign(statement)
            return
        if statement.into:
            yield from self._select_into(statement)
            return
        plan, link, cursor = session.runner.open(statement.query, sent=True)
        session.stream = RowStream(link, cursor, session.cancelled, plan.later)
        if self._tries:
            rows = list(session.stream.rows())
            session.settle()
            yield ResultSet(plan.columns, iter(rows))
            return
        yield ResultSet(plan.columns, session.stream.rows())

    def _described(self, statement: st.Statement) -> Iterator[Event]:
        """SET FMTONLY ON: what a statement's columns are, and nothing is run.

        https://learn.microsoft.com/sql/t-sql/statements/set-fmtonly-transact-sql"""
        if isinstance(statement, st.Declare):  # a variable is known, and has no value
            self.session.variables.update((name, (kind, None)) for name, kind, _ in statement.variables)
        elif isinstance(statement, st.DeclareTable):
            yield from self._variables.declare_table(statement)
        elif isinstance(statement, st.Block) and all(
            isinstance(inner, st.Declare | st.DeclareTable) for inner in statement.body
        ):
            yield from self._block(statement)
        elif type(statement) in self._flow:
            raise errors.unsupported("SET FMTONLY ON with IF, WHILE or blocks")
        elif isinstance(statement, st.Insert | st.Update | st.Delete | st.Merge) and statement.output is not None:
            raise errors.unsupported("SET FMTONLY ON with OUTPUT")
        elif isinstance(statement, st.Select) and not (statement.assigns or statement.into):
            check_statement(self.session, statement)
            yield ResultSet(self.session.runner.plan(statement.query, sent=True).columns, iter(()))

    def _select_into(self, statement: st.Select) -> Iterator[Event]:
        """Makes the table and fills it, as one statement."""
        session = self.session
        plan, link, cursor = session.runner.open(statement.query)
        rows = self._writing.all_rows(link, cursor)
        if any(not column.name for column in plan.columns):
            text = (
                "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a name. For "
                'other statements, look for empty alias names. Aliases defined as "" or [] are not allowed. Change the alias to '
                "a valid name."
            )
            raise SqlError(1038, text, 15, 5)
        specs = tuple(
            df.ColumnSpec(c.name, c.type, c.nullable, collation=collation_shown(c.type) or "") for c in plan.columns
        )
        with session.writing(SessionNames(session).database(statement.into)):
            list(self._handlers[df.CreateTable](df.CreateTable(statement.line, "", statement.into, specs, ())))
            self._writing.store(statement.into, None, plan.columns, rows)
        yield self._writing.done(len(rows))
