"""Dates and times as the bytes that CONVERT(varbinary, ...) makes of them.

The types of 2008 are stored with the lowest byte first, and begin with their scale (date has none): the time of day in units of
that scale, the days from 0001-01-01, and for datetimeoffset the minutes from UTC behind a time in UTC. The older ones are numbers
with the highest byte first. Refuses what does not fit: 8152.
Sources: https://bornsql.ca/blog/datetime2-8-bytes-binary-9-bytes/,
https://weblogs.sqlteam.com/peterl/2010/12/15/the-internal-storage-of-a-datetimeoffset-value
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import lru_cache

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType

_DAY_SECONDS = 86_400
_EPOCH = date(1900, 1, 1).toordinal() - 1


def date_bytes(source: SqlType, limit: int | None) -> Callable[[Value], bytes]:
    """For values of `source`, which is one of the types of dates and times."""
    make = _MAKERS[source.name](source)

    def run(value: Value) -> bytes:
        assert isinstance(value, str)
        data = make(value)
        if limit is not None and len(data) > limit:
            raise SqlError(8152, "String or binary data would be truncated.", 16, 17)
        return data

    return run


@lru_cache(maxsize=8192)
def _days(text: str) -> int:
    return date.fromisoformat(text).toordinal() - 1


@lru_cache(maxsize=8192)
def _seconds(text: str) -> int:
    return int(text[0:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])


def _date(source: SqlType) -> Callable[[str], bytes]:
    return lambda text: _days(text).to_bytes(3, "little")


def _scale(source: SqlType) -> tuple[int, int, int]:
    """The scale, its unit of a second, and the bytes of a time of day."""
    scale = 7 if source.scale is None else source.scale
    return scale, 10**scale, 3 if scale <= 2 else 4 if scale <= 4 else 5


def _time(source: SqlType) -> Callable[[str], bytes]:
    scale, unit, size = _scale(source)
    return lambda text: bytes((scale,)) + _ticks(text, unit).to_bytes(size, "little")


def _ticks(text: str, unit: int) -> int:
    return _seconds(text[:8]) * unit + (int(text[9:]) if unit > 1 else 0)


def _datetime2(source: SqlType) -> Callable[[str], bytes]:
    scale, unit, size = _scale(source)
    bits, whole = size * 8, size + 4

    def run(text: str) -> bytes:
        number = (_days(text[:10]) << bits | _ticks(text[11:], unit)) << 8 | scale
        return number.to_bytes(whole, "little")

    return run


def _datetimeoffset(source: SqlType) -> Callable[[str], bytes]:
    scale, unit, size = _scale(source)

    def run(text: str) -> bytes:
        local, _, zone = text.rpartition(" ")
        offset = (int(zone[1:3]) * 60 + int(zone[4:6])) * (-1 if zone[0] == "-" else 1)
        moved, ticks = divmod(_ticks(local[11:], unit) - offset * 60 * unit, _DAY_SECONDS * unit)
        day = (_days(local[:10]) + moved).to_bytes(3, "little")
        return b"".join(
            (bytes((scale,)), ticks.to_bytes(size, "little"), day, offset.to_bytes(2, "little", signed=True))
        )

    return run


def _datetime(source: SqlType) -> Callable[[str], bytes]:
    def run(text: str) -> bytes:
        ticks = _seconds(text[11:19]) * 300 + (int(text[20:23]) * 3 + 5) // 10
        return (_days(text[:10]) - _EPOCH).to_bytes(4, "big", signed=True) + ticks.to_bytes(4, "big")

    return run


def _smalldatetime(source: SqlType) -> Callable[[str], bytes]:
    return lambda text: (
        (_days(text[:10]) - _EPOCH).to_bytes(2, "big") + (_seconds(text[11:19]) // 60).to_bytes(2, "big")
    )


_MAKERS: dict[str, Callable[[SqlType], Callable[[str], bytes]]] = {
    "date": _date,
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
}
