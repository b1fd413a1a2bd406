"""A message from AMQP 1.0 octets: the counterpart of servicebus_encoding. Pure; no SDK. What cannot be read is a named fault, never an exception.

azure-servicebus 7.15 has no decoder for some values (char, decimal32, decimal64; AMQP 1.0, part 1, 1.6). It fails at such a message, and its
connection fails with it. It also does not distinguish long, int and timestamp, float and double, or text and binary. Here a value is decoded
when writing it again gives the same type; otherwise its octets are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from common.azure_amqp.encoding import FIELDS
from common.message import Message, Opaque, PropertyValue

_OF_MESSAGES: Final = frozenset(Message.__dataclass_fields__)
_TIMES: Final = ("absolute_expiry_time", "creation_time")
"""They are not kept. Each send makes them again from the time to live, which begins again then."""

_HEADER, _, _ANNOTATIONS, _PROPERTIES, _APPLICATION, _DATA, _SEQUENCE, _VALUE, _ = range(0x70, 0x79)
_KNOWN: Final = range(0x70, 0x79)
_DELIVERY_COUNT, _TTL = 4, 2
_NULL: Final = 0x40
_PARTITION_KEY: Final = b"x-opt-partition-key"
_LONGEST_LIFE: Final = timedelta(milliseconds=0xFFFF_FFFF)
"""The most that a header can hold; for longer lives, the two times in the properties give the length."""
_LATEST: Final = 253_402_300_799_999
"""Milliseconds to the end of the year 9999, the latest possible expiry: no life is longer, whatever another sender writes."""

_SECTION: Final = b"\x00\x53"
"""How a section usually begins: with a descriptor that is a small ulong."""

_DEEPEST: Final = 8
"""Descriptors within descriptors."""

_ONE, _FOUR, _NONE = -1, -4, -9
_WIDTHS: Final = [
    {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 10: _ONE, 12: _ONE, 14: _ONE, 11: _FOUR, 13: _FOUR, 15: _FOUR}.get(
        constructor >> 4, _NONE
    )
    for constructor in range(256)
]
"""Octets of a value by its constructor; or that one octet, or four, hold its length (part 1, 1.2); or that it is described, or none."""

_length = struct.Struct(">I").unpack_from
_NUMBERS: Final[dict[int, Callable[[bytes, int], tuple[Any, ...]]]] = {
    constructor: struct.Struct(f">{code}").unpack_from
    for constructor, code in {
        0x50: "B", 0x51: "b", 0x52: "B", 0x53: "B", 0x54: "b", 0x55: "b", 0x60: "H", 0x61: "h",
        0x70: "I", 0x71: "i", 0x80: "Q", 0x81: "q", 0x83: "q",
    }.items()
}  # fmt: skip
_double = struct.Struct(">d").unpack_from
_LIST, _MAP = 0xC0, 0xC1
_TEXTS: Final = {0xA1: 2, 0xB1: 5}
_SYMBOLS: Final = {0xA3: 2, 0xB3: 5}
_NAMES: Final = {**_TEXTS, **_SYMBOLS}
_SHORT: Final = 2
"""Octets before a text whose length is in one octet."""
_BINARIES: Final = {0xA0: 2, 0xB0: 5}


class _Malformed(Exception):
    """These octets are not a message; the text gives the reason."""


@dataclass(slots=True)
class Arrived:
    """A decoded message. `annotations`: the broker's whole numbers, by their names."""

    message: Message = field(default_factory=lambda: Message(b"", None, content_type=None))
    fault: str | None = None
    delivery_count: int | None = None
    annotations: dict[bytes, int] = field(default_factory=dict)


def decoded(octets: bytes) -> Arrived:
    """As much of a message as can be decoded; `fault` says why the rest cannot.

    Raises only MemoryError: that is a fault of this process, and the same octets can be decoded later.
    """
    found, told, data = Arrived(), dict[str, Any](content_type=None), list[bytes]()
    try:
        for code, start in _sections(octets):
            if code == _DATA:
                data.append(_binary(octets, start))
            elif code in _READERS:
                _READERS[code](octets, start, found, told)
        if not data and found.fault is None:
            found.fault = "it has no body"
    except _Malformed as error:
        found.fault = f"its AMQP encoding cannot be read: {error}"
    except (IndexError, struct.error):
        found.fault = "its AMQP encoding cannot be read: it is cut short"
    except MemoryError:
        raise
    except Exception as error:  # an unexpected value is a fault of this message: it would fail again each time
        found.fault = f"its AMQP encoding cannot be read: {type(error).__name__}: {error}"
    told.setdefault("message_id", None)
    found.message = Message(b"".join(data), **told)
    return found


def _sections(octets: bytes) -> Iterator[tuple[int, int]]:
    """Code and offset of the value of each."""
    at, length = 0, len(octets)
    while at < length:
        code: int | None
        if octets.startswith(_SECTION, at):
            code, start = octets[at + 2], at + 3
        elif octets[at] != 0:
            raise _Malformed(f"no section begins at octet {at}")
        else:
            code, start = _number(octets, at + 1), _end(octets, at + 1)
        if code is None or code not in _KNOWN:
            raise _Malformed(f"it has a section {octets[at + 1 : start].hex()}, which no message has")
        at = _end(octets, start)
        if at > length:
            raise _Malformed("it is cut short")
        yield code, start


def _end(octets: bytes, at: int) -> int:
    """Offset behind the value whose constructor is at `at` (part 1, 1.2), which may be beyond the octets."""
    width = _WIDTHS[octets[at]]
    if width >= 0:
        return at + 1 + width
    if width == _ONE:
        return at + 2 + octets[at + 1]
    if width == _FOUR:
        return int(at + 5 + _length(octets, at + 1)[0])
    return _end_of_described(octets, at)


def _end_of_described(octets: bytes, at: int) -> int:
    """A descriptor and its value, which may be described again."""
    for _ in range(_DEEPEST):
        if octets[at] != 0:
            break
        at = _end_of_plain(octets, at + 1)
    return _end_of_plain(octets, at)


def _end_of_plain(octets: bytes, at: int) -> int:
    if _WIDTHS[octets[at]] == _NONE:
        raise _Malformed(f"0x{octets[at]:02x} at octet {at} begins no value")
    return _end(octets, at)


def _number(octets: bytes, at: int) -> int | None:
    """The whole number there, of whatever type; None where there is none."""
    constructor = octets[at]
    if constructor in (0x43, 0x44):
        return 0
    read = _NUMBERS.get(constructor)
    return None if read is None else int(read(octets, at + 1)[0])


def _binary(octets: bytes, at: int) -> bytes:
    skipped = _BINARIES.get(octets[at])
    if skipped is None:
        raise _Malformed(f"a data section holds a value of type 0x{octets[at]:02x}")
    return octets[at + skipped : _end(octets, at)]


def _compound(octets: bytes, at: int, small: int) -> tuple[int, int, int]:
    """How many values are in a list or map, and where they begin and end. `small`: the constructor of the shorter encoding."""
    constructor = octets[at]
    if constructor == small:
        return octets[at + 2], at + 3, at + 2 + octets[at + 1]
    if constructor == small + 0x10:
        return _length(octets, at + 5)[0], at + 9, at + 5 + _length(octets, at + 1)[0]
    if constructor == 0x45 and small == _LIST:
        return 0, at + 1, at + 1
    raise _Malformed(
        f"a section holds a value of type 0x{constructor:02x} and no {'list' if small == _LIST else 'map'}"
    )


def _values(octets: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each in a list."""
    count, at, end = _compound(octets, at, _LIST)
    widths = _WIDTHS
    for _ in range(count):
        begin, width = at, widths[octets[at]]
        at = at + 1 + width if width >= 0 else _end(octets, at)
        if at > end:
            break
        yield begin, at
    if at != end:
        raise _Malformed("a list has another length than it says")


def _pairs(octets: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, and begin and end of the value, of each in a map."""
    count, at, end = _compound(octets, at, _MAP)
    if count % 2:
        raise _Malformed("a map has a name without a value")
    names, widths = _NAMES, _WIDTHS
    for _ in range(count // 2):
        skipped = names.get(octets[at])
        if skipped is None:
            raise _Malformed(f"a name in a map is a value of type 0x{octets[at]:02x}, not text")
        begin = at + 2 + octets[at + 1] if skipped == _SHORT else _end(octets, at)
        name, width = octets[at + skipped : begin], widths[octets[begin]]
        at = begin + 2 + octets[begin + 1] if width == _ONE else _end(octets, begin)  # nearly all without a call
        if at > end:
            break
        yield name, begin, at
    if at != end:
        raise _Malformed("a map has another length than it says")


def _read_header(octets: bytes, at: int, found: Arrived, told: dict[str, Any]) -> None:
    """Part 3, 3.2.1."""
    for place, (begin, _) in enumerate(_values(octets, at)):
        if place == _TTL:
            if (milliseconds := _number(octets, begin) or 0) > 0:
                told["time_to_live"] = _life(milliseconds)
        elif place == _DELIVERY_COUNT:
            found.delivery_count = _number(octets, begin)


def _read_annotations(octets: bytes, at: int, found: Arrived, told: dict[str, Any]) -> None:
    """Part 3, 3.2.3. The broker's own, as numbers, and the partition key."""
    for name, begin, end in _pairs(octets, at):
        if name == _PARTITION_KEY:
            told["partition_key"] = _readable(octets, begin, end)
        elif (number := _number(octets, begin)) is not None:
            found.annotations[name] = number


def _read_properties(octets: bytes, at: int, found: Arrived, told: dict[str, Any]) -> None:
    """Part 3, 3.2.4."""
    foreign: dict[str, Opaque] = {}
    times: dict[str, int | None] = {}
    for place, (begin, end) in enumerate(_values(octets, at)):
        if place >= len(FIELDS):
            raise _Malformed(f"its properties have more than {len(FIELDS)} fields")
        if octets[begin] == _NULL:
            continue
        name = FIELDS[place]
        if name in _TIMES:
            times[name] = _number(octets, begin)
        elif not _read_text(octets, begin, end, name, told):
            foreign[name] = Opaque(octets[begin:end])
    if foreign:
        told["foreign"] = foreign
    if times:
        _lengthen(told, times)


def _read_text(octets: bytes, begin: int, end: int, name: str, told: dict[str, Any]) -> bool:
    """Whether the field is text and one that `Message` has. For another type in such a field, `told` gets what can be read of it."""
    if name not in _OF_MESSAGES:
        return False
    skipped = (_SYMBOLS if name == "content_type" else _TEXTS).get(octets[begin])
    if skipped is not None:
        try:
            told[name] = octets[begin + skipped : end].decode()
            return True
        except UnicodeDecodeError:
            pass
    told[name] = _readable(octets, begin, end)
    return False


def _lengthen(told: dict[str, Any], times: dict[str, int | None]) -> None:
    """A time to live longer than a header can hold (as Microsoft's .NET client writes and reads it: AmqpMessageConverter)."""
    life = told.get("time_to_live")
    expiry, created = (times.get(name) for name in _TIMES)
    if life == _LONGEST_LIFE and expiry is not None and created is not None:
        told["time_to_live"] = max(life, _life(expiry - created))


def _life(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=max(0, min(milliseconds, _LATEST)))


def _read_application_properties(octets: bytes, at: int, found: Arrived, told: dict[str, Any]) -> None:
    """Part 3, 3.2.5."""
    held: dict[str, PropertyValue] = {}
    for name, begin, end in _pairs(octets, at):
        held[_name(name)] = _value(octets, begin, end)
    told["application_properties"] = held


@lru_cache(maxsize=1024)
def _name(octets: bytes) -> str:
    """Names of properties are few and come again with every message."""
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise _Malformed("the name of an application property is not UTF-8") from error


def _read_other_body(octets: bytes, at: int, found: Arrived, told: dict[str, Any]) -> None:
    found.fault = "the body is an AMQP value or sequence, not bytes"


_READERS: Final = {
    _HEADER: _read_header,
    _ANNOTATIONS: _read_annotations,
    _PROPERTIES: _read_properties,
    _APPLICATION: _read_application_properties,
    _SEQUENCE: _read_other_body,
    _VALUE: _read_other_body,
}


def _value(octets: bytes, begin: int, end: int) -> Any:
    """The value, if servicebus_encoding writes it with the same type; otherwise its octets."""
    constructor = octets[begin]
    if (skipped := _TEXTS.get(constructor)) is not None:
        try:
            return octets[begin + skipped : end].decode()
        except UnicodeDecodeError:
            return Opaque(octets[begin:end])
    if (skipped := _BINARIES.get(constructor)) is not None and not _is_text(octets[begin + skipped : end]):
        return octets[begin + skipped : end]  # octets that are text would be written as text, as the SDK does
    read = _WRITTEN_AS_READ.get(constructor)
    value = None if read is None else read(octets, begin + 1, end)
    return Opaque(octets[begin:end]) if value is None and constructor != _NULL else value


def _long(octets: bytes, at: int, end: int) -> int | None:
    """A long that is not in the range of an int: those are written as ints."""
    number: int = _NUMBERS[0x81](octets, at)[0]
    return None if -(2**31) <= number < 2**31 else number


def _ulong(octets: bytes, at: int, end: int) -> int | None:
    """An ulong that is not in the range of a long."""
    number: int = _NUMBERS[0x80](octets, at)[0]
    return None if number < 2**63 else number


_WRITTEN_AS_READ: Final[dict[int, Callable[[bytes, int, int], Any]]] = {
    0x41: lambda octets, at, end: True,
    0x42: lambda octets, at, end: False,
    0x56: lambda octets, at, end: {0: False, 1: True}.get(octets[at]),
    0x54: lambda octets, at, end: _NUMBERS[0x54](octets, at)[0],
    0x71: lambda octets, at, end: _NUMBERS[0x71](octets, at)[0],
    0x81: _long,
    0x80: _ulong,
    0x82: lambda octets, at, end: _double(octets, at)[0],
    0x98: lambda octets, at, end: UUID(bytes=octets[at:end]),
}


def _readable(octets: bytes, begin: int, end: int) -> str:
    """The text there, or what comes closest to text."""
    constructor = octets[begin]
    skipped = _TEXTS.get(constructor) or _SYMBOLS.get(constructor) or _BINARIES.get(constructor)
    if skipped is not None:
        return octets[begin + skipped : end].decode("utf-8", "replace")
    if constructor == 0x98:
        return str(UUID(bytes=octets[begin + 1 : end]))
    number = _number(octets, begin)
    return octets[begin:end].hex() if number is None else str(number)


def plain(value: Opaque) -> bytes | str | int | float | UUID:
    """The content of a simple value: the text of a symbol, milliseconds since 1970 of a timestamp. Raises ValueError for other types."""
    octets = value.octets
    constructor = octets[0]
    if constructor in _SYMBOLS:
        return octets[_SYMBOLS[constructor] :].decode()
    if constructor in _BINARIES:
        return octets[_BINARIES[constructor] :]
    if constructor == 0x98:
        return UUID(bytes=octets[1:])
    if constructor == 0x72:
        return float(struct.unpack_from(">f", octets, 1)[0])
    number = _number(octets, 0)
    if number is None:
        raise ValueError(f"a value of type 0x{constructor:02x} is not simple")
    return number


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
