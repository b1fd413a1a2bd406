"""Splits a batch into statements, and reads those that hold others: IF, WHILE, BEGIN ... END, TRY and CATCH.

T-SQL needs no semicolons, so a statement ends where a word that only begins statements stands outside parentheses and CASE.
Every other kind of statement has its parser in a module of its own; what a query means is not decided here.
Source: https://learn.microsoft.com/sql/t-sql/language-elements/control-of-flow
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import UNSUPPORTED, nested_too_deeply, unsupported
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
from emulators.sqlserver.tsql.reading.refused_syntax import refused, refused_functions, refused_statement
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
from emulators.sqlserver.tsql.reading.starts import CURSOR_FETCH, LABEL, STARTS
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.syntax import checked
from emulators.sqlserver.tsql.reading.tokens import END, QUOTED, WORD, Token, tokenize
from emulators.sqlserver.tsql.reading.transactions import parse_commit, parse_rollback, parse_save, transaction_name
from emulators.sqlserver.tsql.reading.variables import parse_declare, parse_set

_DEEPEST = 128
"""How many BEGIN, IF, WHILE and TRY may stand in one another: here the interpreter's stack is the limit, on a real server memory."""
_CACHED_LENGTH = 4000
"""Longer batches carry their data along and never come again."""


def parse_batch(sql: str, *, parameterised: bool = False) -> tuple[Statement, ...]:
    """The statements of a batch; what is not supported is one that fails when it is reached. Raises SqlError 102, 105, 111, 113, 134, 156,
    191.

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
    try:
        return _read(sql)
    except RecursionError:
        raise nested_too_deeply() from None


def _read(sql: str) -> tuple[Statement, ...]:
    reader = Reader(sql, _told_apart(sql, tokenize(sql)))
    reader.refused = refused_functions(reader.tokens)
    body: list[Statement] = []
    while True:
        while reader.accept(";"):
            pass
        if reader.here.kind == END:
            return tuple(body)
        line, flow, known = reader.line(), reader.here.key in _FLOW, len(reader.declared)
        found = checked(statement(reader))
        if flow and len(reader.declared) > known:
            body.append(st.Declared(line, tuple(reader.declared[known:])))
        body.append(found)


def _told_apart(sql: str, tokens: list[Token]) -> list[Token]:
    """With `name:` as one token that begins a statement, and FETCH of a cursor as another word than that of OFFSET."""
    if ":" not in sql and "FETCH" not in sql.upper():
        return tokens
    for at in [at for at, token in enumerate(tokens) if token.key in (":", "FETCH")][::-1]:
        if tokens[at].key == "FETCH" and tokens[at - 1].key not in ("ROW", "ROWS"):
            tokens[at] = tokens[at]._replace(key=CURSOR_FETCH)
        elif tokens[at].key == ":" and at and tokens[at - 1].kind == WORD:
            tokens[at - 1 : at + 1] = [tokens[at - 1]._replace(key=LABEL, end=tokens[at].end)]
    return tokens


def _label(reader: Reader) -> Statement:
    """Does nothing: GOTO is refused where it is reached."""
    line = reader.line()
    reader.advance()
    return st.Block(line, ())


def _line(reader: Reader, position: int) -> int:
    return reader.sql.count("\n", 0, reader.tokens[position].start) + 1


def statement(reader: Reader) -> Statement:
    """One statement; the reader stands on its first token."""
    begin, flow, depth = reader.position, reader.here.key in _FLOW, reader.depth
    reader.depth += flow
    if reader.depth > _DEEPEST:
        raise nested_too_deeply()
    try:
        found = _statement(reader)
    except SqlError as error:
        refusal = error if error.number == UNSUPPORTED or flow else _refusal(reader, begin, _behind(reader)) or error
        if refusal.number != UNSUPPORTED:
            raise
        reader.depth = depth
        return refused(reader, begin, refusal)
    reader.depth = depth
    called = None if flow else _refusal(reader, begin, reader.position)
    return found if called is None else st.Refused(_line(reader, begin), called.message)


def _refusal(reader: Reader, begin: int, end: int) -> SqlError | None:
    """The refusal of a function that is called between these tokens."""
    if not reader.refused:
        return None
    found = next((index for index in reader.refused if begin <= index < end), None)
    return None if found is None else unsupported(f"function {reader.tokens[found].key}")


def _behind(reader: Reader) -> int:
    """Some tokens more than were read: what a parser stumbles over stands behind the call that it does not know."""
    return reader.position + 1


def _statement(reader: Reader) -> Statement:
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
    begin = reader.position
    reader.expect("IF")
    condition = parse_condition(reader)
    refusal = _refusal(reader, begin, reader.position)
    then = statement(reader)
    otherwise = None
    mark = reader.position
    while reader.accept(";"):
        pass
    if reader.accept("ELSE"):
        otherwise = statement(reader)
    else:
        reader.position = mark
    return st.If(line, condition, then, otherwise) if refusal is None else st.Refused(line, refusal.message)


def _while(reader: Reader) -> Statement:
    line = reader.line()
    begin = reader.position
    reader.expect("WHILE")
    condition = parse_condition(reader)
    refusal = _refusal(reader, begin, reader.position)
    body = statement(reader)
    return st.While(line, condition, body) if refusal is None else st.Refused(line, refusal.message)


def _begin(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("BEGIN")
    if reader.accept("DISTRIBUTED"):
        raise unsupported("BEGIN DISTRIBUTED TRANSACTION")
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        name = transaction_name(reader)
        if reader.at("WITH", "MARK"):
            raise unsupported("BEGIN TRANSACTION ... WITH MARK")
        return st.BeginTransaction(line, name)
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
        if not reader.at("END", "CONVERSATION") and reader.accept("END"):
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


_FLOW = frozenset(("IF", "WHILE", "BEGIN"))
"""They hold statements, which see to their own refusals."""
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
    LABEL: _label,
}
