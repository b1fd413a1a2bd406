"""Conversions to dates and times, from text, from other such types and from numbers of days. Refuses what is no date: 241, 242, 8115."""

from __future__ import annotations

from decimal import Decimal

from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values import temporal
from emulators.sqlserver.tsql.values.conversions.steps import Converter
from emulators.sqlserver.tsql.values.temporal import EPOCH, TICKS, Moment
from emulators.sqlserver.tsql.values.types import family


def to_date(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    kind = family(source)
    if source == target:
        return lambda value: value

    def run(value: Value) -> Value:
        if isinstance(value, bytes):
            raise errors.unsupported(f"conversion from {source.name} to {target.name}")
        return temporal.write(_moment(value, source, target, kind, style), target, source.name)

    return run


def _moment(value: Value, source: SqlType, target: SqlType, kind: str, style: int = 0) -> Moment:
    if kind == "string":
        moment = temporal.parse(str(value), style)
        if target.name in ("datetime", "smalldatetime"):
            if moment.ticks % 10_000 or (moment.offset and not str(value).rstrip().lower().endswith("z")):
                raise errors.date_conversion()
            return moment
    elif kind == "date":
        moment = temporal.read(str(value), source)
    else:
        number = Decimal(str(value))
        days = int(number.to_integral_value("ROUND_FLOOR"))
        ticks = int((number - days) * 86_400 * TICKS)
        if not -53_690 <= days <= 2_958_463:
            raise errors.arithmetic_overflow(target.name)
        return Moment(EPOCH + days, ticks)
    return moment
