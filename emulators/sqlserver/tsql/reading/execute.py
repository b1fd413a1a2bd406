"""EXECUTE of a procedure or of a text, with its arguments; at the start of a batch the word itself may be missing."""

from __future__ import annotations

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment, literal
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.tokens import END, HEX, NSTRING, NUMBER, QUOTED, STRING, VARIABLE, WORD

_CONSTANTS = frozenset((HEX, NSTRING, NUMBER, STRING))


def parse_execute(reader: Reader) -> Statement:
    return parse_call(reader, bare=False)


def parse_call(reader: Reader, bare: bool) -> Statement:
    line = reader.line()
    if not bare:
        reader.advance()
    if reader.at("("):
        reader.advance()
        text = reader.fragment(reader.until((")",)))
        reader.expect(")")
        if reader.at("AT") or reader.at("AS"):
            raise unsupported(f"EXECUTE ('...') {reader.here.key}")
        _options(reader)
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
    _options(reader)
    return st.Execute(line, procedure, tuple(arguments), result)


def _options(reader: Reader) -> None:
    """WITH RECOMPILE."""
    if reader.accept("WITH"):
        if reader.at("RESULT", "SETS"):
            raise unsupported("EXECUTE ... WITH RESULT SETS")
        reader.expect("RECOMPILE")


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
    constant = literal(token) if token.kind in _CONSTANTS and not sign else None
    return st.Argument(name, value, output, constant, token.text.lower() if token.kind == VARIABLE and not sign else "")
