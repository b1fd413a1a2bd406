"""DATEADD, DATEDIFF, DATEPART and the CONVERT styles of dates, on the neutral form of temporal.py.

Source: https://learn.microsoft.com/sql/t-sql/functions/date-and-time-data-types-and-functions-transact-sql
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import date_overflow, unsupported
from emulators.sqlserver.tsql.values.temporal import (
    DAY,
    TICKS,
    Moment,
    clock_text,
    month_name,
    offset_text,
    shifted,
)

PARTS = {
    alias: part
    for part, aliases in {
        "year": "year yy yyyy",
        "quarter": "quarter qq q",
        "month": "month mm m",
        "dayofyear": "dayofyear dy y",
        "day": "day dd d",
        "week": "week wk ww",
        "weekday": "weekday dw w",
        "hour": "hour hh",
        "minute": "minute mi n",
        "second": "second ss s",
        "millisecond": "millisecond ms",
        "microsecond": "microsecond mcs",
        "nanosecond": "nanosecond ns",
        "tzoffset": "tzoffset tz",
        "iso_week": "iso_week isowk isoww",
    }.items()
    for alias in aliases.split()
}
"""Every spelling of a datepart -> its name."""

_TICKS_OF = {
    "week": 7 * DAY,
    "weekday": DAY,
    "dayofyear": DAY,
    "day": DAY,
    "hour": 3600 * TICKS,
    "minute": 60 * TICKS,
    "second": TICKS,
    "millisecond": TICKS // 1000,
    "microsecond": TICKS // 1_000_000,
}
_WINDOWS_ZONES = {
    "utc": "UTC",
    "greenwich standard time": "Atlantic/Reykjavik",
    "gmt standard time": "Europe/London",
    "w. europe standard time": "Europe/Berlin",
    "central europe standard time": "Europe/Budapest",
    "central european standard time": "Europe/Warsaw",
    "romance standard time": "Europe/Paris",
    "e. europe standard time": "Europe/Chisinau",
    "gtb standard time": "Europe/Bucharest",
    "fle standard time": "Europe/Kyiv",
    "russian standard time": "Europe/Moscow",
    "eastern standard time": "America/New_York",
    "central standard time": "America/Chicago",
    "mountain standard time": "America/Denver",
    "pacific standard time": "America/Los_Angeles",
    "india standard time": "Asia/Kolkata",
    "china standard time": "Asia/Shanghai",
    "tokyo standard time": "Asia/Tokyo",
    "aus eastern standard time": "Australia/Sydney",
    "new zealand standard time": "Pacific/Auckland",
    "trinidad standard time": "America/Port_of_Spain",
    "sa western standard time": "America/La_Paz",
}


def add(part: str, amount: int, moment: Moment, kind: SqlType) -> Moment:
    """DATEADD. Raises 517 when the date leaves the calendar."""
    try:
        if part in ("year", "quarter", "month"):
            return _add_months(moment, amount * {"year": 12, "quarter": 3, "month": 1}[part])
        if part == "nanosecond":
            return shifted(moment, (amount + 50) // 100)
        if part not in _TICKS_OF:
            raise unsupported(f"DATEADD({part})")
        moved = shifted(moment, amount * _TICKS_OF[part])
        date.fromordinal(moved.days)
    except (ValueError, OverflowError):
        raise date_overflow(kind.name) from None
    return moved


def _add_months(moment: Moment, months: int) -> Moment:
    day = date.fromordinal(moment.days)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return moment._replace(days=date(year, month + 1, min(day.day, last)).toordinal())


def truncated(part: str, moment: Moment) -> Moment:
    """DATETRUNC, weeks beginning on Sunday (DATEFIRST 7)."""
    day = date.fromordinal(moment.days)
    starts = {
        "year": date(day.year, 1, 1).toordinal(),
        "quarter": date(day.year, (day.month - 1) // 3 * 3 + 1, 1).toordinal(),
        "month": date(day.year, day.month, 1).toordinal(),
        "week": moment.days - day.isoweekday() % 7,
        "iso_week": moment.days - day.weekday(),
        "day": moment.days,
        "dayofyear": moment.days,
    }
    if part in starts:
        return moment._replace(days=starts[part], ticks=0)
    unit = _TICKS_OF[part]
    return moment._replace(ticks=moment.ticks // unit * unit)


def difference(part: str, start: Moment, end: Moment) -> int:
    """DATEDIFF: boundaries of `part` crossed from start to end."""
    if part in ("year", "quarter", "month"):
        first, last = date.fromordinal(start.days), date.fromordinal(end.days)
        months = {"year": 12, "quarter": 3, "month": 1}[part]
        return (last.year * 12 + last.month - 1) // months - (first.year * 12 + first.month - 1) // months
    if part == "week":
        return end.days // 7 - start.days // 7
    if part == "nanosecond":
        return (_total(end) - _total(start)) * 100
    if part not in _TICKS_OF:
        raise unsupported(f"DATEDIFF({part})")
    unit = _TICKS_OF[part]
    return _total(end) // unit - _total(start) // unit


def _total(moment: Moment) -> int:
    return moment.days * DAY + moment.ticks - (moment.offset or 0) * 60 * TICKS


def component(part: str, moment: Moment) -> int:
    """DATEPART, with DATEFIRST 7 as under us_english."""
    day = date.fromordinal(moment.days)
    ticks = moment.ticks
    if part == "tzoffset":
        return moment.offset or 0
    if part == "week":
        first = date(day.year, 1, 1)
        return (day.timetuple().tm_yday + first.isoweekday() % 7 - 1) // 7 + 1
    values = {
        "year": day.year,
        "quarter": (day.month + 2) // 3,
        "month": day.month,
        "day": day.day,
        "dayofyear": day.timetuple().tm_yday,
        "weekday": day.isoweekday() % 7 + 1,
        "iso_week": day.isocalendar()[1],
        "hour": ticks // (3600 * TICKS),
        "minute": ticks // (60 * TICKS) % 60,
        "second": ticks // TICKS % 60,
        "millisecond": ticks % TICKS // 10_000,
        "microsecond": ticks % TICKS // 10,
        "nanosecond": ticks % TICKS * 100,
    }
    return values[part]


def zone(name: str) -> ZoneInfo:
    """The zone of AT TIME ZONE, by Windows' name or IANA's. Raises 9820."""
    try:
        return _zone(_WINDOWS_ZONES.get(name.lower(), name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        text = f"The time zone parameter '{name}' provided to AT TIME ZONE clause is invalid."
        raise SqlError(9820, text, 16) from None


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def styled(moment: Moment, kind: SqlType, style: int) -> str:
    """CONVERT(varchar, a date or time, style); style 0 of the newer types is their ISO form (style 121)."""
    scale = {"date": 0, "smalldatetime": 3, "datetime": 3}.get(kind.name, kind.scale if kind.scale is not None else 7)
    if style in (0, 100) and kind.name not in ("datetime", "smalldatetime"):
        style = 121
    style = {24: 108, 8: 108, 9: 109, 13: 113, 14: 114}.get(style, style)
    day, ticks = date.fromordinal(moment.days), moment.ticks
    clock = clock_text(ticks, scale)
    iso = day.isoformat()
    if style in (20, 120):
        date_part, time_part = iso, clock_text(ticks, 0)
    elif style in (21, 25, 121):
        date_part, time_part = iso, clock_text(ticks, 0) + ".000" if kind.name == "smalldatetime" else clock
    elif style in (126, 127):
        return _iso_styled(moment, kind, style, scale)
    elif style == 23:
        return iso
    elif style == 22:
        half = (
            f"{ticks // (3600 * TICKS) % 12 or 12:>2}{clock_text(ticks, 0)[2:]} {'PM' if ticks >= DAY // 2 else 'AM'}"
        )
        return f"{day.month:02}/{day.day:02}/{day.year % 100:02} {half}"
    else:
        return _old_styled(day, ticks, kind, style, scale)
    if kind.name == "date":
        return date_part
    if kind.name == "time":
        return time_part
    text = f"{date_part} {time_part}"
    return f"{text} {offset_text(moment.offset or 0)}" if kind.name == "datetimeoffset" else text


def _iso_styled(moment: Moment, kind: SqlType, style: int, scale: int) -> str:
    """Styles 126 and 127 leave out milliseconds of .000 for datetime, as Microsoft's page on CONVERT says."""
    iso = date.fromordinal(moment.days).isoformat()
    if kind.name == "date":
        return iso
    bare = kind.name in ("datetime", "smalldatetime") and moment.ticks % TICKS == 0
    clock = clock_text(moment.ticks, 0 if bare else scale)
    if kind.name == "time":
        return clock
    if kind.name == "datetimeoffset":
        if style == 127:
            moved = shifted(moment, -(moment.offset or 0) * 60 * TICKS)
            return f"{date.fromordinal(moved.days).isoformat()}T{clock_text(moved.ticks, scale)}Z"
        return f"{iso}T{clock}{offset_text(moment.offset or 0)}"
    return f"{iso}T{clock}"


def _old_styled(day: date, ticks: int, kind: SqlType, style: int, scale: int) -> str:
    hour, minute = ticks // (3600 * TICKS), ticks // (60 * TICKS) % 60
    half = f"{hour % 12 or 12:>2}:{minute:02}"
    suffix = "PM" if hour >= 12 else "AM"
    y, m, d = str(day.year) if style >= 100 or style == 0 else f"{day.year % 100:02}", day.month, day.day
    seconds = clock_text(ticks, 0)
    # datetime writes :mmm; the newer types write the digits that they have behind a point.
    old = kind.name in ("datetime", "smalldatetime")
    fraction = f":{ticks % TICKS // 10_000:03}" if old else clock_text(ticks, scale)[8:]
    forms = {
        0: f"{month_name(m)} {d:>2} {y} {half}{suffix}",
        9: f"{month_name(m)} {d:>2} {y} {half}:{seconds[6:]}{fraction}{suffix}",
        1: f"{m:02}/{d:02}/{y}",
        2: f"{y}.{m:02}.{d:02}",
        3: f"{d:02}/{m:02}/{y}",
        4: f"{d:02}.{m:02}.{y}",
        5: f"{d:02}-{m:02}-{y}",
        6: f"{d:02} {month_name(m)} {y}",
        7: f"{month_name(m)} {d:02}, {y}",
        8: seconds,
        10: f"{m:02}-{d:02}-{y}",
        11: f"{y}/{m:02}/{d:02}",
        12: f"{y}{m:02}{d:02}",
        13: f"{d:02} {month_name(m)} {y} {seconds}{fraction}",
        14: seconds + fraction,
    }
    if not 100 <= style <= 114 and not 0 <= style <= 14:
        raise unsupported(f"CONVERT of {kind.name} with style {style}")
    return forms[style % 100]
