"""A date and time as a client writes it, in the form in which datetime values are stored: rounded to 1/300 s. Pure.

Source: https://learn.microsoft.com/sql/t-sql/data-types/datetime-transact-sql
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from emulators.sqlserver.results import SqlError, Value

_FORM = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?")


def datetime_value(value: Value) -> str | None:
    """The stored form of an ISO date and time; NULL stays NULL. Raises 241 for text that is none."""
    if value is None:
        return None
    match = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise SqlError(241, "Conversion failed when converting date and/or time from character string.")
    date, clock, fraction = match.groups()
    try:
        seconds = datetime.fromisoformat(f"{date} {clock or '00:00:00'}")
    except ValueError as wrong:
        raise SqlError(241, "Conversion failed when converting date and/or time from character string.") from wrong
    nanoseconds = int((fraction or "0").ljust(9, "0"))
    ticks = (nanoseconds * 300 + 500_000_000) // 1_000_000_000
    moment = seconds + timedelta(milliseconds=(ticks * 10 + 1) // 3)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
