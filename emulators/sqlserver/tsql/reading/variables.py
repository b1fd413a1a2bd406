"""DECLARE and SET: variables, table variables, and the options of a session. Refuses cursors.

Source: https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql
"""

from __future__ import annotations

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.ddl import parse_table_variable
from emulators.sqlserver.tsql.reading.expressions import parse_expression
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.tokens import NSTRING, STRING, VARIABLE, string_value


def parse_declare(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("DECLARE")
    if reader.peek().key in ("CURSOR", "SCROLL", "INSENSITIVE"):
        raise unsupported("DECLARE ... CURSOR")
    parts = [_declaration(reader, line)]
    while reader.accept(","):
        parts.append(_declaration(reader, line))
    scalars = [part for part in parts if isinstance(part, st.Declare)]
    if len(scalars) == len(parts):
        return st.Declare(line, tuple(variable for part in scalars for variable in part.variables))
    return parts[0] if len(parts) == 1 else st.Block(line, tuple(parts))


def _declaration(reader: Reader, line: int) -> st.Declare | st.DeclareTable:
    name = reader.variable()
    reader.accept("AS")
    if reader.accept("TABLE"):
        table = st.DeclareTable(line, parse_table_variable(reader, name))
        reader.declare(name, table)
        return table
    if reader.at("CURSOR"):
        raise unsupported("a cursor variable")
    kind = reader.type()
    reader.declare(name, kind)
    value = parse_expression(reader, ",") if reader.accept("=") else None
    return st.Declare(line, ((name, kind, value),))


_COMPOUND = {"+=": "+", "-=": "-", "*=": "*", "/=": "/", "%=": "%", "&=": "&", "|=": "|", "^=": "^"}
_ISOLATION = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SNAPSHOT", "SERIALIZABLE")


def parse_set(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("SET")
    if reader.here.kind == VARIABLE:
        name = reader.variable()
        if reader.at("."):
            raise unsupported("SET of a variable's property or method")
        operator = reader.advance().key
        if reader.at("CURSOR"):
            raise unsupported("a cursor variable")
        value = parse_expression(reader)
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
    reader.accept("STATISTICS")
    options = [reader.advance()]
    while reader.accept(","):
        options.append(reader.advance())
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
