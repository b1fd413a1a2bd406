"""Dates and times between their text form (sqltypes.py) and the counts TDS carries (MS-TDS 2.2.5.5.1.8).

Pure arithmetic on strings and integers: Python's datetime stops at microseconds, SQL Server's types at 100 nanoseconds.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from emulators.sqlserver.wire.errors import ProtocolError

DAYS_TO_1900 = 693595
"""Days from 0001-01-01, where date counts from, to 1900-01-01, where datetime does."""

_LAST_DAY = date.max.toordinal() - 1
_DAY_SECONDS = 86400


@lru_cache(maxsize=8192)
def days(text: str) -> int:
    """Days from 0001-01-01 to "YYYY-MM-DD"."""
    return date.fromisoformat(text).toordinal() - 1


def date_text(count: int) -> str:
    if not 0 <= count <= _LAST_DAY:
        raise ProtocolError(f"{count} days after 0001-01-01 is no date")
    return date.fromordinal(count + 1).isoformat()


@lru_cache(maxsize=8192)
def _seconds(text: str) -> int:
    return int(text[0:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])


def ticks(text: str, scale: int) -> int:
    """Units of 10**-scale seconds in "HH:MM:SS[.f...]", which has exactly `scale` fractional digits."""
    if not scale:
        return _seconds(text)
    return _seconds(text[:8]) * int(10**scale) + int(text[9:])


def time_text(count: int, scale: int) -> str:
    unit = 10**scale
    seconds, fraction = divmod(count, unit)
    if seconds >= _DAY_SECONDS:
        raise ProtocolError(f"{count} units of 10^-{scale} s is no time of day")
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{scale}d}" if scale else text


def time_size(scale: int) -> int:
    """Bytes of a time of this scale."""
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


@lru_cache(maxsize=8192)
def datetime_ticks(text: str) -> int:
    """Units of 1/300 s in "HH:MM:SS.mmm"."""
    return _seconds(text[:8]) * 300 + (int(text[9:12]) * 3 + 5) // 10


def datetime_text(day: int, count: int) -> str:
    """`day` counts from 1900-01-01, `count` in 1/300 s."""
    seconds, rest = divmod(count, 300)
    if not 0 <= seconds < _DAY_SECONDS:
        raise ProtocolError(f"{count}/300 s is no time of day")
    return f"{date_text(day + DAYS_TO_1900)} {time_text(seconds, 0)}.{(rest * 10 + 1) // 3:03d}"


def smalldatetime_text(day: int, minutes: int) -> str:
    return f"{date_text(day + DAYS_TO_1900)} {time_text(minutes * 60, 0)}"


def offset_minutes(text: str) -> int:
    """ "+05:30" in minutes."""
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    return -minutes if text[0] == "-" else minutes


def to_utc(text: str, scale: int) -> tuple[int, int, int]:
    """(day, ticks, offset) of a datetimeoffset, day and ticks in UTC."""
    body, _, zone = text.rpartition(" ")
    offset = offset_minutes(zone)
    day, count = _carry(days(body[:10]), ticks(body[11:], scale) - offset * 60 * 10**scale, scale)
    return day, count, offset


def from_utc(day: int, count: int, offset: int, scale: int) -> str:
    if not -840 <= offset <= 840:
        raise ProtocolError(f"an offset of {offset} minutes is beyond 14 hours")
    time_text(count, scale)  # refuses a count beyond the day before the shift hides it
    local_day, local = _carry(day, count + offset * 60 * 10**scale, scale)
    sign = "-" if offset < 0 else "+"
    zone = f"{sign}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    return f"{date_text(local_day)} {time_text(local, scale)} {zone}"


def _carry(day: int, count: int, scale: int) -> tuple[int, int]:
    shift, count = divmod(count, _DAY_SECONDS * int(10**scale))
    return day + shift, count
