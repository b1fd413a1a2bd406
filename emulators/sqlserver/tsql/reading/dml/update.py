"""UPDATE and DELETE, written as the SELECT of the rows that they touch.

What the query parser cannot read (TOP in DELETE, SET with +=, a second FROM) is taken apart here.
"""

from __future__ import annotations

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.dml.clauses import (
    ASSIGNMENTS,
    NOTHING,
    outside_columns,
    parse_output,
    table_name,
    top_clause,
)
from emulators.sqlserver.tsql.reading.dml.hints import hints_of_target, whole_table
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment, joined
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import OP, QUOTED, VARIABLE, WORD, Token

_CLAUSES = ("FROM", "WHERE", "OPTION", "OUTPUT", ";")


def _target(reader: Reader) -> tuple[st.Name, str, frozenset[str]]:
    """Its name, how it is written, and its hints."""
    begin = reader.position
    name = table_name(reader)
    text = reader.text(reader.tokens[begin : reader.position])
    return name, text, hints_of_target(reader)


def parse_update(reader: Reader, prefix: Fragment = NOTHING) -> st.Statement:
    line = reader.line()
    reader.expect("UPDATE")
    top = top_clause(reader)
    target, written, hints = _target(reader)
    reader.expect("SET")
    columns: list[tuple[str, str]] = []
    parts = [prefix]
    lifted = len(prefix.lifted)
    while True:
        column, part = _set_clause(reader, f"SELECT {top}" if not columns else ", ", lifted)
        columns.append(column)
        parts.append(part)
        lifted += len(part.lifted)
        if not reader.accept(","):
            break
    output = parse_output(reader, ("FROM", "WHERE", "OPTION", ";"))
    parts += [Fragment(f", {item}") for item in outside_columns(output)]
    tail, has_from = _tail(reader, written, lifted)
    return st.Update(line, target, tuple(columns), joined([*parts, tail]), has_from, output, whole_table(hints))


def _set_clause(reader: Reader, prefix: str, lifted: int) -> tuple[tuple[str, str], Fragment]:
    """One `column = expression`: ((column, "" or "DEFAULT"), the expression as part of a SELECT list)."""
    if reader.here.kind == VARIABLE:
        raise unsupported("UPDATE ... SET @variable")
    if reader.here.kind not in (WORD, QUOTED):
        raise reader.unexpected()
    begin = reader.position
    name = reader.qualified()[-1]
    written = reader.text(reader.tokens[begin : reader.position])
    if reader.at("(") and "." in written:
        raise unsupported(f"UPDATE ... SET column.{name}(...)")
    operator = reader.advance()
    if operator.key not in ASSIGNMENTS:
        raise reader.unexpected(operator)
    if operator.key == "=" and reader.accept("DEFAULT"):
        return (name, "DEFAULT"), Fragment(prefix + "NULL")
    tokens = reader.until((",", *_CLAUSES), STARTS)
    if not tokens:
        raise reader.unexpected()
    if operator.key == "=":
        return (name, ""), fragment(reader.sql, tokens, prefix, True, lifted, "=")
    part = fragment(reader.sql, tokens, f"{prefix}{written} {operator.key[0]} (", True, lifted)
    return (name, ""), Fragment(part.text + ")", part.lifted, part.variables)


def _tail(reader: Reader, written: str, lifted: int) -> tuple[Fragment, bool]:
    """FROM, WHERE and OPTION; without a FROM, the target itself is the FROM."""
    has_from = reader.at("FROM")
    tokens = _clause_tokens(reader)
    if any(token.key == "CURRENT" and tokens[at - 1].key == "WHERE" for at, token in enumerate(tokens) if at):
        raise unsupported("WHERE CURRENT OF")
    prefix = " " if has_from else f" FROM {written} "
    if not tokens:
        return Fragment(prefix), has_from
    return fragment(reader.sql, tokens, prefix, True, lifted), has_from


def _clause_tokens(reader: Reader) -> list[Token]:
    begin = reader.position
    while True:
        reader.until((";",), STARTS)
        if reader.at("WITH", "("):
            reader.advance()
            continue
        return list(reader.tokens[begin : reader.position])


def parse_delete(reader: Reader, prefix: Fragment = NOTHING) -> st.Statement:
    line = reader.line()
    reader.expect("DELETE")
    top = top_clause(reader)
    reader.accept("FROM")
    target, written, hints = _target(reader)
    output = parse_output(reader, ("FROM", "WHERE", "OPTION", ";"))
    if reader.here.kind == OP and reader.here.key not in (";", ")"):
        raise reader.unexpected()
    tail, has_from = _tail(reader, written, len(prefix.lifted))
    items = ", ".join(("0", *outside_columns(output)))
    return st.Delete(
        line, target, joined([prefix, Fragment(f"SELECT {top}{items}"), tail]), has_from, output, whole_table(hints)
    )
