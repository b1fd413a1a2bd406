"""Conversions of a page's column at once, where that takes less time than a value at a time. Pure.

The results are those of `values.py`, which decides what a value looks like. Whatever does not fit what is assumed here is converted there, a
value at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from ingester.sqlserver.values import Convert, date_of, datetime2, guid, second_of


def converted(convert: Convert, values: Sequence[Any]) -> list[object]:
    """What `convert` makes of each of the `values`, none of which is None."""
    at_once = _AT_ONCE.get(convert)
    found = at_once(values) if at_once is not None and values else None
    return list(map(convert, values)) if found is None else found


def converted_or_null(convert: Convert, values: Sequence[Any]) -> list[object]:
    """The same for values that may be None, and stay None."""
    if None not in values:
        return converted(convert, values)
    ready = iter(converted(convert, [value for value in values if value is not None]))
    return [None if value is None else next(ready) for value in values]


_GUID: Final = 36
_DASHES: Final = (8, 13, 18, 23)
_STORED: Final = (3, 2, 1, 0, 5, 4, 7, 6, *range(8, 16))
"""By the place of a byte in a uniqueidentifier's text, its place among those that are stored."""
_DIGITS: Final = list(
    zip(
        (place for place in range(_GUID) if place not in _DASHES),
        (2 * stored + half for stored in _STORED for half in (0, 1)),
        strict=True,
    )
)
"""Of each digit its place in the text, and its place among the digits that are stored."""


def _guids(values: Sequence[bytes]) -> list[object] | None:
    """Digit by digit, each of all values: 32 copies for a page, where a text takes nine for a value."""
    if set(map(len, values)) != {16}:
        return None
    stored = b"".join(values).hex().upper().encode("ascii")
    texts = bytearray(b"-") * (_GUID * len(values))
    for to, source in _DIGITS:
        texts[to::_GUID] = stored[source::32]
    text = texts.decode("ascii")
    return [text[begin : begin + _GUID] for begin in range(0, len(text), _GUID)]


_MOMENT: Final = Struct("<xQ")
"""Behind the scale five bytes of the time of day and three of the date, as one number."""
_TIME_BITS: Final = 40
_TIME: Final = (1 << _TIME_BITS) - 1


def _datetimes(values: Sequence[bytes]) -> list[object] | None:
    """Those of one scale whose time has five bytes, which are three in four."""
    stored = b"".join(values)
    scale = stored[0] if stored else 0
    if set(map(len, values)) != {_MOMENT.size} or stored[:: _MOMENT.size] != bytes((scale,)) * len(values):
        return None
    if scale not in (5, 6, 7):
        return None
    unit, found = 10**scale, list[object]()
    for (moment,) in _MOMENT.iter_unpack(stored):
        seconds, fraction = divmod(moment & _TIME, unit)
        found.append(f"{date_of(moment >> _TIME_BITS)}T{second_of(seconds)}.{fraction:0{scale}d}")
    return found


_AT_ONCE: Final[dict[Convert, Callable[[Sequence[bytes]], list[object] | None]]] = {guid: _guids, datetime2: _datetimes}
