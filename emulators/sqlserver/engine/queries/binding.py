"""Binds the names of a batch before any statement of it runs, as SQL Server compiles it: a column that a table does not have fails
all of it, a table that is not there fails when its statement is reached.

Knows which errors are of that kind; finds names through the session's runner, whose plans are kept for the statements themselves.
Stops at USE: what follows is about another database. Refuses nothing that a statement would not refuse by itself.
Source: https://learn.microsoft.com/sql/relational-databases/stored-procedures/create-a-stored-procedure (deferred name resolution)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlglot import exp

from emulators.sqlserver.engine.queries.names import SessionNames
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import declared_twice, invalid_column, nested_too_deeply, undeclared_variable
from emulators.sqlserver.tsql.planning.plans import ELSEWHERE, Source
from emulators.sqlserver.tsql.planning.relations import name_parts
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.statements import Name, Statement
from emulators.sqlserver.tsql.reading.trees import parse_query

_COMPILED = frozenset((107, 137, 156, 207, 209, 1087, 4104, 7202))
_NEVER_DEFERRED = frozenset((1087, 7202))
_KEPT, _LONGEST = 256, 4000
"""Batches that are remembered, and how long they may be: longer ones carry their data along and never come again."""


class Binding:
    """The batches of one session. `_bound`: those that were found good, under the catalogs that they were held against.

    `declare` makes a table variable: nothing of it waits for the statement that declares it."""

    def __init__(self, session: StatementSession, declare: Callable[[st.DeclareTable], object]) -> None:
        self._session = session
        self._declare = declare
        self._bound: set[object] = set()

    def bind(self, sql: str, statements: Sequence[Statement]) -> None:
        """Raises SqlError 107, 134, 137, 156, 207, 209, 1087, 4104. A single statement fails by itself, before it does anything."""
        session = self._session
        flow = _FLOW if not session.variables else (*_FLOW, st.Declare)
        if not statements or (len(statements) == 1 and type(statements[0]) not in flow):
            return
        database = session.current()
        version = database.catalog_for(session).version
        key = (sql, session.rights_key(), database.database_id, version, session.private_versions(), *session.variables)
        if key in self._bound:
            return
        before = dict(session.variables)
        try:
            _Walk(session, self._declare).all(statements)
        except SqlError as error:
            session.last_error = error.number
            raise
        except RecursionError:
            raise nested_too_deeply() from None
        finally:
            session.variables = before
        if len(sql) <= _LONGEST:
            if len(self._bound) >= _KEPT:
                self._bound.clear()
            self._bound.add(key)


class _Walk:
    """One pass over a batch. `_ended`: USE was met, behind which names mean something else. `_compiled`: the errors that count."""

    def __init__(self, session: StatementSession, declare: Callable[[st.DeclareTable], object]) -> None:
        self._session = session
        self._declare_table = declare
        self._ended = False
        self._compiled = _COMPILED

    def all(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self._one(statement)

    def _one(self, statement: Statement) -> None:
        handler = _HANDLERS.get(type(statement))
        if handler is not None and not self._ended:
            handler(self, statement)

    def _try(self, line: int, fragment: Fragment, bind: Callable[[], object]) -> None:
        try:
            bind()
        except SqlError as error:
            found = self._undeclared(fragment) or error
            deferred = found.number not in _NEVER_DEFERRED and self._is_deferred(fragment)
            if found.number not in self._compiled or deferred:
                return
            found.line = line if found.line == 1 else found.line
            raise found from None

    def _undeclared(self, fragment: Fragment) -> SqlError | None:
        """1087, if it reads a table variable that is not declared, whatever else is wrong with it."""
        names = SessionNames(self._session)
        try:
            for table in parse_query(fragment.text).find_all(exp.Table):
                if isinstance(table.this, exp.Parameter):
                    names.source(name_parts(table))
        except SqlError as error:
            return error if error.number == 1087 else None
        return None

    def _is_deferred(self, fragment: Fragment) -> bool:
        """Whether a table of the query is not there: then none of its names is bound yet."""
        names = SessionNames(self._session)
        try:
            tree = parse_query(fragment.text)
            own = {names.fold(found.alias) for found in tree.find_all(exp.CTE)}
            for table in tree.find_all(exp.Table):
                parts = name_parts(table)
                if len(parts) == 1 and names.fold(parts[0]) in own:
                    continue
                if isinstance(table.this, exp.Anonymous) or (names.source(parts) is None and names.view(parts) is None):
                    return True
        except SqlError:
            return True
        return False

    def _query(self, line: int, fragment: Fragment | None, sent: bool = False) -> None:
        if fragment is not None:
            self._try(line, fragment, lambda: self._session.runner.plan(fragment, sent=sent))

    def _columns(self, line: int, table: Name, columns: Iterable[str]) -> None:
        """Of the table that a statement writes to. Raises 207, 1087."""
        try:
            source = SessionNames(self._session).source(table)
            if source is not None and (not source.view or source.view.startswith(ELSEWHERE)):
                self._known(source, columns)
        except SqlError as error:
            if error.number not in (207, 1087) or error.number not in self._compiled:
                return
            error.line = line
            raise

    def _output(self, line: int, output: st.Output | None) -> None:
        if output is not None and output.into:
            self._columns(line, output.into, output.columns or ())

    def _known(self, source: Source, columns: Iterable[str]) -> None:
        fold = self._session.current().fold
        known = {fold(column.name) for column in source.columns}
        for column in columns:
            if fold(column) not in known:
                raise invalid_column(column)

    def _assigned(self, line: int, names: Iterable[str]) -> None:
        """Names of variables, "" where there is none. Raises 137."""
        for name in names:
            if name and not name.startswith("@@") and name not in self._session.variables and 137 in self._compiled:
                error = undeclared_variable(name)
                error.line = line
                raise error

    # -- the statements

    def _block(self, statement: st.Block) -> None:
        self.all(statement.body)

    def _if(self, statement: st.If) -> None:
        self._query(statement.line, statement.condition)
        self._one(statement.then)
        if statement.otherwise is not None:
            self._one(statement.otherwise)

    def _while(self, statement: st.While) -> None:
        self._query(statement.line, statement.condition)
        self._one(statement.body)

    def _tried(self, statement: st.TryCatch) -> None:
        self.all((*statement.body.body, *statement.handler.body))

    def _use(self, statement: st.Use) -> None:
        self._ended = True

    def _refused(self, statement: st.Refused) -> None:
        """What it would have declared is not known."""
        self._compiled -= {137, 1087}

    def _declare(self, statement: st.Declare) -> None:
        for name, kind, value in statement.variables:
            self._query(statement.line, value)
            if name in self._session.variables:
                error = declared_twice(name)
                error.line = statement.line
                raise error
            self._session.variables[name] = (kind, None)

    def _table(self, statement: st.DeclareTable) -> None:
        with suppress(SqlError):  # fails again where it is reached
            self._declare_table(statement)

    def _set(self, statement: st.SetVariable) -> None:
        self._assigned(statement.line, (statement.name,))
        self._query(statement.line, statement.value)

    def _print(self, statement: st.Print) -> None:
        self._query(statement.line, statement.value)

    def _select(self, statement: st.Select) -> None:
        self._assigned(statement.line, statement.assigns)
        self._query(statement.line, statement.query, not statement.assigns and not statement.into)

    def _insert(self, statement: st.Insert) -> None:
        self._columns(statement.line, statement.table, (*(statement.columns or ()), *_changed(statement.output)))
        self._output(statement.line, statement.output)
        self._query(statement.line, statement.query)
        for cell in {cell for row in statement.rows or () for cell in row if isinstance(cell, Fragment)}:
            self._query(statement.line, cell)
        if statement.execute is not None:
            self._one(statement.execute)

    def _update(self, statement: st.Update | st.Delete) -> None:
        query = statement.query
        self._output(statement.line, statement.output)

        def bind() -> None:
            _, source = self._session.runner.plan_rows(query, statement.target, statement.has_from)
            named = [name for name, _ in statement.columns] if isinstance(statement, st.Update) else []
            self._known(source, (*named, *_changed(statement.output)))

        self._try(statement.line, query, bind)

    def _merge(self, statement: st.Merge) -> None:
        of_target = [query for query in (statement.matched, statement.orphaned) if query is not None]
        queries = of_target if statement.unmatched is None else [*of_target, statement.unmatched]
        if any(self._is_deferred(query) for query in queries):
            return
        for query in of_target:
            self._try(statement.line, query, partial(self._session.runner.plan_rows, query, statement.target, True))
        self._query(statement.line, statement.unmatched)
        named = [name for clause in statement.clauses for name, _ in clause.columns if name]
        self._columns(statement.line, statement.table, (*named, *_changed(statement.output)))

    def _execute(self, statement: st.Execute) -> None:
        """The variables that are named: what the procedure is, is found when it is reached."""
        named = (part for argument in statement.arguments for part in (argument.variable, argument.output))
        self._assigned(statement.line, (statement.result, *named))

    def _raised(self, statement: st.Throw | st.RaiseError) -> None:
        self._query(statement.line, statement.arguments)

    def _waitfor(self, statement: st.WaitFor) -> None:
        self._query(statement.line, statement.delay)

    def _text(self, statement: st.ExecuteText) -> None:
        self._query(statement.line, statement.text)

    def _return(self, statement: st.Return) -> None:
        self._query(statement.line, statement.value)


def _changed(output: st.Output | None) -> list[str]:
    """The columns of the statement's own table that OUTPUT names."""
    columns = parse_query(output.query.text).find_all(exp.Column) if output is not None else ()
    return [
        column.name
        for column in columns
        if column.table.lower() in ("inserted", "deleted") and not isinstance(column.this, exp.Star)
    ]


_FLOW = (st.Block, st.If, st.While, st.TryCatch)
_HANDLERS: dict[type[Statement], Callable[[_Walk, Any], None]] = {
    st.Block: _Walk._block,
    st.If: _Walk._if,
    st.While: _Walk._while,
    st.TryCatch: _Walk._tried,
    st.Use: _Walk._use,
    st.Refused: _Walk._refused,
    st.Declare: _Walk._declare,
    st.DeclareTable: _Walk._table,
    st.SetVariable: _Walk._set,
    st.Print: _Walk._print,
    st.Select: _Walk._select,
    st.Insert: _Walk._insert,
    st.Update: _Walk._update,
    st.Delete: _Walk._update,
    st.Merge: _Walk._merge,
    st.Execute: _Walk._execute,
    st.ExecuteText: _Walk._text,
    st.Throw: _Walk._raised,
    st.RaiseError: _Walk._raised,
    st.Return: _Walk._return,
    st.WaitFor: _Walk._waitfor,
}
