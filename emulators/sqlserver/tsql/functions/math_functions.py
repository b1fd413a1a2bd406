"""The mathematical functions over float, and those that keep a number's type. RAND is refused: its sequence is not public.

Source: https://learn.microsoft.com/sql/t-sql/functions/mathematical-functions-transact-sql
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import arithmetic_overflow
from emulators.sqlserver.tsql.functions.functions import BUILTINS, Builtin, Made, builtin
from emulators.sqlserver.tsql.values.conversions.numbers import EXACT, exact_text
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import FLOAT, INT, RANGES, family


def _invalid() -> SqlError:
    return SqlError(3623, "An invalid floating point operation occurred.", 16)


def _guarded(run: Callable[..., float]) -> Callable[..., float]:
    """A domain error is 3623, an overflow 8115."""

    def call(*numbers: float) -> float:
        try:
            return run(*numbers)
        except (ValueError, ZeroDivisionError):
            raise _invalid() from None
        except OverflowError:
            raise arithmetic_overflow("float") from None

    return call


def _float_function(name: str, calculate: Callable[..., float], count: int = 1, most: int | None = None) -> None:
    run = _guarded(calculate)

    def make(types: Sequence[SqlType]) -> Made:
        readers = [converter(kind, FLOAT) for kind in types]

        def call(*values: Value) -> Value:
            return run(*(float(str(read(value))) for read, value in zip(readers, values, strict=True)))

        return FLOAT, call

    BUILTINS[name] = Builtin(count, most if most is not None else count, make)


_float_function("SQRT", math.sqrt)
_float_function("SQUARE", lambda value: value * value)
_float_function("EXP", math.exp)
_float_function("LOG", math.log, 1, 2)
_float_function("LOG10", math.log10)
_float_function("PI", lambda: math.pi, 0)
_float_function("SIN", math.sin)
_float_function("COS", math.cos)
_float_function("TAN", math.tan)
_float_function("COT", lambda value: 1 / math.tan(value))
_float_function("ASIN", math.asin)
_float_function("ACOS", math.acos)
_float_function("ATAN", math.atan)
_float_function("ATN2", math.atan2, 2)


def _number_type(kind: SqlType) -> SqlType:
    """tinyint and smallint become int, real and strings float; the rest stays."""
    if kind.name in ("bit", "tinyint", "smallint"):
        return INT
    return FLOAT if family(kind) == "string" or kind.name == "real" else kind


@builtin("POWER", 2)
def _power(types: Sequence[SqlType]) -> Made:
    """The result has the type of the base, a fraction of an integer's result being cut off."""
    kind = _number_type(types[0])
    base_of, exponent_of, finish = converter(types[0], kind), converter(types[1], FLOAT), converter(FLOAT, kind)
    power = _guarded(math.pow)

    def run(value: Value, exponent: Value) -> Value:
        base, by = base_of(value), float(str(exponent_of(exponent)))
        if by.is_integer() and 0 <= by < 512 and not isinstance(base, float):
            return _whole_power(base, int(by), kind)
        return finish(power(float(str(base)), by))

    return kind, run


def _whole_power(base: Value, by: int, kind: SqlType) -> Value:
    if isinstance(base, int):
        number: int = base**by
        low, high = RANGES[kind.name]
        if not low <= number <= high:
            raise arithmetic_overflow(kind.name)
        return number
    return exact_text(EXACT.power(Decimal(str(base)), by), kind)


@builtin("SIGN", 1)
def _sign(types: Sequence[SqlType]) -> Made:
    kind = _number_type(types[0])
    read, finish = converter(types[0], kind), converter(INT, kind)

    def run(value: Value) -> Value:
        number = Decimal(str(read(value)))
        return finish((number > 0) - (number < 0))

    return kind, run


def _angle(name: str, factor: float) -> None:
    """DEGREES and RADIANS keep the type: of integers they are integers."""

    def make(types: Sequence[SqlType]) -> Made:
        kind = _number_type(types[0])
        if kind.precision is not None:
            kind = SqlType("numeric", None, 38, 18)
        read, finish = converter(types[0], FLOAT), converter(FLOAT, kind)
        return kind, lambda value: finish(float(str(read(value))) * factor)

    BUILTINS[name] = Builtin(1, 1, make)


_angle("DEGREES", 180 / math.pi)
_angle("RADIANS", math.pi / 180)
