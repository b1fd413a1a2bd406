"""AMQP 1.0 values as Python values, and the errors of the wire.

Plain Python stands for the types one meets daily (long, double, boolean, string, binary, list, map, uuid); a thin
subclass stands for every other one, so that a value read is written back as the type it was.
The three decimal types are kept as their octets: clients write and read decimal128 in more ways than IEEE 754 has, so that
only whoever wrote one knows its number.
Source: OASIS AMQP 1.0, part 1 (types), section 1.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Value = Any
"""Whatever AMQP can say; the decoder decides at run time."""


class AmqpError(Exception):
    """A failure that travels to the peer: an AMQP error condition and a sentence."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.condition = condition
        self.description = description

    def __str__(self) -> str:
        return f"{self.condition}: {self.description}"


class DecodeError(AmqpError):
    """Octets that are not AMQP: the connection that sent them is closed (amqp:decode-error)."""

    def __init__(self, description: str) -> None:
        super().__init__("amqp:decode-error", description)


class Symbol(str):
    """ASCII name from a constrained domain."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the Unix epoch, UTC."""

    __slots__ = ()


class UByte(int):
    """0..2^8-1."""

    __slots__ = ()


class UShort(int):
    """0..2^16-1."""

    __slots__ = ()


class UInt(int):
    """0..2^32-1."""

    __slots__ = ()


class ULong(int):
    """0..2^64-1."""

    __slots__ = ()


class Byte(int):
    """-2^7..2^7-1."""

    __slots__ = ()


class Short(int):
    """-2^15..2^15-1."""

    __slots__ = ()


class Int(int):
    """-2^31..2^31-1. A plain int is a long."""

    __slots__ = ()


class Float(float):
    """IEEE 754 binary32. A plain float is a double."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal32, decimal64 or decimal128 in its 4, 8 or 16 octets."""

    octets: bytes


class Raw(bytes):
    """An encoded value, to be written as it is."""

    __slots__ = ()


class Array(list[Value]):
    """Values of one type; `element` names it (int stands for long)."""

    __slots__ = ("element",)

    def __init__(self, element: type, items: Any = ()) -> None:
        super().__init__(items)
        self.element = element


class Described:
    """A value with a descriptor: a performative, an outcome, a filter."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: Value, value: Value) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and (self.descriptor, self.value) == (other.descriptor, other.value)

    def __hash__(self) -> int:
        return hash(repr(self.descriptor))

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"
