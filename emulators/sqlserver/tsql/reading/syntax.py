"""Parses every query and expression of a statement ahead of running any: a syntax error anywhere stops the whole batch, as on the
real server. What is not supported only fails where it stands: the statement that holds it is replaced by its refusal."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import UNSUPPORTED
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.trees import parse_query


def checked(statement: Statement) -> Statement:
    """The statement, or what fails instead when it is reached. Raises SqlError 102 and 156."""
    try:
        if isinstance(statement, st.Block):
            return _block(statement)
        if isinstance(statement, st.If):
            _check_value(statement.condition)
            otherwise = None if statement.otherwise is None else checked(statement.otherwise)
            return replace(statement, then=checked(statement.then), otherwise=otherwise)
        if isinstance(statement, st.While):
            _check_value(statement.condition)
            return replace(statement, body=checked(statement.body))
        if isinstance(statement, st.TryCatch):
            return replace(statement, body=_block(statement.body), handler=_block(statement.handler))
        for field in fields(statement):
            _check_value(getattr(statement, field.name))
    except SqlError as error:
        if error.number != UNSUPPORTED:
            raise
        return st.Refused(statement.line, error.message)
    return statement


def _block(block: st.Block) -> st.Block:
    return replace(block, body=tuple([checked(statement) for statement in block.body]))


def _check_value(value: object) -> None:
    if isinstance(value, Fragment):
        parse_query(value.text)
    elif isinstance(value, st.Argument) and value.constant is not None:
        return  # one token, which was read already: a batch of sp_executesql has thousands
    elif isinstance(value, tuple):
        for item in value:
            if isinstance(item, tuple | Fragment) or is_dataclass(item):
                _check_value(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _check_value(getattr(value, field.name))
