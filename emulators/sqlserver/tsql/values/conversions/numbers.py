"""Conversions to numbers: whole ones, decimal and money, float and real.

Every target has a range, and a value outside it is refused rather than wrapped: 220, 248, 8115. So is text that is not a number:
235, 245, 8114.
"""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values import temporal
from emulators.sqlserver.tsql.values.conversions.steps import Converter
from emulators.sqlserver.tsql.values.temporal import EPOCH
from emulators.sqlserver.tsql.values.types import RANGES, family, scale_of

EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_MONEY_LIMITS = {"money": Decimal(2**63), "smallmoney": Decimal(2**31)}
INT_SIZES = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}


def to_int(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    kind, name = family(source), target.name
    if name == "bit":
        return lambda value: int(_truth(value, source))
    low, high = RANGES[name]

    def run(value: Value) -> Value:
        number = value if kind == "int" else _whole(value, source, name)
        assert isinstance(number, int)
        if low <= number <= high:
            return number
        if kind == "string":
            raise errors.conversion_overflow(source.name, str(value), name)
        if name in ("tinyint", "smallint") and kind == "int":
            raise errors.small_overflow(name, number)
        raise errors.arithmetic_overflow(name)

    return run


def _truth(value: Value, source: SqlType) -> bool:
    if isinstance(value, str) and family(source) == "string":
        word = value.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        if not re.fullmatch(r"[+-]?\d+", word):
            raise errors.conversion_failed(source.name, value, "bit")
        return int(word) != 0
    if isinstance(value, bytes):
        return any(value)
    return Decimal(str(value)) != 0


def _whole(value: Value, source: SqlType, target: str) -> int:
    kind = family(source)
    if isinstance(value, str) and kind == "string":
        text = value.strip()
        if text and not re.fullmatch(r"[+-]?\d+", text):
            raise errors.conversion_failed(source.name, value, target)
        return int(text) if text else 0
    if isinstance(value, bytes):
        size = INT_SIZES[target]
        return int.from_bytes(value[-size:].rjust(size, b"\0"), "big", signed=target != "tinyint")
    if kind == "date":
        moment = temporal.read(str(value), source)
        return moment.days - EPOCH + (1 if moment.ticks >= temporal.DAY // 2 else 0)
    if source.name in ("money", "smallmoney"):
        return int(Decimal(str(value)).to_integral_value(ROUND_HALF_UP))
    return int(Decimal(str(value)))


def exact_text(number: Decimal, target: SqlType, source: str = "numeric") -> str:
    """`number` rounded to the target's scale, in storage form. Raises 8115 when it does not fit."""
    scale = scale_of(target)
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    if target.precision is not None:
        if rounded.copy_abs() >= Decimal(10) ** (target.precision - scale):
            raise errors.numeric_overflow(source, "numeric")
    elif not -_MONEY_LIMITS[target.name] <= rounded.scaleb(4) < _MONEY_LIMITS[target.name]:
        raise errors.arithmetic_overflow(target.name)
    return f"{rounded:f}" if rounded else f"{rounded.copy_abs():f}"


def to_exact(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    kind = family(source)
    named = "numeric" if target.name == "decimal" else target.name

    def run(value: Value) -> Value:
        if kind == "string":
            number = _number_text(str(value), source.name, target)
        elif kind == "float":
            number = Decimal(repr(value))
        elif isinstance(value, bytes):
            raise errors.unsupported(f"conversion from {source.name} to {target.name}")
        elif kind == "date":
            moment = temporal.read(str(value), source)
            number = Decimal(moment.days - EPOCH) + Decimal(moment.ticks) / Decimal(temporal.DAY)
        else:
            number = Decimal(str(value))
        return exact_text(number, target, {"int": "int", "string": source.name, "float": "float"}.get(kind, named))

    if kind == "exact" and source == target:
        return lambda value: value
    return run


def _number_text(text: str, source: str, target: SqlType) -> Decimal:
    stripped = text.strip()
    if target.precision is None:
        stripped = stripped.replace("$", "").replace(",", "") or "0"
        if not re.fullmatch(r"[+-]?\s*(\d+\.?\d*|\.\d+)", stripped):
            raise SqlError(235, "Cannot convert a char value to money. The char value has incorrect syntax.", 16)
    elif not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", stripped):
        raise errors.converting(source, "numeric")
    return Decimal(stripped.replace(" ", ""))


def to_float(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    single = target.name == "real"

    def run(value: Value) -> Value:
        if isinstance(value, bytes):
            raise errors.explicit_conversion(source.name, target.name)
        if family(source) == "date":
            moment = temporal.read(str(value), source)
            value = moment.days - EPOCH + moment.ticks / temporal.DAY
        try:
            number = float(str(value).strip() or "0") if isinstance(value, str) else float(value or 0)
        except (ValueError, InvalidOperation):
            raise errors.converting(source.name, target.name) from None
        if number != number or number in (float("inf"), float("-inf")):
            raise errors.arithmetic_overflow(target.name)
        if single:
            try:
                number = float(struct.unpack("<f", struct.pack("<f", number))[0])
            except OverflowError:
                raise errors.arithmetic_overflow("real") from None
        return number

    return run
