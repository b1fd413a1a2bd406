"""Pieces of T-SQL (a query, an expression, a condition) in the form in which they are parsed, cached and run.

Literals beside a comparison are lifted out, so that statements that differ in their values alone share one parsed tree and one
lowered statement; a lifted literal is a variable whose name no batch can write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import syntax
from emulators.sqlserver.tsql.reading.tokens import (
    HEX,
    MONEY,
    NSTRING,
    NUMBER,
    OP,
    STRING,
    VARIABLE,
    WORD,
    Token,
    string_value,
)
from emulators.sqlserver.tsql.values.types import RANGES

LIFTED = "@__lifted"
_BEFORE_LIFTED = frozenset(("=", "<", ">", "<=", ">=", "<>", "!="))
_AFTER_LIFTED = frozenset(("", ")", ";", "AND", "OR", "THEN", "ORDER", "OPTION", "GROUP", "UNION", ","))
_STRINGS = frozenset((STRING, NSTRING))
_LITERALS = frozenset((*_STRINGS, HEX, NUMBER))
_INT, _NVARCHAR, _VARCHAR = SqlType("int"), SqlType("nvarchar", 4000), SqlType("varchar", 8000)
"""Of most literals: the same objects each time, which the keys of plans compare faster."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """`text` is a SELECT; `lifted` the literals taken out of it, in order: @__lifted0, @__lifted1 ..."""

    text: str
    lifted: tuple[tuple[SqlType, Value], ...] = ()
    variables: frozenset[str] = field(default=frozenset(), compare=False)
    """Lower-case names of the variables that the text mentions."""


def literal(token: Token) -> tuple[SqlType, Value]:
    """Type and storage form of a literal token.

    Source: https://learn.microsoft.com/sql/t-sql/data-types/constants-transact-sql
    """
    kind, text = token.kind, token.text
    if kind == NUMBER:
        return number(text)
    if kind in (STRING, NSTRING):
        value = string_value(token)
        size = len(value) or 1
        if kind == NSTRING:
            return SqlType("nvarchar", size if size <= 4000 else MAX), value
        return SqlType("varchar", size if size <= 8000 else MAX), value
    if kind == HEX:
        digits = text[2:]
        data = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        return SqlType("varbinary", len(data) or 1 if len(data) <= 8000 else MAX), data
    if kind == MONEY:
        return SqlType("money"), _amount(text)
    raise syntax(text)


def _amount(text: str) -> str:
    """Of a money literal, with its four places."""
    whole, _, part = text[1:].partition(".")
    return f"{whole or '0'}.{part:0<4}"[: len(whole or "0") + 5]


def number(text: str) -> tuple[SqlType, Value]:
    """int where it fits, else numeric with the digits written; with an exponent, float."""
    if "e" in text or "E" in text:
        if math.isinf(found := float(text)):
            raise SqlError(
                168, f"The floating point value '{text}' is out of the range of computer representation (8 bytes).", 15
            )
        return SqlType("float"), found
    whole, point, part = text.partition(".")
    if not point and int(whole) <= RANGES["int"][1]:
        return _INT, int(whole)
    whole = whole.lstrip("0")
    precision = max(len(whole) + len(part), 1)
    if precision > 38:
        raise syntax(text)
    value = f"{whole or '0'}.{part}" if part else whole or "0"
    return SqlType("numeric", None, precision, len(part)), value


def fragment(
    sql: str, tokens: Sequence[Token], prefix: str = "", lift: bool = True, first: int = 0, previous: str = ""
) -> Fragment:
    """The tokens' text, behind `prefix`, ready for parsing. Refuses LIMIT, which the parser would accept.

    `first`: the number of the first lifted literal; `previous`: the operator that stands before the tokens.
    """
    pieces: list[str] = [prefix]
    lifted: list[tuple[SqlType, Value]] = []
    variables: set[str] = set()
    last = len(tokens) - 1
    start = tokens[0].start if tokens else 0
    for index, token in enumerate(tokens):
        kind = token.kind
        if kind == VARIABLE:
            variables.add(token.text.lower())
        elif kind == WORD and token.key == "LIMIT" and index < last and tokens[index + 1].kind in (NUMBER, VARIABLE):
            raise syntax(token.text)
        elif kind in _STRINGS and index and tokens[index - 1].kind in _STRINGS:
            # A second literal is the first one's column name, without AS; the query parser would make one text of both.
            pieces.append(f"{sql[start : token.start]}AS ")
            start = token.start
        elif kind == WORD and token.text[0] in "$#":  # names that the query parser knows in brackets only
            pieces.append(f"{sql[start : token.start]}[{token.text}]")
            start = token.end
        elif kind == MONEY or (
            lift
            and previous in _BEFORE_LIFTED
            and kind in _LITERALS
            and (index == last or (tokens[index + 1].key in _AFTER_LIFTED and tokens[index + 1].kind in (WORD, OP)))
        ):
            if lift:
                found = _widened(*literal(token)) if kind != MONEY else literal(token)
                # One LSN written twice stays one variable, for bounds.py, and what GROUP BY repeats stays the same expression.
                known = found in lifted and (kind == HEX or any(other.key == "GROUP" for other in tokens))
                number_of = lifted.index(found) if known else len(lifted)
                written = f"{LIFTED}{first + number_of}"
                if number_of == len(lifted):
                    lifted.append(found)
            else:  # of money, which the query parser cannot read
                written = f"CAST({_amount(token.text)} AS money)"
            pieces.append(f"{sql[start : token.start]} {written} ")
            start = token.end
        previous = token.key
    if tokens:
        pieces.append(sql[start : tokens[-1].end])
    return Fragment("".join(pieces), tuple(lifted), frozenset(variables))


def _widened(kind: SqlType, value: Value) -> tuple[SqlType, Value]:
    """Strings share one length, so that values of any length share one lowered statement."""
    if kind.name == "nvarchar" and kind.length != MAX:
        return _NVARCHAR, value
    if kind.name == "varchar" and kind.length != MAX:
        return _VARCHAR, value
    return kind, value


def joined(parts: Sequence[Fragment]) -> Fragment:
    """One text out of several, whose lifted literals were numbered in this order."""
    lifted = tuple(item for part in parts for item in part.lifted)
    return Fragment(
        "".join(part.text for part in parts), lifted, frozenset().union(*(part.variables for part in parts))
    )
