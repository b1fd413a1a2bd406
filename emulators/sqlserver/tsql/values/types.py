"""What the rules of T-SQL say about types: names, families, precedence, results of arithmetic. No values here.

Source: https://learn.microsoft.com/sql/t-sql/data-types/data-type-precedence-transact-sql and
"Precision, scale, and length".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emulators.sqlserver.codepages import LATIN1
from emulators.sqlserver.collation import SERVER_DEFAULT, find, known
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.errors import invalid_collation, type_clash, unknown_type, unsupported
from emulators.sqlserver.tsql.values.text_order import order_name

INTEGERS = ("bit", "tinyint", "smallint", "int", "bigint")
RANGES = {
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_FAMILIES = {
    "int": INTEGERS,
    "exact": ("decimal", "numeric", "money", "smallmoney"),
    "float": ("float", "real"),
    "string": ("char", "varchar", "text", "nchar", "nvarchar", "ntext", "xml", "sysname"),
    "binary": ("binary", "varbinary", "image", "rowversion", "timestamp"),
    "guid": ("uniqueidentifier",),
    "date": ("date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset"),
}
FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}
"""Type name -> "int", "exact", "float", "string", "binary", "guid" or "date"."""

_PRECEDENCE = (
    "binary varbinary char varchar nchar nvarchar sysname uniqueidentifier timestamp rowversion image text ntext bit "
    "tinyint smallint int bigint smallmoney money numeric decimal real float time date smalldatetime datetime "
    "datetime2 datetimeoffset xml"
)
_RANK = {name: rank for rank, name in enumerate(_PRECEDENCE.split())}

INT = SqlType("int")
BIGINT = SqlType("bigint")
BIT = SqlType("bit")
FLOAT = SqlType("float")
DATETIME = SqlType("datetime")
SYSNAME = SqlType("nvarchar", 128)
GUID = SqlType("uniqueidentifier")

_SYNONYMS = {
    "integer": "int",
    "dec": "decimal",
    "character": "char",
    "double": "float",
    "timestamp": "rowversion",
    "national": "nchar",
}
_DEFAULT_SCALES = {"time": 7, "datetime2": 7, "datetimeoffset": 7}
_LENGTH_LIMITS = {
    "char": 8000,
    "varchar": 8000,
    "nchar": 4000,
    "nvarchar": 4000,
    "binary": 8000,
    "varbinary": 8000,
}


def family(kind: SqlType) -> str:
    """ "int", "exact", "float", "string", "binary", "guid" or "date"."""
    return FAMILY[kind.name]


def make_type(name: str, arguments: Sequence[str] = (), default_length: int = 1) -> SqlType:
    """The type written as name(arguments). `default_length`: 1 in declarations, 30 in CAST and CONVERT. Raises 2715."""
    name = _SYNONYMS.get(name.lower(), name.lower())
    if name == "sysname":
        return SYSNAME
    if name not in FAMILY:
        raise unknown_type(name)
    if name in _LENGTH_LIMITS:
        return SqlType(name, _length(name, arguments, default_length))
    if name in ("decimal", "numeric"):
        precision = _number(arguments[0], name) if arguments else 18
        scale = _number(arguments[1], name) if len(arguments) > 1 else 0
        if not 1 <= precision <= 38 or scale > precision:
            raise unknown_type(f"{name}({precision},{scale})")
        return SqlType(name, None, precision, scale)
    if name in _DEFAULT_SCALES:
        scale = _number(arguments[0], name) if arguments else _DEFAULT_SCALES[name]
        if scale > 7:
            raise unknown_type(f"{name}({scale})")
        return SqlType(name, None, None, scale)
    if name == "float" and arguments and _number(arguments[0], name) <= 24:
        return SqlType("real")
    if arguments and name not in ("float", "xml"):
        raise unknown_type(f"{name}({','.join(arguments)})")
    return SqlType(name)


def _length(name: str, arguments: Sequence[str], default: int) -> int:
    if not arguments:
        return default
    if arguments[0].lower() == "max" and name.startswith(("var", "nvar")):
        return MAX
    length = _number(arguments[0], name)
    if not 1 <= length <= _LENGTH_LIMITS[name]:
        raise unknown_type(f"{name}({length})")
    return length


def _number(text: str, name: str) -> int:
    if not text.isdigit():
        raise unknown_type(f"{name}({text})")
    return int(text)


def spelled(kind: SqlType) -> str:
    """The type as error texts and DDL write it: varchar(10), decimal(18,4), datetime2(7)."""
    if kind.length is not None:
        return f"{kind.name}({'max' if kind.length == MAX else kind.length})"
    if kind.precision is not None:
        return f"{kind.name}({kind.precision},{kind.scale})"
    return kind.name if kind.scale is None else f"{kind.name}({kind.scale})"


def is_unicode(kind: SqlType) -> bool:
    return kind.name in ("nchar", "nvarchar", "ntext", "xml", "sysname")


def exact_shape(kind: SqlType) -> tuple[int, int]:
    """Precision and scale of a type that takes part in decimal arithmetic."""
    if kind.precision is not None:
        return kind.precision, kind.scale or 0
    return {
        "money": (19, 4),
        "smallmoney": (10, 4),
        "bigint": (19, 0),
        "int": (10, 0),
        "smallint": (5, 0),
        "tinyint": (3, 0),
    }.get(kind.name, (1, 0))


def scale_of(kind: SqlType) -> int:
    return exact_shape(kind)[1]


def merged(first: SqlType, second: SqlType) -> SqlType:
    """The type of CASE, COALESCE, UNION and comparisons over both: the higher precedence, wide enough for each."""
    if first == second:
        return first
    high, low = (first, second) if _RANK[first.name] >= _RANK[second.name] else (second, first)
    kind, other = family(high), family(low)
    if (kind, other) in (("date", "guid"), ("guid", "exact"), ("float", "guid"), ("exact", "guid"), ("int", "guid")):
        raise type_clash(high.name, low.name)
    if high.name in ("date", "time", "datetime2", "datetimeoffset") and other in ("int", "exact", "float"):
        raise type_clash(first.name, second.name)
    if {high.name, low.name} == {"date", "time"}:
        raise type_clash(first.name, second.name)
    if high.name in ("decimal", "numeric") and other in ("int", "exact"):
        return _wider_decimal(high, low)
    if kind == other and kind in ("string", "binary") and high.length is not None:
        return SqlType(
            high.name if "var" in high.name or "var" not in low.name else _variable(high.name), _longer(high, low)
        )
    if high.name == low.name and high.scale is not None:
        return SqlType(high.name, None, None, max(high.scale, low.scale or 0))
    return high


def _variable(name: str) -> str:
    return {"nchar": "nvarchar", "char": "varchar", "binary": "varbinary"}[name]


def _longer(first: SqlType, second: SqlType) -> int:
    if MAX in (first.length, second.length) or second.length is None or first.length is None:
        return MAX
    return max(first.length, second.length)


def _wider_decimal(high: SqlType, low: SqlType) -> SqlType:
    (p1, s1), (p2, s2) = exact_shape(high), exact_shape(low)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    if precision > 38:
        scale = max(scale - (precision - 38), min(scale, 6))
        precision = 38
    return SqlType(high.name, None, precision, scale)


def arithmetic(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The type of `left operator right` for + - * / % over numbers."""
    high = left if _RANK[left.name] >= _RANK[right.name] else right
    if high.name not in ("decimal", "numeric"):
        return INT if high.name == "bit" else high
    (p1, s1), (p2, s2) = exact_shape(left), exact_shape(right)
    if operator in "+-":
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif operator == "*":
        scale, precision = s1 + s2, p1 + p2 + 1
    elif operator == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > 38:
        room = max(38 - (precision - scale), 6) if operator in "*/" else max(38 - max(p1 - s1, p2 - s2), 0)
        scale = min(scale, room)
        precision = 38
    return SqlType(high.name, None, precision, scale)


def literal_shape(kind: SqlType, constant: object, other: SqlType) -> SqlType:
    """An integer literal beside a decimal counts as a decimal of its own digits: 1.0 / 3 has six decimals.

    https://learn.microsoft.com/sql/t-sql/data-types/constants-transact-sql
    """
    if kind.name == "int" and isinstance(constant, int) and other.precision is not None:
        return SqlType("numeric", None, len(str(abs(constant))), 0)
    return kind


def summed(kind: SqlType, average: bool = False) -> SqlType:
    """The type of SUM (or AVG) over a column."""
    if kind.name in ("bit", "tinyint", "smallint", "int"):
        return INT
    if kind.name in ("decimal", "numeric"):
        return SqlType(kind.name, None, 38, max(kind.scale or 0, 6) if average else kind.scale)
    if kind.name == "smallmoney":
        return SqlType("money")
    return FLOAT if kind.name == "real" else kind


def collation(kind: SqlType) -> str:
    """The SQLite collation that orders values of this type as SQL Server does, "" for SQLite's own."""
    group = family(kind)
    if group == "string":
        return order_name(kind.collation, is_unicode(kind))
    return {"exact": "EXACT", "guid": "GUID"}.get(group, "INSTANT" if kind.name == "datetimeoffset" else "")


def collated(kind: SqlType, name: str) -> SqlType:
    """The type with another collation; "" is the server's. Types that are no text have none."""
    if kind.collation == name or family(kind) != "string":
        return kind
    return replace(kind, collation=name)


def collation_named(written: str, database: str) -> str:
    """The collation that a COLLATE clause names; "" is the server's, `database` that of DATABASE_DEFAULT. Raises 448."""
    upper = written.upper()
    if upper == "DATABASE_DEFAULT":
        return database
    if upper == "CATALOG_DEFAULT":
        raise unsupported("COLLATE CATALOG_DEFAULT")
    found = find(written)
    if found is None:
        raise invalid_collation(written)
    return "" if found.name == SERVER_DEFAULT else found.name


def collation_shown(kind: SqlType) -> str | None:
    """The name of the type's collation as catalog views show it; None for what has none."""
    return kind.collation or SERVER_DEFAULT if family(kind) == "string" and kind.name != "xml" else None


def character_set(kind: SqlType) -> str:
    """Of char, varchar and text, as INFORMATION_SCHEMA.COLUMNS names it."""
    page = code_page(kind)
    return "iso_1" if page == LATIN1 else f"cp{page}"


def code_page(kind: SqlType) -> int:
    """Of char, varchar and text: the code page of the collation."""
    return known(kind.collation).code_page
