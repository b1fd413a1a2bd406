"""Parses every query and expression of a statement ahead of running any: a syntax error anywhere stops the whole batch, as on the
real server."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.trees import parse_query


def check(statement: Statement) -> None:
    """Raises SqlError 102 and 156."""
    for field in fields(statement):
        _check_value(getattr(statement, field.name))


def _check_value(value: object) -> None:
    if isinstance(value, Fragment):
        parse_query(value.text)
    elif isinstance(value, tuple):
        for item in value:
            if isinstance(item, tuple | Fragment) or is_dataclass(item):
                _check_value(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _check_value(getattr(value, field.name))
