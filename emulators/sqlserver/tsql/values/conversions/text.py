"""Conversions to text: char, varchar, nchar and nvarchar, in the style that CONVERT names.

Text that is too long is cut, except where an assignment would lose more than spaces (Truncation); a number's text is never cut.
Refuses styles that are not known here.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from emulators.sqlserver.codepages import byte_count, decode, kept
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.values import datetimes, temporal
from emulators.sqlserver.tsql.values.conversions.steps import Converter, Truncation
from emulators.sqlserver.tsql.values.types import code_page, family, is_unicode


def to_string(source: SqlType, target: SqlType, style: int, assign: bool) -> Converter:
    limit = target.length if target.length is not None and target.length != MAX else None
    padded = target.name in ("char", "nchar")
    kind = family(source)
    page = 0 if is_unicode(target) else code_page(target)
    plain = kind in ("int", "guid") or source.name in ("decimal", "numeric")

    def run(value: Value) -> Value:
        text = value if kind == "string" else str(value) if plain else _as_text(value, source, target, style)
        assert isinstance(text, str)
        if page and not text.isascii():
            text = kept(text, page)
        if limit is not None and (len(text) if text.isascii() else _width(text, target)) > limit:
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
    cut = _cut(text, limit, target)
    if assign and text[len(cut) :].strip(" "):
        raise Truncation(cut)
    if kind == "guid":
        raise SqlError(8170, "Insufficient result space to convert uniqueidentifier value to char.", 16, 2)
    return cut


def _cut(text: str, limit: int, target: SqlType) -> str:
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
