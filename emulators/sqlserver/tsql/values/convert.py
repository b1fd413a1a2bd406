"""Conversions between SQL Server's types, over storage forms (sqltypes.py): CAST, CONVERT and assignment.

Refuses what the real server refuses, with its numbers: 220, 241, 242, 245, 248, 257, 529, 8114, 8115, 8169.
Source: https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache

from emulators.sqlserver.codepages import byte_count, decode, encode, kept
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values import datetimes, temporal
from emulators.sqlserver.tsql.values.temporal import EPOCH, TICKS, Moment
from emulators.sqlserver.tsql.values.types import RANGES, code_page, family, is_unicode, scale_of

Converter = Callable[[Value], Value]
EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_GUID = re.compile(r"\{?([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})\}?")
_MONEY_LIMITS = {"money": Decimal(2**63), "smallmoney": Decimal(2**31)}
_INT_SIZES = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}


class Truncation(Exception):
    """An assignment would cut `value` short; the caller knows the column to name (2628)."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


def convert(value: Value, source: SqlType, target: SqlType, style: int = 0) -> Value:
    """CONVERT(target, value, style): cuts strings silently."""
    return converter(source, target, style)(value)


@lru_cache(maxsize=4096)
def converter(source: SqlType, target: SqlType, style: int = 0, assign: bool = False) -> Converter:
    """A function that turns storage forms of `source` into those of `target`; `assign`: raise Truncation, refuse
    what only an explicit CONVERT may do. Raises 529 and 257 at once where the pair is not allowed."""
    _check_pair(source, target, assign)
    make = _MAKERS[family(target)]
    step = make(source, target, style, assign)

    def run(value: Value) -> Value:
        return None if value is None else step(value)

    return run


_REFUSED = {
    ("guid", "int"),
    ("guid", "exact"),
    ("guid", "float"),
    ("guid", "date"),
    ("int", "guid"),
    ("exact", "guid"),
    ("float", "guid"),
    ("date", "guid"),
    ("float", "binary_date"),
}
_NEW_DATES = ("date", "time", "datetime2", "datetimeoffset")


def _check_pair(source: SqlType, target: SqlType, assign: bool) -> None:
    a, b = family(source), family(target)
    new_date = {source.name, target.name} & set(_NEW_DATES)
    numbers = {"int", "exact", "float"}
    clash = (a, b) in _REFUSED or ("date" in (a, b) and new_date and ({a, b} & numbers))
    if clash or (target.name == "time" and source.name == "date") or (target.name == "date" and source.name == "time"):
        if assign:
            raise errors.type_clash(source.name, target.name)
        raise errors.explicit_conversion(source.name, target.name)
    if not assign:
        return
    if (a == "string" and b == "binary") or (a == "date" and b in numbers | {"binary"}):
        raise errors.implicit_conversion(source.name, target.name)


# -- integers ---------------------------------------------------------------------------------------------------------


def _to_int(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
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
        size = _INT_SIZES[target]
        return int.from_bytes(value[-size:].rjust(size, b"\0"), "big", signed=target != "tinyint")
    if kind == "date":
        moment = temporal.read(str(value), source)
        return moment.days - EPOCH + (1 if moment.ticks >= temporal.DAY // 2 else 0)
    if source.name in ("money", "smallmoney"):
        return int(Decimal(str(value)).to_integral_value(ROUND_HALF_UP))
    return int(Decimal(str(value)))


# -- decimal and money ------------------------------------------------------------------------------------------------


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


def _to_exact(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
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


# -- float ------------------------------------------------------------------------------------------------------------


def _to_float(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
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


# -- strings ----------------------------------------------------------------------------------------------------------


def _to_string(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    limit = target.length if target.length is not None and target.length != MAX else None
    padded = target.name in ("char", "nchar")
    kind = family(source)
    page = 0 if is_unicode(target) else code_page(target)

    def run(value: Value) -> Value:
        text = value if kind == "string" else _as_text(value, source, target, style)
        assert isinstance(text, str)
        if page and not text.isascii():
            text = kept(text, page)
        if limit is not None and _width(text, target) > limit:
            text = _shortened(text, limit, source, target, assign)
        return text + " " * (limit - _width(text, target)) if padded and limit is not None else text

    return run


def _width(text: str, target: SqlType) -> int:
    """nchar and nvarchar count UTF-16 code units, char and varchar bytes of their code page."""
    if text.isascii():
        return len(text)
    return (
        len(text.encode("utf-16-le", "surrogatepass")) // 2
        if is_unicode(target)
        else byte_count(text, code_page(target))
    )


def _shortened(text: str, limit: int, source: SqlType, target: SqlType, assign: bool) -> str:
    kind = family(source)
    if kind in ("exact", "float"):
        raise errors.numeric_overflow("numeric" if kind == "exact" else source.name, target.name)
    if kind == "int":
        if is_unicode(target):
            raise errors.arithmetic_overflow(target.name)
        return "*"
    cut = cut_text(text, limit, target)
    if assign and text[len(cut) :].strip(" "):
        raise Truncation(cut)
    if kind == "guid":
        raise SqlError(8170, "Insufficient result space to convert uniqueidentifier value to char.", 16, 2)
    return cut


def cut_text(text: str, limit: int, target: SqlType) -> str:
    """The longest prefix of at most `limit` units that splits no surrogate pair."""
    cut = text[:limit]
    while _width(cut, target) > limit:
        cut = cut[:-1]
    return cut


def _as_text(value: Value, source: SqlType, target: SqlType, style: int) -> str:
    kind = family(source)
    if isinstance(value, bytes):
        return _bytes_text(value, target, style)
    if kind == "date":
        return datetimes.styled(temporal.read(str(value), source), source, style)
    if isinstance(value, float):
        return _float_text(value, source, style)
    if source.name in ("money", "smallmoney"):
        number = Decimal(str(value))
        if style in (2, 126):
            return f"{number:.4f}"
        if style not in (0, 1):
            raise errors.unsupported(f"CONVERT of {source.name} with style {style}")
        rounded = number.quantize(Decimal("0.01"), ROUND_HALF_UP)
        return f"{rounded:,.2f}" if style == 1 else f"{rounded:.2f}"
    return str(value)


def _bytes_text(value: bytes, target: SqlType, style: int) -> str:
    """Style 0: the bytes as characters; 1: 0x and hex digits; 2: hex digits. Digits that do not fit are left out in pairs."""
    if style in (1, 2):
        prefix = "0x" if style == 1 else ""
        digits = value.hex().upper()
        if target.length not in (None, MAX):
            assert target.length is not None
            digits = digits[: max(0, target.length - len(prefix)) // 2 * 2]
        return prefix + digits
    if style != 0:
        raise errors.unsupported(f"CONVERT of binary with style {style}")
    return value.decode("utf-16-le", "replace") if is_unicode(target) else decode(value, code_page(target))


def _float_text(value: float, source: SqlType, style: int) -> str:
    if style == 126:
        style = 1 if source.name == "real" else 2
    if style == 0:
        text = f"{value:.6g}"
    elif style in (1, 2):
        text = f"{value:.{7 if style == 1 else 15}e}"
    elif style == 3:
        text = f"{value:.{8 if source.name == 'real' else 16}e}"
    else:
        raise errors.unsupported(f"CONVERT of {source.name} with style {style}")
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].zfill(3)}" if e else text


# -- binary -----------------------------------------------------------------------------------------------------------


def _to_binary(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    limit = 8 if target.name in ("rowversion", "timestamp") else target.length
    if limit == MAX:
        limit = None
    padded = target.name in ("binary", "rowversion", "timestamp")
    numeric = family(source) == "int"

    def run(value: Value) -> Value:
        data = value if isinstance(value, bytes) else _as_bytes(value, source, style)
        if limit is None:
            return data
        if numeric:
            return data[-limit:].rjust(limit, b"\0") if padded else data[-limit:]
        if len(data) > limit:
            if assign and any(data[limit:]):
                raise Truncation("0x" + data[:limit].hex().upper())
            data = data[:limit]
        return data.ljust(limit, b"\0") if padded else data

    return run


def _as_bytes(value: Value, source: SqlType, style: int) -> bytes:
    kind = family(source)
    if kind == "int":
        size = _INT_SIZES[source.name]
        assert isinstance(value, int)
        return value.to_bytes(size, "big", signed=source.name not in ("tinyint", "bit"))
    text = str(value)
    if kind == "string":
        if style in (1, 2):
            digits = text[2:] if style == 1 and text[:2].lower() == "0x" else text
            try:
                if style == 1 and digits == text:
                    raise ValueError(text)
                return bytes.fromhex(digits)
            except ValueError:
                raise errors.converting(source.name, "varbinary") from None
        return text.encode("utf-16-le", "surrogatepass") if is_unicode(source) else encode(text, code_page(source))
    if kind == "guid":
        import uuid

        return uuid.UUID(text).bytes_le
    if source.name in ("money", "smallmoney"):
        return int(Decimal(text).scaleb(4)).to_bytes(8 if source.name == "money" else 4, "big", signed=True)
    raise errors.unsupported(f"conversion from {source.name} to binary")


# -- the rest ---------------------------------------------------------------------------------------------------------


def _to_guid(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    def run(value: Value) -> Value:
        if isinstance(value, bytes):
            import uuid

            return str(uuid.UUID(bytes_le=value[:16].ljust(16, b"\0"))).upper()
        match = _GUID.match(str(value))
        if match is None:
            raise errors.guid_conversion()
        return match[1].upper()

    return run


def _to_date(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
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


_MAKERS: dict[str, Callable[[SqlType, SqlType, int, bool], Converter]] = {
    "int": _to_int,
    "exact": _to_exact,
    "float": _to_float,
    "string": _to_string,
    "binary": _to_binary,
    "guid": _to_guid,
    "date": _to_date,
}
