"""Expressions and conditions inside statements, up to the word that begins the next one; what they mean is not decided here."""

from __future__ import annotations

from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS


def parse_expression(reader: Reader, *stops: str) -> Fragment:
    return reader.fragment(reader.until((";", *stops), STARTS))


def parse_condition(reader: Reader) -> Fragment:
    tokens = reader.until((";",), STARTS)
    if not tokens:
        raise reader.unexpected()
    inner = reader.fragment(tokens, "SELECT CASE WHEN ")
    return Fragment(inner.text + " THEN 1 ELSE 0 END", inner.lifted, inner.variables)
