"""Expressions and conditions inside statements, up to the word that begins the next one; what they mean is not decided here."""

from __future__ import annotations

from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.refused_syntax import SOFT, refused_statement
from emulators.sqlserver.tsql.reading.starts import STARTS

_BEHIND = frozenset((";", *SOFT))
"""Where a condition ends, beside the words that begin statements alone."""


def parse_expression(reader: Reader, *stops: str) -> Fragment:
    return reader.fragment(reader.until((";", *stops), STARTS))


def parse_condition(reader: Reader) -> Fragment:
    begin = reader.position
    reader.until(_BEHIND, STARTS)
    while reader.here.key in SOFT and refused_statement(reader.here, reader.peek()) is None:
        reader.advance()
        reader.until(_BEHIND, STARTS)
    tokens = reader.tokens[begin : reader.position]
    if not tokens:
        raise reader.unexpected()
    inner = reader.fragment(tokens, "SELECT CASE WHEN ")
    return Fragment(inner.text + " THEN 1 ELSE 0 END", inner.lifted, inner.variables)
