"""Splits a batch into statements: control flow, variables, transactions, and the text of queries and DML.

T-SQL needs no semicolons, so a statement ends where a word that only begins statements stands outside parentheses and CASE.
What a query means is not decided here. Source: https://learn.microsoft.com/sql/t-sql/language-elements/control-of-flow
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.ddl import parse_definition, parse_table_variable
from emulators.sqlserver.tsql.reading.dml.clauses import NOTHING, cte_prefix
from emulators.sqlserver.tsql.reading.dml.insert import parse_insert
from emulators.sqlserver.tsql.reading.dml.merge import parse_merge
from emulators.sqlserver.tsql.reading.dml.select import parse_select
from emulators.sqlserver.tsql.reading.dml.update import parse_delete, parse_update
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.refused_syntax import check_functions, refused_statement
from emulators.sqlserver.tsql.reading.security import parse_security
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.syntax import check
from emulators.sqlserver.tsql.reading.tokens import (
    END,
    NSTRING,
    NUMBER,
    QUOTED,
    STRING,
    VARIABLE,
    WORD,
    string_value,
    tokenize,
)

_CACHED_LENGTH = 4000
"""Longer batches carry their data along and never come again."""


def parse_batch(sql: str) -> tuple[Statement, ...]:
    """The statements of a batch. Raises SqlError 102, 105, 113, 156, 50001."""
    return _cached(sql) if len(sql) <= _CACHED_LENGTH else _parse(sql)


@lru_cache(maxsize=1024)
def _cached(sql: str) -> tuple[Statement, ...]:
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
        return _execute(reader, bare=True)
    raise reader.unexpected()


def _expression(reader: Reader, *stops: str) -> Fragment:
    return reader.fragment(reader.until((";", *stops), STARTS))


def _condition(reader: Reader) -> Fragment:
    tokens = reader.until((";",), STARTS)
    if not tokens:
        raise reader.unexpected()
    inner = reader.fragment(tokens, "SELECT CASE WHEN ")
    return Fragment(inner.text + " THEN 1 ELSE 0 END", inner.lifted, inner.variables)


def _if(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("IF")
    condition = _condition(reader)
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
    return st.While(line, _condition(reader), statement(reader))


def _begin(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("BEGIN")
    if reader.accept("DISTRIBUTED"):
        raise unsupported("BEGIN DISTRIBUTED TRANSACTION")
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        return st.BeginTransaction(line, _transaction_name(reader))
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


def _transaction_name(reader: Reader) -> str:
    token = reader.here
    if token.kind == VARIABLE:
        raise unsupported("a transaction name in a variable")
    if token.kind == QUOTED or (token.kind == WORD and token.key not in STARTS and token.key not in ("ELSE", "WITH")):
        return reader.name()
    return ""


def _commit(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        _transaction_name(reader)
    else:
        reader.accept("WORK")
    return st.CommitTransaction(line)


def _rollback(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        return st.RollbackTransaction(line, _transaction_name(reader))
    reader.accept("WORK")
    return st.RollbackTransaction(line)


def _save(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if not (reader.accept("TRAN") or reader.accept("TRANSACTION")):
        raise reader.unexpected()
    name = _transaction_name(reader)
    if not name:
        raise reader.unexpected()
    return st.SaveTransaction(line, name)


def _declare(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("DECLARE")
    if reader.peek().key in ("CURSOR", "SCROLL", "INSENSITIVE"):
        raise unsupported("DECLARE of a cursor")
    variables = []
    while True:
        name = reader.variable()
        reader.accept("AS")
        if reader.accept("TABLE"):
            return st.DeclareTable(line, parse_table_variable(reader, name))
        if reader.at("CURSOR"):
            raise unsupported("DECLARE of a cursor variable")
        kind = reader.type()
        value = _expression(reader, ",") if reader.accept("=") else None
        variables.append((name, kind, value))
        if not reader.accept(","):
            return st.Declare(line, tuple(variables))


_COMPOUND = {"+=": "+", "-=": "-", "*=": "*", "/=": "/", "%=": "%", "&=": "&", "|=": "|", "^=": "^"}
_ISOLATION = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SNAPSHOT", "SERIALIZABLE")


def _set(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("SET")
    if reader.here.kind == VARIABLE:
        name = reader.variable()
        operator = reader.advance().key
        value = _expression(reader)
        if operator in _COMPOUND:
            text = f"SELECT {name} {_COMPOUND[operator]} ({value.text.removeprefix('SELECT ')})"
            value = Fragment(text, value.lifted, value.variables | {name})
        elif operator != "=":
            raise reader.unexpected()
        return st.SetVariable(line, name, value)
    if reader.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        level = reader.advance().key
        if level in ("READ", "REPEATABLE"):
            level += " " + reader.advance().key
        if level not in _ISOLATION:
            raise reader.unexpected(reader.peek(-1))
        return st.SetOption(line, "ISOLATION", level)
    if reader.accept("IDENTITY_INSERT"):
        table = reader.qualified()
        return st.SetOption(line, "IDENTITY_INSERT", reader.advance().key, table)
    return _set_option(reader, line)


def _set_option(reader: Reader, line: int) -> Statement:
    options = [reader.advance()]
    while reader.accept(","):
        options.append(reader.advance())
    if options[0].key == "STATISTICS":
        options = [reader.advance()]
    sign = "-" if reader.accept("-") else ""
    token = reader.advance()
    if token.kind in (STRING, NSTRING):
        value = string_value(token)
    elif token.kind == VARIABLE:
        raise unsupported(f"SET {options[0].key} with a variable")
    else:
        value = sign + (token.key or token.text)
    body = tuple(st.SetOption(line, option.key, value) for option in options)
    return body[0] if len(body) == 1 else st.Block(line, body)


def _print(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("PRINT")
    return st.Print(line, _expression(reader))


def _use(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("USE")
    return st.Use(line, reader.name())


def _execute_keyword(reader: Reader) -> Statement:
    return _execute(reader, bare=False)


def _execute(reader: Reader, bare: bool) -> Statement:
    line = reader.line()
    if not bare:
        reader.advance()
    if reader.at("("):
        reader.advance()
        text = reader.fragment(reader.until((")",)))
        reader.expect(")")
        return st.ExecuteText(line, text)
    result = ""
    if reader.here.kind == VARIABLE:
        result = reader.variable()
        reader.expect("=")
    procedure = reader.qualified()
    arguments: list[st.Argument] = []
    if reader.here.kind != END and not reader.at(";") and reader.here.key not in STARTS and not reader.at("WITH"):
        arguments.append(_argument(reader))
        while reader.accept(","):
            arguments.append(_argument(reader))
    if reader.accept("WITH"):
        reader.expect("RECOMPILE")
    return st.Execute(line, procedure, tuple(arguments), result)


def _argument(reader: Reader) -> st.Argument:
    name = ""
    if reader.here.kind == VARIABLE and reader.peek().key == "=":
        name = reader.variable()
        reader.expect("=")
    if reader.accept("DEFAULT"):
        return st.Argument(name, None)
    token = reader.here
    sign = [reader.advance()] if reader.at("-") or reader.at("+") else []
    token = reader.advance()
    if token.kind == END or (token.key and token.kind != WORD):
        raise reader.unexpected(token)
    if token.kind in (WORD, QUOTED) and token.key != "NULL":
        value = Fragment("SELECT N'" + token.text.strip('[]"').replace("'", "''") + "'")
    else:
        value = reader.fragment([*sign, token])
    output = token.text.lower() if reader.accept("OUTPUT") or reader.accept("OUT") else ""
    return st.Argument(name, value, output)


def _throw(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    tokens = reader.until((";",), STARTS)
    return st.Throw(line, reader.fragment(tokens) if tokens else None)


def _raiserror(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    reader.expect("(")
    arguments = reader.fragment(reader.until((")",)))
    reader.expect(")")
    logged = False
    if reader.accept("WITH"):
        while reader.here.key in ("NOWAIT", "LOG", "SETERROR", ","):
            logged = reader.advance().key == "LOG" or logged
    return st.RaiseError(line, arguments, logged)


def _waitfor(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    until = reader.accept("TIME")
    if not until and not reader.accept("DELAY"):
        raise unsupported(f"WAITFOR {reader.here.text}")
    return st.WaitFor(line, _expression(reader), until)


def _kill(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.here.kind != NUMBER:
        raise unsupported(f"KILL {reader.here.text}")
    number = reader.integer()
    if reader.accept("WITH"):
        raise unsupported("KILL ... WITH STATUSONLY")
    return st.Kill(line, number)


def _reconfigure(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.accept("WITH"):
        reader.expect("OVERRIDE")
    return st.Reconfigure(line)


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
    return parse_insert(reader, NOTHING, _execute_keyword)


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
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "SAVE": _save,
    "DECLARE": _declare,
    "SET": _set,
    "PRINT": _print,
    "USE": _use,
    "EXEC": _execute_keyword,
    "EXECUTE": _execute_keyword,
    "THROW": _throw,
    "RAISERROR": _raiserror,
    "WAITFOR": _waitfor,
    "KILL": _kill,
    "RECONFIGURE": _reconfigure,
    "RETURN": _return,
    "BREAK": _break,
    "CONTINUE": _break,
}
