"""Durations as the management API and the emulator's configuration file write them: ISO 8601, days and smaller.

Refuses years and months, which have no fixed length, by name.
Source: https://learn.microsoft.com/rest/api/servicebus/create-queue (`PT60S`, `P14D`; never is the largest TimeSpan of .NET).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from .description import FOREVER, InvalidEntity

FOREVER_TEXT: Final = "P10675199DT2H48M5.4775807S"
"""The largest .NET TimeSpan: how the service writes 'never'."""

_FOREVER_DAYS: Final = 10_675_199
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_CALENDAR: Final = re.compile(r"P[^T]*[YM]")


def duration_text(value: timedelta) -> str:
    """As .NET writes a TimeSpan: only the parts that are not zero, `PT1M30S`, `P14D`; FOREVER and beyond as the largest one."""
    if value.days >= _FOREVER_DAYS:
        return FOREVER_TEXT
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    clock = "".join((
        f"{hours}H" if hours else "",
        f"{minutes}M" if minutes else "",
        f"{seconds}{fraction}S" if seconds or fraction else "",
    ))  # fmt: skip
    return f"P{days}T{clock}" if clock else f"P{days or 'T0S'}"


def read_duration(text: str) -> timedelta:
    """`PT1M30S`, `P14D`; from 10,675,199 days on it is FOREVER. Raises InvalidEntity."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        hint = "; years and months have no fixed length: write days" if _CALENDAR.match(text.strip()) else ""
        raise InvalidEntity(
            f"the value {text!r} is not an ISO 8601 duration of days, hours, minutes and seconds, as PT1M30S is{hint}"
        )
    parts = {unit: float(number) for unit, number in match.groupdict().items() if number}
    try:
        value = timedelta(**parts)
    except OverflowError:
        return FOREVER
    return FOREVER if value.days >= _FOREVER_DAYS else value
