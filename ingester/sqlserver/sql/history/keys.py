"""Keys of a table as text: how each type's values are selected, written, and handed back to the server. Pure.

The text reads back to exactly the same value, and only the server compares values: it alone knows its collations and the order of
uniqueidentifier. A value is handed back as exactly the column's type and collation, so that the server converts the value and not the
column, and can seek in the index. Text goes there as UTF-16 in hexadecimal, so no character is lost on the way.
https://learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql (styles; style 3 of float is lossless)
https://learn.microsoft.com/sql/t-sql/data-types/data-type-precedence-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from common.errors import PermanentError
from ingester.history.rows import RowKey
from ingester.sqlserver.sql.changes import P


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """`declared`: the type with its length, precision or scale. `descending`: as the index has it."""

    name: str
    type: str
    declared: str
    collation: str | None
    descending: bool

    @property
    def title(self) -> str:
        """What its texts begin with, so that the key of another index, or of other columns, is never mistaken for one of these."""
        return f"{self.name} desc=" if self.descending else f"{self.name}="


@dataclass(frozen=True, slots=True)
class Form:
    """`select` has one {} for the quoted column; `write` makes text of the driver's value, and `read` a parameter of the text.

    `parameter`: an expression of the column's type, with {type}, {collate} and {p}.
    """

    select: str
    write: Callable[[object], str]
    parameter: str
    read: Callable[[str], str] = str


def _whole(value: object) -> str:
    assert isinstance(value, int)
    return str(int(value))


def _guid(value: object) -> str:
    return str(value if isinstance(value, UUID) else UUID(str(value))).upper()


def _hex(value: object) -> str:
    assert isinstance(value, bytes)
    return f"0x{value.hex()}"


def _characters(value: object) -> str:
    """The text itself, where people can read it; otherwise its UTF-16 in hexadecimal."""
    assert isinstance(value, bytes)
    try:
        text = value.decode("utf-16-le")
    except UnicodeDecodeError:  # half of a surrogate pair
        return _hex(value)
    return text if text.isprintable() and not text.startswith("0x") else _hex(value)


def _utf_16(text: str) -> str:
    return text if text.startswith("0x") else f"0x{text.encode('utf-16-le').hex()}"


_DIRECT = "CONVERT({type}, {p})"
_DATED = "CONVERT({type}, {p}, 121)"
_BYTES = "CONVERT({type}, {p}, 1)"
_UNICODE = "CONVERT({type}, CONVERT(varbinary(8000), {p}, 1)){collate}"
_OF_CODE_PAGE = "CONVERT({type}, CONVERT(nvarchar(4000), CONVERT(varbinary(8000), {p}, 1)){collate})"
"""From Unicode to the code page of the column's collation; without the inner COLLATE it would be that of the database.
https://learn.microsoft.com/sql/t-sql/statements/collation-precedence-transact-sql"""

_NUMBER = Form("{}", _whole, _DIRECT)
_DECIMAL = Form("CONVERT(varchar(41), {})", str, _DIRECT)
_MONEY = Form("CONVERT(varchar(41), {}, 2)", str, _DIRECT)
_FLOAT = Form("CONVERT(varchar(30), {}, 3)", str, _DIRECT)
_DATE = Form("CONVERT(varchar(34), {}, 121)", str, _DATED)
_BINARY = Form("{}", _hex, _BYTES)
_WIDE = Form("CONVERT(varbinary(8000), {})", _characters, _UNICODE, _utf_16)
_NARROW = Form("CONVERT(varbinary(8000), CONVERT(nvarchar(4000), {}))", _characters, _OF_CODE_PAGE, _utf_16)

_FORMS: dict[str, Form] = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), _NUMBER),
    **dict.fromkeys(("decimal", "numeric"), _DECIMAL),
    **dict.fromkeys(("money", "smallmoney"), _MONEY),
    **dict.fromkeys(("float", "real"), _FLOAT),
    "date": Form("CONVERT(varchar(10), {}, 121)", str, _DATED),
    "time": Form("CONVERT(varchar(16), {}, 121)", str, _DATED),
    **dict.fromkeys(("datetime", "smalldatetime", "datetime2", "datetimeoffset"), _DATE),
    "uniqueidentifier": Form("{}", _guid, _DIRECT),
    **dict.fromkeys(("binary", "varbinary"), _BINARY),
    **dict.fromkeys(("timestamp", "rowversion"), Form("{}", _hex, "CONVERT(binary(8), {p}, 1)")),
    **dict.fromkeys(("nchar", "nvarchar"), _WIDE),
    **dict.fromkeys(("char", "varchar"), _NARROW),
    "hierarchyid": Form("CONVERT(varbinary(892), {})", _hex, "CONVERT(hierarchyid, CONVERT(varbinary(892), {p}, 1))"),
}


def form_of(sql_type: str) -> Form | None:
    """None for a type whose values no key is read by."""
    return _FORMS.get(sql_type)


def known_form(column: KeyColumn) -> Form:
    return _FORMS[column.type]


def as_parameter(column: KeyColumn) -> str:
    """The expression that makes a value of `column` of a parameter's text."""
    collate = f" COLLATE {column.collation}" if column.collation is not None else ""
    return known_form(column).parameter.format(type=column.declared, collate=collate, p=P)


def parameters(columns: Sequence[KeyColumn], key: RowKey, table: str) -> tuple[str, ...]:
    """The values of `key` for `as_parameter`. Raises PermanentError for a key of other columns."""
    if len(key) != len(columns) or not all(
        text.startswith(column.title) for column, text in zip(columns, key, strict=True)
    ):
        now = ", ".join(column.title.removesuffix("=") for column in columns) or "no columns"
        raise PermanentError(
            f"reading {table}: its rows are now in the order of {now}, and the snapshot was begun in another order",
            hint="stop the snapshot and start it again",
        )
    return tuple(
        known_form(column).read(text.removeprefix(column.title)) for column, text in zip(columns, key, strict=True)
    )
