"""DATEFROMPARTS and its kin: a date or time out of its numbers.

Source: https://learn.microsoft.com/sql/t-sql/functions/datetime2fromparts-transact-sql and the pages beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.values import temporal
from emulators.sqlserver.tsql.values.temporal import DAY, EPOCH, TICKS, Moment

_CLOCK = ("hour", "minute", "second")
_DATE = ("year", "month", "day")
PARTS: dict[str, tuple[str, ...]] = {
    "DATEFROMPARTS": _DATE,
    "DATETIMEFROMPARTS": (*_DATE, *_CLOCK, "millisecond"),
    "SMALLDATETIMEFROMPARTS": (*_DATE, "hour", "minute"),
    "DATETIME2FROMPARTS": (*_DATE, *_CLOCK, "fraction", "precision"),
    "TIMEFROMPARTS": (*_CLOCK, "fraction", "precision"),
    "DATETIMEOFFSETFROMPARTS": (*_DATE, *_CLOCK, "fraction", "hour_offset", "minute_offset", "precision"),
}
"""The arguments of each function, in order."""


def result_type(name: str, scale: int | None) -> SqlType:
    kind = name.removesuffix("FROMPARTS").lower()
    if scale is not None and not 0 <= scale <= 7:
        raise SqlError(1002, f"Line 1: Specified scale {scale} is invalid.", 16)
    return SqlType(kind, None, None, scale) if kind not in ("date", "datetime", "smalldatetime") else SqlType(kind)


def maker(name: str, kind: SqlType) -> Callable[..., Value]:
    """NULL for any NULL; error 289 for numbers that are no date or time."""
    parts = PARTS[name][: -1 if PARTS[name][-1] == "precision" else None]

    def run(*values: Value) -> Value:
        if None in values:
            return None
        numbers = {part: int(str(value)) for part, value in zip(parts, values, strict=True)}
        try:
            return temporal.write(_moment(numbers, kind), kind)
        except (ValueError, OverflowError, SqlError):
            text = f"Cannot construct data type {kind.name}, some of the arguments have values which are not valid."
            raise SqlError(289, text, 16) from None

    return run


def _moment(numbers: dict[str, int], kind: SqlType) -> Moment:
    """Raises ValueError."""
    days = date(numbers["year"], numbers["month"], numbers["day"]).toordinal() if "year" in numbers else EPOCH
    hour, minute, second = (numbers.get(part, 0) for part in _CLOCK)
    scale = kind.scale or 0
    fraction, millisecond = numbers.get("fraction", 0), numbers.get("millisecond", 0)
    clock_fits = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    if not clock_fits or not 0 <= fraction < 10**scale or not 0 <= millisecond < 1000:
        raise ValueError(numbers)
    ticks = ((hour * 60 + minute) * 60 + second) * TICKS + fraction * 10 ** (7 - scale) + millisecond * 10_000
    assert ticks < DAY
    offset = numbers.get("hour_offset", 0) * 60 + numbers.get("minute_offset", 0)
    if abs(offset) > 14 * 60 or numbers.get("hour_offset", 0) * numbers.get("minute_offset", 0) < 0:
        raise ValueError(numbers)
    return Moment(days, ticks, offset if kind.name == "datetimeoffset" else None)
