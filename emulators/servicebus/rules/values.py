"""Values in rules: what a property, parameter or constant is when it is compared.

Values are AMQP values as `amqp.values` has them, and timedelta for durations; a datetime becomes a Timestamp.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from emulators.servicebus.amqp.values import Byte, Float, Int, Short, Timestamp, UByte, UInt, ULong, UShort, Value

from .description import PropertyValue

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
INTEGERS: Final = frozenset((int, UByte, UShort, UInt, ULong, Byte, Short, Int))
NUMBERS: Final = INTEGERS | {float, Float}


def as_value(given: PropertyValue) -> Value:
    """A parameter, or a property to compare with. A datetime without zone is UTC."""
    if isinstance(given, datetime):
        moment = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        return Timestamp((moment - _EPOCH) // timedelta(milliseconds=1))
    return given


def comparable(value: Value) -> tuple[str, Value]:
    """A value with its kind: equal when both are, whatever the width of numbers."""
    if type(value) in NUMBERS:
        return "number", value
    if isinstance(value, str):
        return "string", str(value)
    return type(value).__name__, value
