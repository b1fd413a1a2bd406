"""Statements with their parameters, as text: the driver sends nothing else, and its own way to put values in has two traps.

It finds its placeholders inside quoted names as well, and sends bytes that happen to be ASCII as a varchar.

Values go as parameters of sp_executesql, so that a text is the same whatever is asked with it: SQL Server compiles it once and finds the
plan again. https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-executesql-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence

from ingester.queries import P, Statement

_INT = 2**31
_LSN_BYTES = 10
_SHORT = 4000


def rendered(sql: str, parameters: Sequence[object]) -> str:
    """`sql` as a batch that gives its parameters to sp_executesql; as it is without any.

    Raises ValueError and TypeError for parameters that do not fit.
    """
    parts = sql.split(P)
    if len(parts) != len(parameters) + 1:
        raise ValueError(f"{len(parts) - 1} parameters are wanted and {len(parameters)} were given")
    if not parameters:
        return sql
    text, types = parts[0], []
    for number, (value, part) in enumerate(zip(parameters, parts[1:], strict=True), 1):
        text += f"@p{number}{part}"
        types.append(f"@p{number} {type_of(value)}")
    values = ", ".join(literal(value) for value in parameters)
    return f"EXEC sys.sp_executesql {literal(text)}, {literal(', '.join(types))}, {values}"


def batch(statements: Sequence[Statement]) -> str:
    """Several statements as one batch, each a call of its own: none's text depends on which others there are."""
    return ";\n".join(rendered(sql, parameters) for sql, parameters in statements)


def unless_locked(statement: Statement, instead: Statement) -> Statement:
    """`statement`, and `instead` where it waited for a lock in vain; any other error is told as it is."""
    tried, locked = rendered(*statement), rendered(*instead)
    return f"BEGIN TRY {tried} END TRY BEGIN CATCH IF ERROR_NUMBER() <> 1222 THROW; {locked} END CATCH", ()


def type_of(value: object) -> str:
    """What a value is to SQL Server. An LSN has the very type of the columns that it is compared with, so that an index can be sought;
    nothing but text may be NULL."""
    match value:
        case bytes():
            return f"binary({_LSN_BYTES})" if len(value) == _LSN_BYTES else "varbinary(max)"
        case int():
            return "int" if -_INT <= value < _INT else "bigint"
        case str() | None:
            return f"nvarchar({_SHORT})" if value is None or len(value) <= _SHORT else "nvarchar(max)"
    raise TypeError(f"no literal for {type(value).__name__}")


def literal(value: object) -> str:
    """Raises TypeError for what has none here."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"0x{value.hex()}"
        case int():
            return str(int(value))
        case str():
            return "N'" + value.replace("'", "''") + "'"
    raise TypeError(f"no literal for {type(value).__name__}")
