"""Values in rules: what a property, parameter or constant is when it is compared, and how it is written back.

Values are AMQP values as `amqp.values` has them, and timedelta for durations; a datetime becomes a Timestamp. The three
types .NET clients describe (timespan, datetime-offset, uri) are undone here.
Source: Azure/azure-amqp and Microsoft's clients for `com.microsoft:timespan`, `:datetime-offset` and `:uri`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from emulators.servicebus.amqp.values import (
    Byte,
    Char,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)

from .description import PropertyValue
from .errors import FilterError

INTEGERS: Final = {
    Byte: (-(1 << 7), (1 << 7) - 1),
    UByte: (0, (1 << 8) - 1),
    Short: (-(1 << 15), (1 << 15) - 1),
    UShort: (0, (1 << 16) - 1),
    Int: (-(1 << 31), (1 << 31) - 1),
    UInt: (0, (1 << 32) - 1),
    int: (-(1 << 63), (1 << 63) - 1),
    ULong: (0, (1 << 64) - 1),
}
"""Integer types and their ranges; int is a long."""
NUMBERS: Final = frozenset((*INTEGERS, float, Float))

_NAMES: Final[dict[type, str]] = {
    bool: "boolean", Byte: "byte", UByte: "ubyte", Short: "short", UShort: "ushort", Int: "int", UInt: "uint",
    int: "long", ULong: "ulong", Float: "float", float: "double", Char: "char", str: "string", Timestamp: "timestamp",
    timedelta: "duration", UUID: "uuid", bytes: "binary",
}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS_TO_1970: Final = 621_355_968_000_000_000
_TICKS_PER_MILLISECOND: Final = 10_000
_TIMESPAN: Final = Symbol("com.microsoft:timespan")
_DATETIME_OFFSET: Final = "com.microsoft:datetime-offset"
_URI: Final = "com.microsoft:uri"


def type_name(value: Value) -> str:
    """How an error message calls the value's type."""
    return _NAMES.get(type(value), type(value).__name__)


def as_value(given: PropertyValue) -> Value:
    """A parameter, or a property to compare with. A datetime without zone is UTC."""
    if isinstance(given, datetime):
        moment = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        return Timestamp((moment - _EPOCH) // timedelta(milliseconds=1))
    return given


def as_given(value: Value) -> PropertyValue:
    """A value as descriptions of rules have it: the reverse of `as_value`."""
    if isinstance(value, Timestamp):
        return _EPOCH + int(value) * timedelta(milliseconds=1)
    given: PropertyValue = value
    return given


def from_amqp(value: Value) -> Value:
    """A property as rules compare it. Raises FilterError for what is no simple value."""
    if type(value) in _NAMES or value is None:
        return value
    if isinstance(value, Symbol):
        return str(value)
    if isinstance(value, Described):
        if value.descriptor == _TIMESPAN and type(value.value) is int:
            return timedelta(microseconds=value.value // 10)
        if value.descriptor == _DATETIME_OFFSET and type(value.value) is int:
            return Timestamp((value.value - _TICKS_TO_1970) // _TICKS_PER_MILLISECOND)
        if value.descriptor == _URI and isinstance(value.value, str):
            return value.value
    raise FilterError(f"a property of type {type_name(value)} cannot be evaluated")


def to_amqp(value: Value) -> Value:
    """A value as a property carries it."""
    if isinstance(value, timedelta):
        return Described(_TIMESPAN, value // timedelta(microseconds=1) * 10)
    return value


def comparable(value: Value) -> tuple[str, Value]:
    """A value with its kind: equal when both are, whatever the width of numbers."""
    if type(value) in NUMBERS:
        return "number", value
    return type_name(value), value


def as_text(value: Value) -> str:
    """A value joined to a string, as .NET's invariant culture writes it. Raises FilterError for types that have no such form."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "True" if value else "False"
    if type(value) in INTEGERS or isinstance(value, UUID):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if type(value) is float and math.isfinite(value):
        return repr(value).upper()
    raise FilterError(f"a value of type {type_name(value)} cannot be made a string")


def fitted(value: Value, existing: Value) -> Value:
    """A new value of a property, in the type of the existing one when both are numbers and the old type can hold the new one.

    "SET performs implicit conversion if possible when the expression type and the existing property type are different."
    """
    kind, bounds = type(existing), INTEGERS.get(type(existing))
    if type(value) not in NUMBERS or kind not in NUMBERS:
        return value
    if bounds is None:
        return value if kind is Float and type(value) is float else kind(value)
    return kind(value) if type(value) in INTEGERS and bounds[0] <= value <= bounds[1] else value
