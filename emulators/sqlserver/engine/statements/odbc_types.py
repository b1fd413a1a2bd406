"""SQL Server's types as ODBC numbers and describes them, for the catalog procedures that drivers call (sp_columns, sp_datatype_info).

Source: https://learn.microsoft.com/sql/odbc/reference/appendixes/sql-data-types and
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-datatype-info-transact-sql
"""

from __future__ import annotations

from collections.abc import Mapping

from emulators.sqlserver.engine.views.viewing import precision_scale
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.functions.functions import stored_size
from emulators.sqlserver.tsql.values.types import family, is_unicode

_ODBC = {
    "bit": -7,
    "tinyint": -6,
    "smallint": 5,
    "int": 4,
    "bigint": -5,
    "decimal": 3,
    "numeric": 2,
    "money": 3,
    "smallmoney": 3,
    "float": 6,
    "real": 7,
    "char": 1,
    "varchar": 12,
    "text": -1,
    "nchar": -8,
    "nvarchar": -9,
    "sysname": -9,
    "ntext": -10,
    "binary": -2,
    "varbinary": -3,
    "image": -4,
    "rowversion": -2,
    "uniqueidentifier": -11,
    "xml": -152,
    "date": 91,
    "time": -154,
    "datetime": 93,
    "smalldatetime": 93,
    "datetime2": 93,
    "datetimeoffset": -155,
}
"""ODBC 3's type codes, as sp_columns_100 gives them for @ODBCVer = 3."""
_ODBC_2 = {91: -9, 93: 11, -154: -9, -155: -9}
_USER_TYPES = {
    "char": 1,
    "varchar": 2,
    "binary": 3,
    "varbinary": 4,
    "tinyint": 5,
    "smallint": 6,
    "int": 7,
    "float": 8,
    "numeric": 10,
    "money": 11,
    "datetime": 12,
    "bit": 16,
    "sysname": 18,
    "text": 19,
    "image": 20,
    "smallmoney": 21,
    "smalldatetime": 22,
    "real": 23,
    "decimal": 24,
    "rowversion": 80,
}
"""`usertype` of systypes; 0 for the types that came after it."""
_LENGTHS = {"ntext": 2**30 - 1, "text": 2**31 - 1, "image": 2**31 - 1, "xml": 0, "rowversion": 8, "sysname": 128}
_DATES = {"date": 10, "time": 16, "datetime": 23, "smalldatetime": 16, "datetime2": 27, "datetimeoffset": 34}
_PARAMETERS = {
    **dict.fromkeys(("char", "nchar", "binary"), "length"),
    **dict.fromkeys(("varchar", "nvarchar", "varbinary"), "max length"),
    **dict.fromkeys(("decimal", "numeric"), "precision,scale"),
    **dict.fromkeys(("time", "datetime2", "datetimeoffset"), "scale"),
}
_SEARCHED = {"text": 1, "ntext": 1, "image": 0, "xml": 0}
"""1: with LIKE alone; 0: not at all. Text and dates are 3, with and without LIKE; the rest 2."""
_SCALES: Mapping[str, tuple[Value, Value]] = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint", "smalldatetime"), (0, 0)),
    **dict.fromkeys(("decimal", "numeric"), (0, 38)),
    **dict.fromkeys(("money", "smallmoney"), (4, 4)),
    **dict.fromkeys(("time", "datetime2", "datetimeoffset"), (0, 7)),
    "datetime": (3, 3),
    "date": (None, 0),
}
_IDENTITIES = ("tinyint", "smallint", "int", "bigint", "decimal", "numeric")


def described_types(newest: bool, case_sensitive: bool) -> list[tuple[Value, ...]]:
    """The rows of sp_datatype_info, of the types that exist here; `newest`: for ODBC 3."""
    rows = [_described(name, newest, case_sensitive, False) for name in _ODBC]
    rows += [_described(name, newest, case_sensitive, True) for name in _IDENTITIES]
    return sorted(rows, key=lambda row: (row[1], row[11] or 0, row[10], row[19]))


def _described(name: str, newest: bool, case_sensitive: bool, identity: bool) -> tuple[Value, ...]:
    exact = name in ("decimal", "numeric")
    kind = SqlType(name, None, 38, 0) if exact else SqlType(name)
    group = family(kind)
    numeric = group in ("int", "exact", "float") and name != "bit"
    shown = {"rowversion": "timestamp"}.get(name, name) + ("() identity" if exact else " identity") * identity
    prefix, suffix = _literal(kind)
    precision = _LENGTHS.get(name) or _DATES.get(name)
    if precision is None and group in ("string", "binary"):
        precision = 0 if name == "xml" else 4000 if is_unicode(kind) else 8000
    numbers = type_numbers(kind, newest)
    is_text = group == "string"
    return (
        shown,
        numbers["type"],
        precision if precision is not None else numbers["precision"],
        prefix,
        suffix,
        "precision" if identity and exact else _PARAMETERS.get(name),
        int(not identity and name not in ("rowversion", "sysname")),
        int(is_text and case_sensitive),
        _SEARCHED.get(name, 3 if is_text or group == "date" else 2),
        int(name == "tinyint") if numeric else None,
        int("money" in name),
        int(identity) if numeric else None,
        shown,
        *((0, 0) if identity else _SCALES.get(name, (None, None))),
        numbers["sql_type"],
        numbers["sub"],
        numbers["radix"],
        None,
        _USER_TYPES.get(name, 0),
    )


def _literal(kind: SqlType) -> tuple[str | None, str | None]:
    """What stands before and behind a literal."""
    group = family(kind)
    if group == "binary":
        return "0x", None
    if group in ("string", "date", "guid"):
        return ("N'" if is_unicode(kind) else "'"), "'"
    return ("$" if "money" in kind.name else None), None


def type_numbers(kind: SqlType, newest: bool) -> dict[str, int | None]:
    """The numbers that ODBC gives for a type: DATA_TYPE, PRECISION, LENGTH, SCALE, RADIX and what stands behind them."""
    group = family(kind)
    code = _ODBC[kind.name]
    if not newest and not (code == 93 and kind.name == "datetime2"):
        code = _ODBC_2.get(code, code)
    elif not newest:
        code = -9
    size = stored_size(kind)
    precision, scale = precision_scale(kind)
    octets: int | None = None
    if group in ("string", "binary"):
        endless = kind.length == MAX or kind.length is None
        octets = 0 if kind.length == MAX or kind.name == "xml" else 2**31 - 1 if endless else size
        octets = 8 if kind.name == "rowversion" else octets
        precision = octets // 2 if is_unicode(kind) else octets
        size = octets
    elif group == "exact":
        size = precision + 2
    elif group == "guid":
        precision = 36
    is_date = group == "date" and newest
    return {
        "type": code,
        "precision": precision,
        "length": size,
        "scale": scale if group in ("int", "exact") or (group == "date" and kind.name != "date") else None,
        "radix": 10 if group in ("int", "exact") and kind.name != "bit" else 2 if group == "float" else None,
        "sql_type": 9 if is_date and code in (91, 93) else code,
        "sub": {91: 1, 93: 3}.get(code) if is_date else None,
        "octets": octets,
    }
