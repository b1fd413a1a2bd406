"""Operators on two known values: promotion, arithmetic and comparison as C# binds them.

Integers narrower than int count as int; int and uint meet in long; a long that is not negative meets ulong in ulong. Integer
arithmetic wraps around, its division truncates towards zero. A moment and a duration, and two moments, can be added
and subtracted as in .NET; anything joined to a string by + is a string. What C# has no operator for is a FilterError:
ordering of strings, booleans and uuids, and comparison of different kinds.
Sources: learn.microsoft.com "Subscription Rule SQL Filter Syntax", section "Operator binding semantics"; the C# language
specification, "Numeric promotions".
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NoReturn

from emulators.servicebus.amqp.values import Byte, Char, Float, Int, Short, Timestamp, UByte, UInt, ULong, UShort, Value

from .errors import FilterError
from .values import INTEGERS, as_text, type_name

_NARROW: Final = frozenset((Byte, UByte, Short, UShort, Int))
_MILLISECOND: Final = timedelta(milliseconds=1)
_float32 = struct.Struct(">f")

Number = int | float


def compare(left: Value, sign: str, right: Value) -> bool:
    """`sign` is one of = <> > >= < <=. Raises FilterError."""
    ordering = sign not in ("=", "<>")
    if isinstance(left, str) and isinstance(right, str) and isinstance(left, Char) == isinstance(right, Char):
        comparable = not ordering or isinstance(left, Char)
    elif type(left) is type(right) and not isinstance(left, int | float):
        comparable = not ordering or isinstance(left, timedelta)
    elif type(left) is type(right) and isinstance(left, bool):
        comparable = not ordering
    elif isinstance(left, Timestamp) and isinstance(right, Timestamp):
        comparable = True
    else:
        pair = _promoted(left, right)
        if pair is None:
            _refuse(left, sign, right)
        _, left, right = pair
        comparable = True
    if not comparable:
        _refuse(left, sign, right)
    return bool(_COMPARE[sign](left, right))


_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq, "<>": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


def calculate(left: Value, sign: str, right: Value) -> Value:
    """`sign` is one of + - * / %. Raises FilterError."""
    if sign == "+" and (type(left) is str or type(right) is str):
        return as_text(left) + as_text(right)
    if isinstance(left, Timestamp | timedelta) or isinstance(right, Timestamp | timedelta):
        return _moved(left, sign, right)
    pair = _promoted(left, right)
    if pair is None:
        _refuse(left, sign, right)
    kind, first, second = pair
    try:
        result = _CALCULATE[sign](first, second)
        if sign == "/" and kind in INTEGERS and result > INTEGERS[kind][1]:
            raise OverflowError  # the smallest number by -1: the one quotient that does not wrap around
        return _of_kind(kind, result)
    except (ZeroDivisionError, OverflowError):
        raise FilterError(f"{first} {sign} {second} has no value") from None


def negated(value: Value) -> Value:
    """Unary minus. Raises FilterError."""
    if isinstance(value, timedelta):
        return -value
    if type(value) is UInt:
        return -int(value)
    if type(value) is ULong:
        raise FilterError("the operator - cannot be applied to ulong")
    pair = _promoted(value, Byte(0))
    if pair is None:
        raise FilterError(f"the operator - cannot be applied to {type_name(value)}")
    return _of_kind(pair[0], -pair[1])


def unchanged(value: Value) -> Value:
    """Unary plus: the promotion without the change of sign. Raises FilterError."""
    if isinstance(value, timedelta):
        return value
    pair = _promoted(value, UByte(0))
    if pair is None:
        raise FilterError(f"the operator + cannot be applied to {type_name(value)}")
    return _of_kind(pair[0], pair[1])


def _refuse(left: Value, sign: str, right: Value) -> NoReturn:
    raise FilterError(f"the operator {sign} cannot be applied to {type_name(left)} and {type_name(right)}")


def _promoted(left: Value, right: Value) -> tuple[type, Number, Number] | None:
    """Both in the type they meet in; None when they meet in none."""
    first, second = _number(left), _number(right)
    if first is None or second is None:
        return None
    kinds = {type(first), type(second)}
    if float in kinds:
        return float, float(first), float(second)
    if Float in kinds:
        return Float, _single(first), _single(second)
    if ULong in kinds:
        return (ULong, int(first), int(second)) if first >= 0 and second >= 0 else None
    if int in kinds:
        return int, int(first), int(second)
    if UInt in kinds:
        signed = kinds & {Byte, Short, Int}
        return (int if signed else UInt), int(first), int(second)
    return Int, int(first), int(second)


def _number(value: Value) -> Number | None:
    if type(value) is Char:
        return UShort(ord(value))
    return value if type(value) in INTEGERS or type(value) in (float, Float) else None


def _single(number: Number) -> float:
    try:
        rounded: float = _float32.unpack(_float32.pack(float(number)))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def _of_kind(kind: type, number: Number) -> Value:
    if kind is float:
        return float(number)
    if kind is Float:
        return Float(_single(number))
    low, high = INTEGERS[kind]
    if low <= number <= high:
        return kind(number)
    return kind((int(number) - low) % (high - low + 1) + low)


def _quotient(first: Number, second: Number) -> Number:
    if isinstance(first, int) and isinstance(second, int):
        whole = abs(first) // abs(second)
        return whole if (first < 0) == (second < 0) else -whole
    if second == 0:
        return math.nan if first == 0 or first != first else math.copysign(math.inf, first) * math.copysign(1, second)
    return first / second


def _remainder(first: Number, second: Number) -> Number:
    if isinstance(first, int) and isinstance(second, int):
        rest = abs(first) % abs(second)
        return rest if first >= 0 else -rest
    if second == 0 or math.isinf(first) or first != first or second != second:
        return math.nan
    return math.fmod(first, second)


def _product(first: Number, second: Number) -> Number:
    return first * second


_CALCULATE: Final[dict[str, Callable[[Number, Number], Number]]] = {
    "+": operator.add, "-": operator.sub, "*": _product, "/": _quotient, "%": _remainder,
}  # fmt: skip


def _moved(left: Value, sign: str, right: Value) -> Value:
    try:
        if isinstance(left, Timestamp) and isinstance(right, Timestamp) and sign == "-":
            return (int(left) - int(right)) * _MILLISECOND
        if isinstance(left, Timestamp) and isinstance(right, timedelta) and sign in "+-":
            shift = right // _MILLISECOND
            return Timestamp(int(left) + (shift if sign == "+" else -shift))
        if isinstance(left, timedelta) and isinstance(right, timedelta) and sign in "+-":
            return left + right if sign == "+" else left - right
    except OverflowError:
        raise FilterError(f"{left} {sign} {right} is out of range") from None
    _refuse(left, sign, right)
