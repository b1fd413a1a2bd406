"""Statements with their parameters, as text. The driver sends only text, and its own substitution of values has two
traps.

It also finds placeholders inside quoted names, and it sends bytes that happen to be ASCII as varchar.

Values go as parameters of sp_executesql, so that the text stays the same for all values: SQL Server compiles it once
and reuses the plan.
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-executesql-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence

from ingester.sqlserver.sql.changes import SHORT_WAIT, SHORTER_WAIT, P, Statement
from ingester.sqlserver.sql.literal import literal

_INT = 2**31
_LSN_BYTES = 10
_SHORT = 4000


def rendered(sql: str, parameters: Sequence[object]) -> str:
    """`sql` as a batch that passes its parameters to sp_executesql; unchanged without any.

    Raises ValueError and TypeError for parameters that do not fit.
    """
    if parameters:
        return in_its_scope(sql, parameters)
    return _numbered(sql, 0, 1)


def in_its_scope(sql: str, parameters: Sequence[object] = ()) -> str:
    """`sql` as a batch that keeps its SET options to itself. Raises as `rendered` does."""
    text = _numbered(sql, len(parameters), 1)
    return _call(text, _types(parameters), [literal(value) for value in parameters])


def batch(statements: Sequence[Statement]) -> str:
    """Several statements as one batch, each in a call of its own: no text depends on the other statements."""
    return ";\n".join(rendered(sql, parameters) for sql, parameters in statements)


WAITED: Statement = ("DECLARE @waited int", ())
"""Must precede the statements that `unless_locked` makes for a batch."""


def unless_locked(statement: Statement, instead: Statement, *, held: bool = False) -> Statement:
    """`statement`, and `instead` if it waited for a lock in vain. Any other error is raised unchanged.

    It waits a second, or a tenth of one if an earlier statement of the batch has waited in vain or the table is known
    to be `held`. The text that catches the error calls the statement: TRY does not catch errors while its own text is
    compiled, and that is when a statement waits for a lock on a table's description.
    https://learn.microsoft.com/sql/t-sql/language-elements/try-catch-transact-sql (Errors unaffected by a TRY...CATCH construct)
    """
    (sql, parameters), (other, others) = statement, instead
    values = (*parameters, *others)
    tried = _call(
        _numbered(sql, len(parameters), 1), _types(parameters), [f"@p{n}" for n in range(1, len(parameters) + 1)]
    )
    text = (
        f"IF @waited = 1 {SHORTER_WAIT} ELSE {SHORT_WAIT};\n"
        f"BEGIN TRY {tried} END TRY\n"
        f"BEGIN CATCH IF ERROR_NUMBER() <> 1222 THROW; SET @waited = 1; {_numbered(other, len(others), len(parameters) + 1)} END CATCH"
    )
    types = ["@waited int OUTPUT", *_types(values)]
    return _call(text, types, ["1" if held else "@waited OUTPUT", *map(literal, values)]), ()


def _numbered(sql: str, parameters: int, first: int) -> str:
    """`sql` with the names of its parameters, counted from `first`."""
    begin, *rest = sql.split(P)
    if len(rest) != parameters:
        raise ValueError(f"{len(rest)} parameters are needed and {parameters} were given")
    return begin + "".join(f"@p{number}{part}" for number, part in enumerate(rest, first))


def _types(parameters: Sequence[object]) -> list[str]:
    return [f"@p{number} {type_of(value)}" for number, value in enumerate(parameters, 1)]


def _call(text: str, types: Sequence[str], values: Sequence[str]) -> str:
    declared = [literal(", ".join(types))] if types else []
    return f"EXEC sys.sp_executesql {', '.join([literal(text), *declared, *values])}"


def type_of(value: object) -> str:
    """A value's type at SQL Server. An LSN has exactly the type of the columns that it is compared with, so that an
    index can be sought. Only text may be NULL."""
    match value:
        case bytes():
            return f"binary({_LSN_BYTES})" if len(value) == _LSN_BYTES else "varbinary(max)"
        case int():
            return "int" if -_INT <= value < _INT else "bigint"
        case str() | None:
            return f"nvarchar({_SHORT})" if value is None or len(value) <= _SHORT else "nvarchar(max)"
    raise TypeError(f"no literal for {type(value).__name__}")
