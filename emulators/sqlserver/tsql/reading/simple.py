"""Statements of one line that hold neither a statement nor a query: messages, errors, waiting, the database, the server.

Refuses WAITFOR for a message, KILL of anything but a session, and its STATUSONLY.
"""

from __future__ import annotations

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.expressions import parse_expression
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.tokens import NUMBER


def parse_print(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("PRINT")
    return st.Print(line, parse_expression(reader))


def parse_use(reader: Reader) -> Statement:
    line = reader.line()
    reader.expect("USE")
    return st.Use(line, reader.name())


def parse_throw(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    tokens = reader.until((";",), STARTS)
    return st.Throw(line, reader.fragment(tokens) if tokens else None)


def parse_raiserror(reader: Reader) -> Statement:
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


def parse_waitfor(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    until = reader.accept("TIME")
    if not until and not reader.accept("DELAY"):
        raise unsupported(f"WAITFOR {reader.here.text}")
    return st.WaitFor(line, parse_expression(reader), until)


def parse_kill(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.here.kind != NUMBER:
        raise unsupported(f"KILL {reader.here.text}")
    number = reader.integer()
    if reader.accept("WITH"):
        raise unsupported("KILL ... WITH STATUSONLY")
    return st.Kill(line, number)


def parse_reconfigure(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.accept("WITH"):
        reader.expect("OVERRIDE")
    return st.Reconfigure(line)
