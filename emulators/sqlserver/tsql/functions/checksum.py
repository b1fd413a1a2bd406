"""CHECKSUM: one int32 for a list of values, equal for lists whose elements are of one type and equal under `=`, NULLs equal to each other.

That is what Microsoft promises of it, and all that is imitated: the numbers are our own, since how the server makes its is not public.
CHECKSUM(*) and BINARY_CHECKSUM are refused. Source: https://learn.microsoft.com/sql/t-sql/functions/checksum-transact-sql
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.functions.functions import Made, builtin
from emulators.sqlserver.tsql.values.temporal import instant
from emulators.sqlserver.tsql.values.text_order import equality_key
from emulators.sqlserver.tsql.values.types import INT, family, is_unicode

_NONCOMPARABLE = ("image", "ntext", "text", "xml")


@builtin("CHECKSUM", 1, -1, nulls=True)
def _checksum(types: Sequence[SqlType]) -> Made:
    for number, kind in enumerate(types, start=1):
        if kind.name in _NONCOMPARABLE:
            raise SqlError(
                8116, f"Argument data type {kind.name} is invalid for argument {number} of checksum function.", 16
            )
    keys = [_equal(kind) for kind in types]
    if all(family(kind) == "int" for kind in types):
        return INT, lambda *values: _number(list(values))

    def run(*values: Value) -> Value:
        return _number([None if value is None else key(value) for key, value in zip(keys, values, strict=True)])

    return INT, run


def _number(values: list[object]) -> int:
    found = zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))
    return found - 2**32 if found >= 2**31 else found


def _equal(kind: SqlType) -> Callable[[Value], object]:
    """Of a value of `kind` in storage form: what is the same for all values that `=` holds equal."""
    if kind.name == "datetimeoffset":
        return lambda value: instant(str(value))
    match family(kind):
        case "string":
            key = equality_key(kind.collation, is_unicode(kind))
            return lambda value: key(str(value))
        case "binary":
            return lambda value: value.rstrip(b"\0") if isinstance(value, bytes) else value
        case "exact":
            return lambda value: str(Decimal(str(value)).normalize())
        case "float":
            return lambda value: float(str(value)) + 0.0  # minus zero equals zero
        case _:
            return lambda value: value
