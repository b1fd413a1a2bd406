"""+ - * / % & | ^ over storage forms, by the rules of T-SQL: integer division, 220 and 8115 on overflow, 8134 on zero."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal

from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import (
    arithmetic_overflow,
    date_overflow,
    divide_by_zero,
    incompatible,
    small_overflow,
)
from emulators.sqlserver.tsql.values import temporal
from emulators.sqlserver.tsql.values.calls import Call
from emulators.sqlserver.tsql.values.conversions.numbers import EXACT, exact_text
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import RANGES, scale_of

_BITWISE: dict[str, Callable[[int, int], int]] = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
_SMALL = ("tinyint", "smallint")


def whole(symbol: str, target: SqlType) -> Call:
    """Integers of any size into the integer type `target`."""
    low, high = RANGES.get(target.name, (0, 1))
    name = target.name

    def run(left: int | None, right: int | None) -> Value:
        if left is None or right is None:
            return None
        result = _whole(symbol, left, right)
        if low <= result <= high:
            return result
        raise small_overflow(name, result) if name in _SMALL else arithmetic_overflow(name)

    return run


def _whole(symbol: str, left: int, right: int) -> int:
    if symbol == "+":
        return left + right
    if symbol == "-":
        return left - right
    if symbol == "*":
        return left * right
    if symbol in _BITWISE:
        return _BITWISE[symbol](left, right)
    if right == 0:
        raise divide_by_zero()
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return quotient if symbol == "/" else left - quotient * right


def exact(symbol: str, target: SqlType) -> Call:
    """Decimals and money. Division cuts at the result's scale; everything else rounds."""

    def run(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        a, b = Decimal(str(left)), Decimal(str(right))
        if symbol == "+":
            number = EXACT.add(a, b)
        elif symbol == "-":
            number = EXACT.subtract(a, b)
        elif symbol == "*":
            number = EXACT.multiply(a, b)
        elif b == 0:
            raise divide_by_zero()
        elif symbol == "/":
            number = EXACT.divide(a, b).quantize(Decimal(1).scaleb(-scale_of(target)), ROUND_DOWN, EXACT)
        else:
            number = EXACT.remainder(a, b)
        return exact_text(number, target)

    return run


def floating(symbol: str, target: SqlType) -> Call:
    if symbol not in "+-*/":
        raise incompatible(target.name, target.name, symbol)
    finish = converter(SqlType("float"), target)

    def run(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        a, b = float(left), float(right)
        if symbol == "/" and b == 0:
            raise divide_by_zero()
        try:
            return finish(
                {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[symbol](a, b)
            )
        except OverflowError:
            raise arithmetic_overflow(target.name) from None

    return run


def days(symbol: str, target: SqlType) -> Call:
    """datetime plus or minus a number of days."""

    def run(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        shift = int(Decimal(str(right)) * 86_400 * temporal.TICKS)
        moved = temporal.shifted(temporal.read(str(left), target), shift if symbol == "+" else -shift)
        if not 1 <= moved.days <= 3_652_059:
            raise date_overflow(target.name)
        return temporal.write(moved, target, "datetime")

    return run


def dates(symbol: str, left: SqlType, right: SqlType, target: SqlType) -> Call:
    """datetime plus or minus datetime: both are days since 1900."""

    def run(first: Value, second: Value) -> Value:
        if first is None or second is None:
            return None
        moment, other = temporal.read(str(first), left), temporal.read(str(second), right)
        shift = (other.days - temporal.EPOCH) * temporal.DAY + other.ticks
        moved = temporal.shifted(moment, shift if symbol == "+" else -shift)
        if not 1 <= moved.days <= 3_652_059:
            raise date_overflow(target.name)
        return temporal.write(moved, target, "datetime")

    return run


def negated(target: SqlType) -> Call:
    if target.precision is not None or target.name in ("money", "smallmoney"):
        return lambda value: None if value is None else exact_text(Decimal(value).copy_negate(), target)
    if target.name in RANGES:
        step = whole("-", target)
        return lambda value: None if value is None else step(0, value)
    return lambda value: None if value is None else -value
