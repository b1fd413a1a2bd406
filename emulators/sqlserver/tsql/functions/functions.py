"""Built-in functions that depend on their arguments alone: text, numbers, dates. Each entry makes, for the types of the arguments,
the result's type and the call.

Source: https://learn.microsoft.com/sql/t-sql/functions/functions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from emulators.sqlserver.codepages import byte_count, decode, encode
from emulators.sqlserver.collation import known
from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.values.calls import Call
from emulators.sqlserver.tsql.values.conversions.numbers import EXACT
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.text_order import Fold, Order, folding, lower, order_of, upper
from emulators.sqlserver.tsql.values.types import BIGINT, FLOAT, INT, SYSNAME, code_page, family, is_unicode

Made = tuple[SqlType, Call]


@dataclass(frozen=True, slots=True)
class Builtin:
    """`make(types)`; `most` -1: any number. `nulls`: whether the call wants to see NULL arguments (else they give NULL)."""

    least: int
    most: int
    make: Callable[[Sequence[SqlType]], Made]
    nulls: bool = False


BUILTINS: dict[str, Builtin] = {}
Maker = Callable[[Sequence[SqlType]], Made]


def builtin(name: str, least: int, most: int | None = None, nulls: bool = False) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        BUILTINS[name] = Builtin(least, least if most is None else most, make, nulls)
        return make

    return add


def text_of(kind: SqlType, unicode_too: bool = False) -> Callable[[Value], str]:
    """How an argument is read as a string."""
    if family(kind) == "string":
        return lambda value: str(value)
    read = converter(kind, SqlType("nvarchar" if unicode_too else "varchar", MAX))
    return lambda value: str(read(value))


def like_type(kind: SqlType, length: int | None = None) -> SqlType:
    """The variable-length string type that text functions return for an argument of `kind`."""
    name = "nvarchar" if is_unicode(kind) else "varchar"
    limit = 4000 if name == "nvarchar" else 8000
    size = length if length is not None else kind.length if family(kind) == "string" else limit
    if kind.length == MAX or kind.name in ("text", "ntext", "xml") or size is None:
        return SqlType(name, MAX)
    return SqlType(name, MAX if size == MAX else max(1, min(size, limit)))


def text_order(types: Sequence[SqlType]) -> Order:
    """How a function compares text of these types, whose collations are one."""
    texts = [kind for kind in types if family(kind) == "string"]
    return order_of(texts[0].collation if texts else "", any(is_unicode(kind) for kind in texts))


def whole_of(kind: SqlType) -> Callable[[Value], int]:
    read = converter(kind, INT if kind.name != "bigint" else BIGINT)
    return lambda value: int(str(read(value)))


def _simple(name: str, change: Callable[[str], str]) -> None:
    def make(types: Sequence[SqlType]) -> Made:
        read = text_of(types[0])
        return like_type(types[0]), lambda value: change(read(value))

    BUILTINS[name] = Builtin(1, 1, make)


def _cased(name: str, change: Callable[[str, bool], str]) -> None:
    def make(types: Sequence[SqlType]) -> Made:
        read, turkish = text_of(types[0]), known(types[0].collation).turkish
        return like_type(types[0]), lambda value: change(read(value), turkish)

    BUILTINS[name] = Builtin(1, 1, make)


_cased("UPPER", upper)
_cased("LOWER", lower)
_simple("TRIM", lambda text: text.strip(" "))
_simple("REVERSE", lambda text: text[::-1])


def _trimmer(name: str, trim: Callable[[str, str], str]) -> None:
    """A second argument (SQL Server 2022) names the characters to remove."""

    def make(types: Sequence[SqlType]) -> Made:
        read = text_of(types[0])
        characters_of = text_of(types[-1])

        def run(value: Value, characters: Value = " ") -> Value:
            given = characters_of(characters) if len(types) > 1 else " "
            return trim(read(value), given + given.lower() + given.upper())

        return like_type(types[0]), run

    BUILTINS[name] = Builtin(1, 2, make)


_trimmer("LTRIM", str.lstrip)
_trimmer("RTRIM", str.rstrip)


@builtin("LEN", 1)
def _len(types: Sequence[SqlType]) -> Made:
    kind = types[0]
    result = BIGINT if kind.length == MAX else INT
    if family(kind) == "binary":
        return result, lambda value: len(value)
    read = text_of(kind)
    whole = known(kind.collation).supplementary

    def run(value: Value) -> Value:
        text = read(value).rstrip(" ")
        return len(text) if whole or text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2

    return result, run


_SIZES = {
    "bit": 1,
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "bigint": 8,
    "money": 8,
    "smallmoney": 4,
    "real": 4,
    "float": 8,
}
_DATE_SIZES = {"date": 3, "datetime": 8, "smalldatetime": 4, "time": 3, "datetime2": 6, "datetimeoffset": 8}


@builtin("DATALENGTH", 1)
def _datalength(types: Sequence[SqlType]) -> Made:
    kind = types[0]
    result = BIGINT if kind.length == MAX else INT
    group = family(kind)
    if group == "binary":
        return result, lambda value: len(value)
    if group == "string" and is_unicode(kind):
        return result, lambda value: len(value.encode("utf-16-le", "surrogatepass"))
    if group == "string":
        page = code_page(kind)
        return result, lambda value: byte_count(value, page)
    size = stored_size(kind)
    return result, lambda value: size


def stored_size(kind: SqlType) -> int:
    """Bytes of a fixed-length type; of sys.columns.max_length for the others (-1 for max)."""
    name = kind.name
    if name in _SIZES:
        return _SIZES[name]
    if kind.precision is not None:
        return 5 if kind.precision <= 9 else 9 if kind.precision <= 19 else 13 if kind.precision <= 28 else 17
    if name in _DATE_SIZES:
        scale = kind.scale if kind.scale is not None else 0
        return _DATE_SIZES[name] + (0 if kind.scale is None or scale <= 2 else 1 if scale <= 4 else 2)
    if name == "uniqueidentifier":
        return 16
    if name in ("rowversion", "timestamp"):
        return 8
    if kind.length is None:
        return -1 if name == "xml" else 16
    return -1 if kind.length == MAX else kind.length * (2 if is_unicode(kind) else 1)


@builtin("LEFT", 2)
def _left(types: Sequence[SqlType]) -> Made:
    read, count = text_of(types[0]), whole_of(types[1])
    return like_type(types[0]), lambda value, size: read(value)[: _length(count(size), "left")]


@builtin("RIGHT", 2)
def _right(types: Sequence[SqlType]) -> Made:
    read, count = text_of(types[0]), whole_of(types[1])

    def run(value: Value, size: Value) -> Value:
        length = _length(count(size), "right")
        return read(value)[-length:] if length else ""

    return like_type(types[0]), run


def _length(size: int, name: str) -> int:
    if size < 0:
        raise SqlError(536, f"Invalid length parameter passed to the {name} function.", 16)
    return size


@builtin("SUBSTRING", 3)
def _substring(types: Sequence[SqlType]) -> Made:
    start_of, size_of = whole_of(types[1]), whole_of(types[2])
    binary = family(types[0]) == "binary"
    read: Callable[[Value], str | bytes] = (lambda value: value) if binary else text_of(types[0])  # type: ignore[assignment,return-value]  # bytes by family

    def run(value: Value, start: Value, size: Value) -> Value:
        first, length = start_of(start), _length(size_of(size), "substring")
        return read(value)[max(first - 1, 0) : max(first - 1 + length, 0)]

    return (SqlType("varbinary", types[0].length or MAX) if binary else like_type(types[0])), run


@builtin("REPLACE", 3)
def _replace(types: Sequence[SqlType]) -> Made:
    readers = [text_of(kind) for kind in types]
    unicode = next((kind for kind in types if is_unicode(kind)), types[0])
    fold = folding(text_order(types))

    def run(*values: Value) -> Value:
        text, old, new = (read(value) for read, value in zip(readers, values, strict=True))
        return _replaced(text, old, new, fold)

    return like_type(unicode, 4000 if is_unicode(unicode) else 8000), run


def _replaced(text: str, old: str, new: str, fold: Fold) -> str:
    if not old:
        return text
    folded, target = fold(text), fold(old)
    pieces, start = [], 0
    while (found := folded.find(target, start)) >= 0:
        pieces += [text[start:found], new]
        start = found + len(old)
    return "".join([*pieces, text[start:]])


@builtin("REPLICATE", 2)
def _replicate(types: Sequence[SqlType]) -> Made:
    read, count = text_of(types[0]), whole_of(types[1])
    kind = like_type(types[0], 4000 if is_unicode(types[0]) else 8000)
    limit = None if kind.length == MAX else kind.length

    def run(value: Value, size: Value) -> Value:
        times = count(size)
        return None if times < 0 else (read(value) * times)[:limit]

    return kind, run


@builtin("SPACE", 1)
def _space(types: Sequence[SqlType]) -> Made:
    count = whole_of(types[0])
    return SqlType("varchar", 8000), lambda size: " " * count(size) if count(size) >= 0 else None


@builtin("CHARINDEX", 2, 3)
def _charindex(types: Sequence[SqlType]) -> Made:
    needle, text = text_of(types[0]), text_of(types[1])
    fold = folding(text_order(types[:2]))

    def run(sought: Value, value: Value, start: Value = 1) -> Value:
        return fold(text(value)).find(fold(needle(sought)), max(int(str(start)) - 1, 0)) + 1

    return (BIGINT if types[1].length == MAX else INT), run


@builtin("CONCAT", 2, -1, nulls=True)
def _concat(types: Sequence[SqlType]) -> Made:
    readers = [text_of(kind) for kind in types]
    unicode = any(is_unicode(kind) for kind in types)
    sizes = [kind.length if family(kind) == "string" else 40 for kind in types]
    wide = any(size is None or size == MAX for size in sizes)
    length = MAX if wide else min(sum(size or 0 for size in sizes), 4000 if unicode else 8000)

    def run(*values: Value) -> Value:
        return "".join(read(value) for read, value in zip(readers, values, strict=True) if value is not None)

    return SqlType("nvarchar" if unicode else "varchar", length), run


@builtin("STR", 1, 3)
def _str(types: Sequence[SqlType]) -> Made:
    read = converter(types[0], FLOAT)

    def run(value: Value, length: Value = 10, decimals: Value = 0) -> Value:
        places = min(max(int(str(decimals)), 0), 16)
        text = f"{Decimal(float(str(read(value)))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT):f}"
        size = int(str(length))
        return text.rjust(size) if len(text) <= size else "*" * size

    return SqlType("varchar", 10), run


@builtin("QUOTENAME", 1, 2)
def _quotename(types: Sequence[SqlType]) -> Made:
    read = text_of(types[0])

    def run(value: Value, quote: Value = "[") -> Value:
        text, pair = read(value), {"[": "[]", "]": "[]", '"': '""', "'": "''"}.get(str(quote))
        if len(text) > 128 or pair is None:
            return None
        return pair[0] + text.replace(pair[1], pair[1] * 2) + pair[1]

    return SqlType("nvarchar", 258), run


@builtin("ASCII", 1)
def _ascii(types: Sequence[SqlType]) -> Made:
    read, page = text_of(types[0]), code_page(types[0])
    return INT, lambda value: encode(read(value) or "\0", page)[0]


@builtin("UNICODE", 1)
def _unicode(types: Sequence[SqlType]) -> Made:
    read = text_of(types[0])
    return INT, lambda value: ord(read(value)[0]) if read(value) else None


@builtin("CHAR", 1)
def _char(types: Sequence[SqlType]) -> Made:
    count = whole_of(types[0])
    page = code_page(types[0])
    return SqlType("char", 1), lambda value: decode(bytes([count(value)]), page) if 0 <= count(value) <= 255 else None


@builtin("NCHAR", 1)
def _nchar(types: Sequence[SqlType]) -> Made:
    count = whole_of(types[0])
    return SqlType("nchar", 1), lambda value: chr(count(value)) if 0 <= count(value) <= 65535 else None


@builtin("PARSENAME", 2)
def _parsename(types: Sequence[SqlType]) -> Made:
    read = text_of(types[0])

    def run(value: Value, part: Value) -> Value:
        parts = [piece.strip("[]") for piece in read(value).split(".")][::-1]
        index = int(str(part)) - 1
        return parts[index] if 0 <= index < len(parts) <= 4 else None

    return SYSNAME, run


_REFUSED_NAMES = (
    "BINARY_CHECKSUM CHECKSUM_AGG RAND FORMAT FORMATMESSAGE SOUNDEX DIFFERENCE STRING_ESCAPE COMPRESS DECOMPRESS "
    "OPENJSON OPENXML OPENQUERY OPENROWSET OPENDATASOURCE JSON_VALUE JSON_QUERY JSON_MODIFY JSON_OBJECT JSON_ARRAY ISJSON "
    "JSON_PATH_EXISTS PARSE TRY_PARSE DATE_BUCKET SQL_VARIANT_PROPERTY CERTENCODED ENCRYPTBYKEY DECRYPTBYKEY "
    "CURSOR_STATUS TEXTPTR TEXTVALID FILE_ID FILE_IDEX FILE_NAME FILEPROPERTY FILEPROPERTYEX FILEGROUP_ID FILEGROUP_NAME "
    "DATABASEPROPERTY FILEGROUPPROPERTY FULLTEXTSERVICEPROPERTY FULLTEXTCATALOGPROPERTY GET_FILESTREAM_TRANSACTION_CONTEXT "
    "APPROX_PERCENTILE_CONT APPROX_PERCENTILE_DISC ASSEMBLYPROPERTY ASYMKEY_ID ASYMKEYPROPERTY BIT_COUNT CERT_ID CERTPRIVATEKEY "
    "CERTPROPERTY CRYPT_GEN_RANDOM CURRENT_REQUEST_ID DECRYPTBYASYMKEY DECRYPTBYCERT DECRYPTBYKEYAUTOASYMKEY "
    "DECRYPTBYKEYAUTOCERT DECRYPTBYPASSPHRASE ENCRYPTBYASYMKEY ENCRYPTBYCERT ENCRYPTBYPASSPHRASE GET_BIT INDEXKEY_PROPERTY "
    "IS_OBJECTSIGNED KEY_GUID KEY_ID KEY_NAME LEFT_SHIFT LOGINPROPERTY PUBLISHINGSERVERNAME RIGHT_SHIFT SET_BIT SIGNBYASYMKEY "
    "SIGNBYCERT SYMKEYPROPERTY TERTIARY_WEIGHTS VERIFYSIGNEDBYASYMKEY VERIFYSIGNEDBYCERT "
    "STDEV STDEVP VAR VARP GROUPING GROUPING_ID APPROX_COUNT_DISTINCT "
    "CHANGE_TRACKING_CURRENT_VERSION CHANGE_TRACKING_MIN_VALID_VERSION SESSION_CONTEXT MIN_ACTIVE_ROWVERSION "
    "ACOS ASIN ATAN ATN2 COS COT DEGREES EXP LOG LOG10 PI POWER RADIANS SIGN SIN SQRT SQUARE TAN "
    "DATEFROMPARTS DATETIMEFROMPARTS SMALLDATETIMEFROMPARTS DATETIME2FROMPARTS TIMEFROMPARTS DATETIMEOFFSETFROMPARTS "
    "STATS_DATE TRIGGER_NESTLEVEL EVENTDATA UPDATE COLUMNS_UPDATED PERMISSIONS PWDCOMPARE PWDENCRYPT GETANSINULL "
    "TYPEPROPERTY"
)
REFUSED = frozenset(_REFUSED_NAMES.split())
"""Known to the real server and refused here by name, rather than called unknown."""


def refused(name: str) -> SqlError:
    return unsupported(f"function {name}")
