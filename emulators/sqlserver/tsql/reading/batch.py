"""Splits a batch into statements, and reads those that hold others: IF, WHILE, BEGIN ... END, TRY and CATCH.

T-SQL needs no semicolons, so a statement ends where a word that only begins statements stands outside parentheses and CASE.
Every other kind of statement has its parser in a module of its own; what a query means is not decided here.
Source: https://learn.microsoft.com/sql/t-sql/language-elements/control-of-flow
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.ddl import parse_definition
from emulators.sqlserver.tsql.reading.dml.clauses import NOTHING, cte_prefix
from emulators.sqlserver.tsql.reading.dml.insert import parse_insert
from emulators.sqlserver.tsql.reading.dml.merge import parse_merge
from emulators.sqlserver.tsql.reading.dml.select import parse_select
from emulators.sqlserver.tsql.reading.dml.update import parse_delete, parse_update
from emulators.sqlserver.tsql.reading.execute import parse_call, parse_execute
from emulators.sqlserver.tsql.reading.expressions import parse_condition
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.refused_syntax import check_functions, refused_statement
from emulators.sqlserver.tsql.reading.security import parse_security
from emulators.sqlserver.tsql.reading.simple import (
    parse_kill,
    parse_print,
    parse_raiserror,
    parse_reconfigure,
    parse_throw,
    parse_use,
    parse_waitfor,
)
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.syntax import check
from emulators.sqlserver.tsql.reading.tokens import END, QUOTED, WORD, tokenize
from emulators.sqlserver.tsql.reading.transactions import parse_commit, parse_rollback, parse_save, transaction_name
from emulators.sqlserver.tsql.reading.variables import parse_declare, parse_set

_CACHED_LENGTH = 4000
"""Longer batches carry their data along and never come again."""


def parse_batch(sql: str, *, parameterised: bool = False) -> tuple[Statement, ...]:
    """The statements of a batch. Raises SqlError 102, 105, 113, 156, 50001.

    `parameterised`: its values came beside it, so it comes again with others: it is kept for longer than a text that has its values in it, as
    SQL Server keeps prepared plans for longer than plans of batches. https://learn.microsoft.com/sql/relational-databases/query-processing-architecture-guide
    """
    if len(sql) > _CACHED_LENGTH:
        return _parse(sql)
    return _cached_with_parameters(sql) if parameterised else _cached(sql)


@lru_cache(maxsize=1024)
def _cached(sql: str) -> tuple[Statement, ...]:
    return _parse(sql)


@lru_cache(maxsize=16384)
def _cached_with_parameters(sql: str) -> tuple[Statement, ...]:
    return _parse(sql)


def _parse(sql: str) -> tuple[Statement, ...]:
    reader = Reader(sql, tokenize(sql))
    check_functions(reader.tokens)
    body: list[Statement] = []
    while True:
        while reader.accept(";"):
            pass
        if reader.here.kind == END:
            return tuple(body)
        body.append(statement(reader))
        check(body[-1])


def statement(reader: Reader) -> Statement:
    """One statement; the reader stands on its first token."""
    token = reader.here
    refusal = refused_statement(token, reader.peek())
    if refusal is not None:
        raise refusal
    found = parse_security(reader)
    if found is not None:
        return found
    parser = _PARSERS.get(token.key)
    if parser is not None:
        return parser(reader)
    if reader.position == 0 and token.kind in (WORD, QUOTED):
        return parse_call(reader, bare=True)
    raise reader.unexpected()


def _if(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("IF")
    condition = parse_condition(reader)
    then = statement(reader)
    mark = reader.position
    while reader.accept(";"):
        pass
    if reader.accept("ELSE"):
        return st.If(line, condition, then, statement(reader))
    reader.position = mark
    return st.If(line, condition, then, None)


def _while(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("WHILE")
    return st.While(line, parse_condition(reader), statement(reader))


def _begin(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("BEGIN")
    if reader.accept("DISTRIBUTED"):
        raise unsupported("BEGIN DISTRIBUTED TRANSACTION")
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        return st.BeginTransaction(line, transaction_name(reader))
    if reader.accept("TRY"):
        body = _block(reader, line, "TRY")
        while reader.accept(";"):
            pass
        reader.expect("BEGIN", "CATCH")
        return st.TryCatch(line, body, _block(reader, reader.line(), "CATCH"))
    return _block(reader, line, "")


def _block(reader: Reader, line: int, closing: str) -> st.Block:
    body: list[Statement] = []
    while True:
        while reader.accept(";"):
            pass
        if reader.accept("END"):
            if closing:
                reader.expect(closing)
            elif not body:
                raise reader.unexpected(reader.tokens[reader.position - 1])
            return st.Block(line, tuple(body))
        if reader.here.kind == END:
            raise reader.unexpected()
        body.append(statement(reader))


def _return(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    tokens = reader.until((";",), STARTS)
    return st.Return(line, reader.fragment(tokens) if tokens else None)


def _break(reader: Reader) -> Statement:
    line = reader.line()
    return st.Break(line) if reader.advance().key == "BREAK" else st.Continue(line)


def _with(reader: Reader) -> Statement:
    begin = reader.position
    prefix = cte_prefix(reader)
    parser = _AFTER_WITH.get(reader.here.key)
    if parser is not None:
        return parser(reader, prefix)
    reader.position = begin
    return parse_select(reader)


def _insert(reader: Reader) -> Statement:
    return parse_insert(reader, NOTHING, parse_execute)


def _merge(reader: Reader) -> Statement:
    return parse_merge(reader, NOTHING)


_AFTER_WITH: dict[str, Callable[[Reader, Fragment], Statement]] = {
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
}


_PARSERS: dict[str, Callable[[Reader], Statement]] = {
    "SELECT": parse_select,
    "(": parse_select,
    "WITH": _with,
    "INSERT": _insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": _merge,
    "CREATE": parse_definition,
    "ALTER": parse_definition,
    "DROP": parse_definition,
    "TRUNCATE": parse_definition,
    "IF": _if,
    "WHILE": _while,
    "BEGIN": _begin,
    "COMMIT": parse_commit,
    "ROLLBACK": parse_rollback,
    "SAVE": parse_save,
    "DECLARE": parse_declare,
    "SET": parse_set,
    "PRINT": parse_print,
    "USE": parse_use,
    "EXEC": parse_execute,
    "EXECUTE": parse_execute,
    "THROW": parse_throw,
    "RAISERROR": parse_raiserror,
    "WAITFOR": parse_waitfor,
    "KILL": parse_kill,
    "RECONFIGURE": parse_reconfigure,
    "RETURN": _return,
    "BREAK": _break,
    "CONTINUE": _break,
}
