"""The performatives: what the peers of a connection say to each other.

Every field of every performative is written, nulls too: azure-servicebus up to 7.14.3 indexes fields without padding.
Reading pads in the same way. Holds no state and decides nothing.
Source: OASIS AMQP 1.0, part 2, section 2.7; part 3, section 3.4 (outcomes); part 5, section 5.3 (SASL).
"""

from __future__ import annotations

from typing import Any, Final

from .decode import decode
from .encode import encode, encode_list, encode_uint
from .values import AmqpError, Array, DecodeError, Described, Raw, Symbol, UByte, UInt, ULong, UShort, Value

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
ERROR: Final = 0x1D
RECEIVED: Final = 0x23
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
SOURCE: Final = 0x28
TARGET: Final = 0x29
SASL_MECHANISMS: Final = 0x40
SASL_INIT: Final = 0x41
SASL_OUTCOME: Final = 0x44

_Names = Symbol | Array
_FIELD_TYPES: Final[dict[int, tuple[Any, ...]]] = {
    OPEN: (str, str, UInt, UShort, UInt, _Names, _Names, _Names, _Names, dict),
    BEGIN: (UShort, UInt, UInt, UInt, UInt, _Names, _Names, dict),
    ATTACH: (
        str, UInt, bool, UByte, UByte, Described, Described, dict, bool, UInt, ULong, _Names, _Names, dict,
    ),
    FLOW: (UInt, UInt, UInt, UInt, UInt, UInt, UInt, UInt, bool, bool, dict),
    TRANSFER: (UInt, UInt, bytes, UInt, bool, bool, UByte, Described, bool, bool, bool),
    DISPOSITION: (bool, UInt, UInt, bool, Described, bool),
    DETACH: (UInt, bool, Described),
    END: (Described,),
    CLOSE: (Described,),
    SASL_MECHANISMS: (_Names,),
    SASL_INIT: (Symbol, bytes, str),
    SASL_OUTCOME: (UByte, bytes),
}  # fmt: skip
_MANDATORY: Final[dict[int, tuple[int, ...]]] = {
    BEGIN: (1, 2, 3), ATTACH: (0, 1, 2), FLOW: (1, 2, 3), TRANSFER: (0,), DISPOSITION: (0, 1), DETACH: (0,), SASL_INIT: (0,),
}  # fmt: skip
FIELDS: Final = {code: len(types) for code, types in _FIELD_TYPES.items()}

OUTCOMES: Final = {code: Raw(bytes((0x00, 0x53, code, 0x45))) for code in (ACCEPTED, REJECTED, RELEASED, MODIFIED)}
"""Outcomes without fields, as the service echoes them."""


def parse(body: bytes) -> tuple[int, list[Value], int]:
    """Code, fields (padded with None) and offset of the payload of a frame body. Raises DecodeError."""
    described, end = decode(body)
    if not isinstance(described, Described) or not isinstance(described.value, list):
        raise DecodeError("a frame must begin with a performative")
    code = described.descriptor
    if not isinstance(code, int) or code not in FIELDS:
        raise DecodeError(f"unknown performative {code!r}")
    fields = padded(described.value, FIELDS[code])
    if len(fields) > FIELDS[code]:
        raise DecodeError(f"performative 0x{code:02x} with {len(fields)} fields")
    for value, kind in zip(fields, _FIELD_TYPES[code], strict=True):
        if value is not None and not isinstance(value, kind):
            raise DecodeError(f"performative 0x{code:02x} with a {type(value).__name__} where it has no place")
    for index in _MANDATORY.get(code, ()):
        if fields[index] is None:
            raise DecodeError(f"performative 0x{code:02x} without its field {index}")
    return code, fields, end


def padded(fields: list[Value], count: int) -> list[Value]:
    """Fields with the omitted trailing ones as None."""
    return fields + [None] * (count - len(fields))


def perform(code: int, *fields: Value) -> bytes:
    """A performative with all its fields, trailing nulls included."""
    return bytes((0x00, 0x53, code)) + encode_list(encode(field) for field in padded(list(fields), FIELDS[code]))


def error(failure: AmqpError) -> Raw:
    """An error with all three fields: the SDK's sender hangs on an error with fewer."""
    fields = [Symbol(failure.condition), failure.description, None]
    return Raw(encode(Described(ULong(ERROR), fields)))


def rejected(failure: AmqpError) -> Raw:
    """The outcome `rejected` with its error."""
    return Raw(bytes((0x00, 0x53, REJECTED)) + encode_list([error(failure)]))


def open_(container: str, max_frame: int, channel_max: int, idle_timeout: int) -> bytes:
    """Connection parameters; idle time-out in milliseconds."""
    return perform(OPEN, container, None, UInt(max_frame), UShort(channel_max), UInt(idle_timeout))


def begin(remote_channel: int, next_outgoing: int, window: int, handle_max: int) -> bytes:
    """The answer to a begin."""
    return perform(BEGIN, UShort(remote_channel), UInt(next_outgoing), UInt(window), UInt(window), UInt(handle_max))


def disposition(role: bool, first: int, last: int | None, state: Raw) -> bytes:
    """A settled disposition of first..last (role: True as receiver)."""
    fields = (
        b"\x41" if role else b"\x42",
        encode_uint(first),
        b"\x40" if last is None else encode_uint(last),
        b"\x41",
        state,
        b"\x40",
    )
    return b"\x00\x53\x15" + encode_list(fields)


def detach(handle: int, failure: AmqpError | None = None, closed: bool = True) -> bytes:
    """A detach, closing unless said otherwise."""
    return perform(DETACH, UInt(handle), closed, None if failure is None else error(failure))


def sasl_mechanisms(names: list[str]) -> bytes:
    """What the server offers."""
    return perform(SASL_MECHANISMS, Array(Symbol, [Symbol(name) for name in names]))


def sasl_outcome(code: int) -> bytes:
    """0 ok, 1 authentication failed."""
    return perform(SASL_OUTCOME, UByte(code))
