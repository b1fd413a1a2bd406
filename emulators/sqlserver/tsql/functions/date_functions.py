"""The functions over dates whose first argument is a word (DATEADD, DATEDIFF, DATEPART, DATENAME), and those over offsets and zones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import syntax
from emulators.sqlserver.tsql.functions.functions import BUILTINS, Builtin, Made, builtin, text_of, whole_of
from emulators.sqlserver.tsql.values import datetimes, temporal
from emulators.sqlserver.tsql.values.calls import Call
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.temporal import Moment
from emulators.sqlserver.tsql.values.types import BIGINT, DATETIME, INT, RANGES, family

_WIDE = SqlType("datetimeoffset", None, None, 7)
_WIDE2 = SqlType("datetime2", None, None, 7)
PART_FUNCTIONS = {"DATEADD": 2, "DATEDIFF": 2, "DATEDIFF_BIG": 2, "DATEPART": 1, "DATENAME": 1, "DATETRUNC": 1}
"""Name -> arguments behind the part."""


def part_name(word: str) -> str:
    part = datetimes.PARTS.get(word.lower())
    if part is None:
        raise SqlError(155, f"'{word}' is not a recognized dateadd option.", 15)
    return part


def _reader(kind: SqlType) -> tuple[SqlType, Call]:
    """How an argument is read as a moment; numbers are days since 1900."""
    if family(kind) == "date":
        return kind, lambda value: temporal.read(value, kind)  # type: ignore[return-value]  # a Moment for the caller
    target = _WIDE2 if family(kind) == "string" else DATETIME
    if family(kind) == "string":
        return target, lambda value: temporal.parse(value)  # type: ignore[return-value]  # a Moment for the caller
    read = converter(kind, target)
    return target, lambda value: temporal.read(str(read(value)), target)  # type: ignore[return-value]  # as above


def part_call(name: str, word: str, types: Sequence[SqlType]) -> Made:
    part = part_name(word)
    if name == "DATEADD":
        return _dateadd(part, types)
    if name.startswith("DATEDIFF"):
        return _datediff(part, types, BIGINT if name == "DATEDIFF_BIG" else INT)
    if name == "DATETRUNC":
        return _datetrunc(part, types[0])
    _, read = _reader(types[0])
    if name == "DATEPART":
        return INT, lambda value: datetimes.component(part, read(value))  # type: ignore[arg-type]  # a Moment
    return SqlType("nvarchar", 30), lambda value: _name(part, read(value))  # type: ignore[arg-type]  # a Moment


def _name(part: str, moment: Moment) -> str:
    day = date.fromordinal(moment.days)
    if part == "month":
        return day.strftime("%B")
    if part == "weekday":
        return day.strftime("%A")
    if part == "tzoffset":
        return temporal.offset_text(moment.offset or 0)
    return str(datetimes.component(part, moment))


def _dateadd(part: str, types: Sequence[SqlType]) -> Made:
    kind = types[1] if family(types[1]) == "date" else DATETIME
    source, read = _reader(types[1])
    count = whole_of(types[0])
    if kind.name == "date" and part in ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond"):
        raise SqlError(9810, f"The datepart {part} is not supported by date function dateadd for data type date.", 16)

    def run(amount: Value, value: Value) -> Value:
        moment: Moment = read(value)  # type: ignore[assignment]  # a Moment
        return temporal.write(datetimes.add(part, count(amount), moment, kind), kind, source.name)

    return kind, run


def _datetrunc(part: str, kind: SqlType) -> Made:
    """https://learn.microsoft.com/sql/t-sql/functions/datetrunc-transact-sql: the type stays, text becomes datetime2(7)."""
    source, read = _reader(kind)
    if part in ("weekday", "tzoffset", "nanosecond"):
        text = f"The datepart {part} is not supported by date function datetrunc for data type {source.name}."
        raise SqlError(9810, text, 16)

    def run(value: Value) -> Value:
        moment: Moment = read(value)  # type: ignore[assignment]  # a Moment
        return temporal.write(datetimes.truncated(part, moment), source, source.name)

    return source, run


def _datediff(part: str, types: Sequence[SqlType], result: SqlType) -> Made:
    readers = [_reader(kind)[1] for kind in types]
    low, high = RANGES[result.name]

    def run(start: Value, end: Value) -> Value:
        first, last = (read(value) for read, value in zip(readers, (start, end), strict=True))
        count = datetimes.difference(part, first, last)  # type: ignore[arg-type]  # Moments
        if low <= count <= high:
            return count
        text = (
            "The datediff function resulted in an overflow. The number of dateparts separating two date/time instances "
            "is too large. Try to use datediff with a less precise datepart."
        )
        raise SqlError(535, text, 16)

    return result, run


def _part_shortcut(name: str, part: str) -> None:
    BUILTINS[name] = Builtin(1, 1, lambda types: part_call("DATEPART", part, types))


for _shortcut in ("YEAR", "MONTH", "DAY"):
    _part_shortcut(_shortcut, _shortcut.lower())


def _offset_minutes(kind: SqlType) -> Call:
    """An offset given as minutes or as '+hh:mm'."""
    if family(kind) != "string":
        return lambda value: int(value)
    read = text_of(kind)

    def run(value: Value) -> Value:
        text = read(value)
        try:
            sign = {"+": 1, "-": -1}[text[0]]
            return sign * (int(text[1:3]) * 60 + int(text[4:6]))
        except (KeyError, ValueError, IndexError):
            raise SqlError(9812, f"The timezone provided to builtin function is invalid: {text}.", 16) from None

    return run


@builtin("TODATETIMEOFFSET", 2)
def _todatetimeoffset(types: Sequence[SqlType]) -> Made:
    kind, read = _reader(types[0])
    minutes = _offset_minutes(types[1])
    target = SqlType(
        "datetimeoffset", None, None, 3 if kind.name == "datetime" else kind.scale if kind.scale is not None else 7
    )

    def run(value: Value, offset: Value) -> Value:
        moment: Moment = read(value)  # type: ignore[assignment]  # a Moment
        return temporal.write(moment._replace(offset=int(str(minutes(offset)))), target)

    return target, run


@builtin("SWITCHOFFSET", 2)
def _switchoffset(types: Sequence[SqlType]) -> Made:
    kind = types[0] if types[0].name == "datetimeoffset" else _WIDE
    read = converter(types[0], kind)
    minutes = _offset_minutes(types[1])

    def run(value: Value, offset: Value) -> Value:
        moment = temporal.read(str(read(value)), kind)
        return temporal.write(temporal.at_offset(moment, int(str(minutes(offset)))), kind)

    return kind, run


@builtin("EOMONTH", 1, 2)
def _eomonth(types: Sequence[SqlType]) -> Made:
    _, read = _reader(types[0])

    def run(value: Value, months: Value = 0) -> Value:
        moment: Moment = read(value)  # type: ignore[assignment]  # a Moment
        first = moment._replace(days=moment.days - date.fromordinal(moment.days).day + 1)
        following = datetimes.add("month", int(str(months)) + 1, first, SqlType("date"))
        return temporal.write(following._replace(days=following.days - 1), SqlType("date"))

    return SqlType("date"), run


@builtin("ISDATE", 1, nulls=True)
def _isdate(types: Sequence[SqlType]) -> Made:
    """1 for text that datetime takes, and for datetime itself; date, time and datetime2 are refused with 8116."""
    kind = types[0]
    if kind.name in ("date", "time", "datetime2", "datetimeoffset"):
        raise SqlError(8116, f"Argument data type {kind.name} is invalid for argument 1 of isdate function.", 16)
    if family(kind) == "date":
        return INT, lambda value: int(value is not None)
    if family(kind) != "string":
        return INT, lambda value: 0
    read = converter(kind, DATETIME)

    def run(value: Value) -> Value:
        if value is None or not str(value).strip():
            return 0
        try:
            read(value)
        except SqlError:
            return 0
        return 1

    return INT, run


def at_time_zone(kind: SqlType) -> Made:
    """AT TIME ZONE: attaches the zone's offset to a local time, or moves a datetimeoffset into the zone."""
    if family(kind) != "date" or kind.name in ("date", "time"):
        raise syntax("AT")
    scale = kind.scale if kind.scale is not None else 3 if kind.name == "datetime" else 0
    target = SqlType("datetimeoffset", None, None, scale)
    moves = kind.name == "datetimeoffset"

    def run(value: Value, name: Value) -> Value:
        zone = datetimes.zone(str(name))
        moment = temporal.read(str(value), kind)
        if moves:
            utc = temporal.at_offset(moment, 0)
            return temporal.write(temporal.at_offset(moment, _offset_at(utc, zone, True)), target)
        return temporal.write(moment._replace(offset=_offset_at(moment, zone, False)), target)

    return target, run


def _offset_at(moment: Moment, zone: tzinfo, utc: bool) -> int:
    when = datetime.fromordinal(moment.days) + timedelta(seconds=moment.ticks // temporal.TICKS)
    local = when.replace(tzinfo=UTC).astimezone(zone) if utc else when.replace(tzinfo=zone)
    return int((local.utcoffset() or timedelta()).total_seconds() // 60)
