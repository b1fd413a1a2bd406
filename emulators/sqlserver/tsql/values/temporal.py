"""Dates and times: parsing, rounding, formatting and arithmetic on one neutral form. Knows no clock.

Times are counted in ticks of 100 ns, SQL Server's finest unit. Sources: the pages of the date and time types, CAST and CONVERT
(styles), DATEADD, DATEDIFF and DATEPART on https://learn.microsoft.com/sql/t-sql/.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR, date, datetime
from typing import NamedTuple

from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import date_conversion, date_range, unsupported

TICKS = 10_000_000
"""Ticks a second."""
DAY = 86_400 * TICKS
EPOCH = date(1900, 1, 1).toordinal()
_LAST_DAY = date(MAXYEAR, 12, 31).toordinal()
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH_NUMBER = {name.lower(): number for number, name in enumerate(_MONTHS, 1)}

_TIME = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.:](?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<half>[AaPp][Mm])?"
)
_OFFSET = r"(?:\s*(?P<zone>[Zz]|[+-]\d{2}:\d{2}))?"
_DATES = (
    r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})",
    r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})",
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
    r"(?P<m>\d{1,2})[/.-](?P<d>\d{1,2})[/.-](?P<y>\d{4})",
    r"(?P<mon>[A-Za-z]{3,9})\.?\s+(?P<d>\d{1,2}),?\s+(?P<y>\d{4})",
    r"(?P<d>\d{1,2})\s+(?P<mon>[A-Za-z]{3,9}),?\s+(?P<y>\d{4})",
)
_SHORT_YEAR = r"(?P<a>\d{1,2})[/.-](?P<b>\d{1,2})[/.-](?P<c>\d{2}(?:\d{2})?)"
_YEAR_FIRST = r"(?P<a>\d{2}(?:\d{2})?)[/.-](?P<b>\d{1,2})[/.-](?P<c>\d{1,2})"
_NAMED_SHORT = (
    r"(?P<mon>[A-Za-z]{3,9})\.?\s+(?P<d>\d{1,2}),?\s+(?P<y>\d{2})",
    r"(?P<d>\d{1,2})\s+(?P<mon>[A-Za-z]{3,9}),?\s+(?P<y>\d{2})",
    r"(?P<y>\d{2})(?P<m>\d{2})(?P<d>\d{2})",
)
_CUTOFF = 49
"""The last two-digit year of this century: https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-two-digit-year-cutoff-server-configuration-option"""
_DAY_FIRST = (3, 4, 5, 13, 103, 104, 105, 113)
_YEAR_FIRST_STYLES = (2, 11, 102, 111)
_ISO_STYLES = (126, 127)
_WHOLE = [re.compile(rf"\s*{form}(?:(?:T|\s+){_TIME}{_OFFSET})?\s*$") for form in _DATES]
_SHORT = [re.compile(rf"\s*{form}(?:(?:T|\s+){_TIME}{_OFFSET})?\s*$") for form in _NAMED_SHORT]
_ORDERED = {form: re.compile(rf"\s*{form}(?:(?:T|\s+){_TIME}{_OFFSET})?\s*$") for form in (_SHORT_YEAR, _YEAR_FIRST)}
_STRICT_ISO = re.compile(r"\s*\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,7})?)?([Zz]|[+-]\d{2}:\d{2})?)?\s*$")
_TIME_ONLY = re.compile(rf"\s*{_TIME}{_OFFSET}\s*$")


class Moment(NamedTuple):
    """`days`: proleptic ordinal (date.toordinal); `ticks`: local time of day; `offset`: minutes east of UTC, if known."""

    days: int
    ticks: int
    offset: int | None = None


def moment_of(when: datetime) -> Moment:
    ticks = ((when.hour * 60 + when.minute) * 60 + when.second) * 10_000_000 + when.microsecond * 10
    return Moment(when.toordinal(), ticks, 0)


def parse(text: str, style: int = 0) -> Moment:
    """Read a string as T-SQL does under us_english. A time alone is on 1900-01-01. Raises 241.

    `style` orders the numbers of a date as CONVERT's table of styles does: month first, day first (103 to 105) or year first
    (102, 111); 126 and 127 take nothing but ISO 8601. A four-digit year in front of a day-first style is refused.
    """
    if style in (130, 131):
        raise unsupported(f"CONVERT with style {style}")
    if not text.strip():
        return Moment(EPOCH, 0)
    if style in _ISO_STYLES and not _STRICT_ISO.match(text):
        raise date_conversion()
    ordered = _ordered(text, style)
    if ordered is not None:
        return ordered
    for form in _WHOLE:
        match = form.match(text)
        if match:
            groups = match.groupdict()
            days = _day(groups)
            ticks = _time_of(groups) if groups["hour"] is not None else 0
            return Moment(days, ticks, _zone(groups["zone"]))
    match = _TIME_ONLY.match(text)
    if match and (match["minute"] is not None or match["half"]):
        groups = match.groupdict()
        return Moment(EPOCH, _time_of(groups), _zone(groups["zone"]))
    raise date_conversion()


def _ordered(text: str, style: int) -> Moment | None:
    """A date of three numbers whose order the style says; None for the forms that need no style."""
    if style in _DAY_FIRST and re.match(r"\s*\d{4}[-/.]", text):
        raise unsupported(f"a year in front in a date of style {style}")
    match = _ORDERED[_YEAR_FIRST if style in _YEAR_FIRST_STYLES else _SHORT_YEAR].match(text)
    if match is None:
        match = next((found for form in _SHORT if (found := form.match(text))), None)
        return None if match is None else _from_groups(match.groupdict())
    groups: dict[str, str | None] = match.groupdict()
    order = "ymd" if style in _YEAR_FIRST_STYLES else "dmy" if style in _DAY_FIRST else "mdy"
    groups |= dict(zip(order, (groups["a"], groups["b"], groups["c"]), strict=True))
    return _from_groups(groups)


def _from_groups(groups: dict[str, str | None]) -> Moment:
    year = groups["y"] or ""
    if len(year) == 2:
        groups["y"] = ("20" if int(year) <= _CUTOFF else "19") + year
    ticks = _time_of(groups) if groups["hour"] is not None else 0
    return Moment(_day(groups), ticks, _zone(groups["zone"]))


def _day(groups: dict[str, str | None]) -> int:
    name = groups.get("mon")
    month = _MONTH_NUMBER.get(name[:3].lower(), 0) if name else int(groups["m"] or 0)
    try:
        return date(int(groups["y"] or 0), month, int(groups["d"] or 0)).toordinal()
    except ValueError:
        raise date_conversion() from None


def _time_of(groups: dict[str, str | None]) -> int:
    hour, minute, second = (int(groups[part] or 0) for part in ("hour", "minute", "second"))
    half = (groups["half"] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise date_conversion()
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise date_conversion()
    fraction = groups["fraction"] or ""
    if len(fraction) > 7:
        raise date_conversion()
    return ((hour * 60 + minute) * 60 + second) * TICKS + int(fraction.ljust(7, "0") or 0)


def _zone(text: str | None) -> int | None:
    if text is None:
        return None
    if text in "Zz":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    if minutes > 14 * 60:
        raise date_conversion()
    return minutes if text[0] == "+" else -minutes


def read(value: str, kind: SqlType) -> Moment:
    """A value in the storage form of `kind`."""
    if kind.name == "time":
        return Moment(EPOCH, _clock(value))
    days = date(int(value[:4]), int(value[5:7]), int(value[8:10])).toordinal()
    if kind.name == "date":
        return Moment(days, 0)
    if kind.name == "datetimeoffset":
        clock, zone = value[11:].split(" ")
        return Moment(days, _clock(clock), _zone(zone))
    return Moment(days, _clock(value[11:]))


def _clock(text: str) -> int:
    whole = (int(text[:2]) * 60 + int(text[3:5])) * 60 + int(text[6:8])
    return whole * TICKS + (int(text[9:].ljust(7, "0")) if len(text) > 9 else 0)


def instant(value: str) -> int:
    """Ticks of UTC of a datetimeoffset in storage form, for comparing."""
    moment = read(value, SqlType("datetimeoffset"))
    return moment.days * DAY + moment.ticks - (moment.offset or 0) * 60 * TICKS


def rounded(moment: Moment, scale: int) -> Moment:
    """Half up to `scale` fractional digits; may carry into the next day."""
    unit = 10 ** (7 - scale)
    ticks = (moment.ticks + unit // 2) // unit * unit
    return _carried(moment.days, ticks, moment.offset)


def _carried(days: int, ticks: int, offset: int | None = None) -> Moment:
    return Moment(days + ticks // DAY, ticks % DAY, offset)


def datetime_rounded(moment: Moment) -> Moment:
    """To 1/300 s, shown as .000, .003 and .007."""
    units = (moment.ticks * 300 + TICKS // 2) // TICKS
    moved = _carried(moment.days, units // 300 * TICKS)
    return Moment(moved.days, moved.ticks + (units % 300 * 10 + 1) // 3 * 10_000)


def write(moment: Moment, kind: SqlType, source: str = "varchar") -> str:
    """The storage form in `kind`, rounded as that type does. Raises 242 outside its range."""
    name = kind.name
    if name == "datetime":
        moment = datetime_rounded(moment)
        if not 639_906 <= moment.days <= _LAST_DAY:
            raise date_range(source, name)
        return f"{_date_text(moment.days)} {clock_text(moment.ticks, 3)}"
    if name == "smalldatetime":
        ticks = (datetime_rounded(moment).ticks + 30 * TICKS) // (60 * TICKS) * (60 * TICKS)
        moment = _carried(datetime_rounded(moment).days, ticks)
        if not EPOCH <= moment.days <= EPOCH + 65_535:
            raise date_range(source, name)
        return f"{_date_text(moment.days)} {clock_text(moment.ticks, 0)}"
    scale = kind.scale if kind.scale is not None else 7
    if name == "date":
        return _date_text(moment.days)
    if name == "time":
        return clock_text(rounded(moment, scale).ticks, scale)
    moment = rounded(moment, scale)
    if moment.days > _LAST_DAY or moment.days < 1:
        raise date_range(source, name)
    text = f"{_date_text(moment.days)} {clock_text(moment.ticks, scale)}"
    return text if name == "datetime2" else f"{text} {offset_text(moment.offset or 0)}"


def _date_text(days: int) -> str:
    return date.fromordinal(days).isoformat()


def clock_text(ticks: int, scale: int) -> str:
    seconds, fraction = divmod(ticks, TICKS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    return f"{text}.{fraction:07}"[: 9 + scale] if scale else text


def offset_text(minutes: int) -> str:
    size = abs(minutes)
    return f"{'-' if minutes < 0 else '+'}{size // 60:02}:{size % 60:02}"


def shifted(moment: Moment, ticks: int) -> Moment:
    """Moved by `ticks`, across days."""
    total = moment.days * DAY + moment.ticks + ticks
    return Moment(total // DAY, total % DAY, moment.offset)


def at_offset(moment: Moment, minutes: int) -> Moment:
    """The same instant, seen at another offset."""
    moved = shifted(moment, (minutes - (moment.offset or 0)) * 60 * TICKS)
    return Moment(moved.days, moved.ticks, minutes)


def month_name(month: int) -> str:
    return _MONTHS[month - 1]
