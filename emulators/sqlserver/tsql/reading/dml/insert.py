"""INSERT: its rows as plain values where they are literals, as fragments where they are not; or the query or EXEC that makes them.

Refuses what the real server refuses of its form: 483, 10709, 10738.
"""

from __future__ import annotations

from collections.abc import Callable

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.dml.clauses import (
    NOTHING,
    column_list,
    parse_output,
    refuse_common_table,
    table_name,
    top_clause,
)
from emulators.sqlserver.tsql.reading.dml.hints import hints_of_target, whole_table
from emulators.sqlserver.tsql.reading.dml.select import query_tokens
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment, joined, literal
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.tokens import HEX, MONEY, NSTRING, NUMBER, STRING, Token, string_value
from emulators.sqlserver.tsql.values.types import INT

_LITERALS = frozenset((NUMBER, STRING, NSTRING, HEX, MONEY))
_UNICODE, _STRING, _BINARY = SqlType("nvarchar", MAX), SqlType("varchar", MAX), SqlType("varbinary", MAX)
_NULL: tuple[SqlType, Value] = (INT, None)
_BULK_OPTIONS = frozenset(
    ("CHECK_CONSTRAINTS", "FIRE_TRIGGERS", "KEEP_NULLS", "KILOBYTES_PER_BATCH", "ORDER", "ROWS_PER_BATCH", "TABLOCK")
)
"""https://learn.microsoft.com/sql/t-sql/statements/bulk-insert-transact-sql"""


def parse_insert(
    reader: Reader, prefix: Fragment = NOTHING, execute: Callable[[Reader], st.Statement] | None = None
) -> st.Statement:
    """`execute` parses what stands behind INSERT ... EXEC."""
    line = reader.line()
    reader.expect("INSERT")
    if reader.accept("BULK"):
        return _bulk(reader, line)
    top = top_clause(reader)
    reader.accept("INTO")
    table = table_name(reader)
    refuse_common_table(prefix, table, "INSERT")
    hints = hints_of_target(reader)
    columns = None
    if reader.at("(") and reader.peek().key not in ("SELECT", "WITH"):
        columns = column_list(reader)
    output = parse_output(reader, ("VALUES", "SELECT", "WITH", "DEFAULT", "EXEC", "EXECUTE", "("))
    if top and not reader.at("SELECT"):
        raise unsupported("INSERT TOP without SELECT")
    if reader.accept("DEFAULT", "VALUES"):
        return st.Insert(line, table, columns, None, None, output, None, whole_table(hints))
    if reader.accept("VALUES"):
        return st.Insert(line, table, columns, _rows(reader), None, output, None, whole_table(hints))
    if reader.here.key in ("EXEC", "EXECUTE") and execute is not None:
        if output is not None:
            raise SqlError(483, "The OUTPUT clause cannot be used in an INSERT...EXEC statement.", 16)
        return st.Insert(line, table, columns, None, None, None, execute(reader), whole_table(hints))
    if reader.here.key not in ("SELECT", "WITH", "("):
        raise reader.unexpected()
    query = fragment(reader.sql, query_tokens(reader), " ", True, len(prefix.lifted))
    if top:
        query = Fragment(f"SELECT {top}* FROM ({query.text}) AS q", query.lifted, query.variables)
    return st.Insert(line, table, columns, None, joined([prefix, query]), output, None, whole_table(hints))


def _bulk(reader: Reader, line: int) -> st.Statement:
    """INSERT BULK, which only drivers send, before the rows. https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.6.1)"""
    table = table_name(reader)
    reader.expect("(")
    columns: list[str] = []
    while True:
        columns.append(reader.name())
        reader.type()
        if reader.accept("COLLATE"):
            reader.name()
        if not reader.accept(","):
            break
    reader.expect(")")
    options = _bulk_options(reader) if reader.accept("WITH") else set()
    return st.InsertBulk(line, table, tuple(columns), "CHECK_CONSTRAINTS" in options, "KEEP_NULLS" in options)


def _bulk_options(reader: Reader) -> set[str]:
    options: set[str] = set()
    reader.expect("(")
    while True:
        option = reader.name().upper() if not reader.at("ORDER") else reader.advance().key
        if option not in _BULK_OPTIONS:
            raise unsupported(f"INSERT BULK ... WITH ({option})")
        options.add(option)
        if option == "ORDER":
            reader.skip_parentheses()
        elif reader.accept("="):
            reader.integer()
        if not reader.accept(","):
            break
    reader.expect(")")
    return options


def _rows(reader: Reader) -> tuple[tuple[st.Cell, ...], ...]:
    rows: list[tuple[st.Cell, ...]] = []
    while True:
        reader.expect("(")
        rows.append(_row(reader))
        if not reader.accept(","):
            break
    if len(rows) > 1000:
        text = (
            "The number of row value expressions in the INSERT statement exceeds the maximum allowed number of "
            "1000 row values."
        )
        raise SqlError(10738, text, 15)
    if len({len(row) for row in rows}) > 1:
        text = "All the rows in a table value constructor must have the same number of values"
        raise SqlError(10709, text, 16)
    return tuple(rows)


def _row(reader: Reader) -> tuple[st.Cell, ...]:
    cells: list[st.Cell] = []
    tokens = reader.tokens
    while True:
        position = reader.position
        token, following = tokens[position], tokens[min(position + 1, len(tokens) - 1)]
        if token.kind in _LITERALS and following.key in (",", ")"):
            cells.append(_plain(token))
            reader.position += 1
        elif token.key == "NULL" and following.key in (",", ")"):
            cells.append(_NULL)
            reader.position += 1
        else:
            cells.append(_cell(reader))
        closing = reader.advance().key
        if closing == ")":
            return tuple(cells)
        if closing != ",":
            raise reader.unexpected(tokens[reader.position - 1])


def _plain(token: Token) -> tuple[SqlType, Value]:
    """A literal that is only assigned: its type's length does not matter, and shared types are quick to look up."""
    kind = token.kind
    if kind == NSTRING:
        return _UNICODE, string_value(token)
    if kind == STRING:
        return _STRING, string_value(token)
    if kind == NUMBER and token.text.isdigit() and len(token.text) < 10:
        return INT, int(token.text)
    if kind == HEX:
        return _BINARY, literal(token)[1]
    return literal(token)


def _cell(reader: Reader) -> st.Cell:
    if reader.at("DEFAULT"):
        reader.advance()
        return st.Default()
    if reader.at("-") and reader.peek().kind == NUMBER and reader.peek(2).key in (",", ")"):
        reader.advance()
        kind, value = literal(reader.advance())
        negative = f"-{value}" if isinstance(value, str) else -value if isinstance(value, int | float) else value
        return kind, negative
    return reader.fragment(reader.until((",",)))
