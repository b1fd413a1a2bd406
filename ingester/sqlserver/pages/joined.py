"""Columns whose values always have as many bytes: the server joins them into one value, and they are taken apart here. Pure.

The driver takes more than a microsecond for each value of a row, however short it is. One that is NULL arrives as zeros behind a mark. Numbers have
their highest byte first; `layouts.py` finds out whether a server has another order.

Refuses dates and times: an ALTER COLUMN to another type or scale, which may come at any moment, must not make the statement fail, and a time
does not fit into fewer bytes than it has. Refuses float and real, whose bytes no document shows.
https://learn.microsoft.com/sql/t-sql/data-types/binary-and-varbinary-transact-sql (Converting binary and varbinary data)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from common.names import quote_name
from ingester.source import CapturedColumn
from ingester.sqlserver.pages.at_once import converted
from ingester.sqlserver.pages.place import BEGINS_WITH
from ingester.sqlserver.values import Convert, another_layout, projection, unchanged

MOST: Final = 24
"""Columns that are joined into one value: an expression of hundreds takes SQL Server long to compile, and thousands it refuses."""

NUMBERS: Final = {"bit": "?", "tinyint": "B", "smallint": "h", "int": "i", "bigint": "q"}
"""By type, the letter with which struct reads it."""
_OCTETS: Final = {"money": 8, "smallmoney": 4, "uniqueidentifier": 16}
"""By type, how many bytes its conversion takes."""


def read_as(column: CapturedColumn) -> str | None:
    """The letters with which struct reads a column's bytes; None for a type that is read alone."""
    name = column.type
    if name in NUMBERS:
        return NUMBERS[name]
    return f"{_OCTETS[name]}s" if name in _OCTETS else None


class Joined:
    """Columns for which `read_as` has an answer. `place`: they are part of a row's place, with other bytes on both sides."""

    def __init__(self, columns: Sequence[CapturedColumn], *, decimals_as_numbers: bool, place: bool = False) -> None:
        letters = [read_as(column) or "" for column in columns]
        own = "".join(f"?{each}" for each in letters)
        self.octets = struct.calcsize(f">{own}")
        self._unpack = struct.Struct(f">{BEGINS_WITH}x{own}").unpack_from if place else struct.Struct(f">{own}").unpack
        self._converts = [_convert(column, decimals_as_numbers=decimals_as_numbers) for column in columns]
        self.selected = " + ".join(
            _selected(f"ct.{quote_name(column.name)}", struct.calcsize(f">{each}"))
            for column, each in zip(columns, letters, strict=True)
        )

    def apart(self, values: Sequence[Any]) -> list[Sequence[object]]:
        """The columns' values, ready for JSON, of rows in which they are these `values`. Raises PermanentError for bytes of another layout."""
        try:
            columns = list(zip(*map(self._unpack, values), strict=True))
        except (struct.error, TypeError) as error:
            raise another_layout("row's columns of a fixed length") from error
        return [
            _ready(marks, found, convert)
            for marks, found, convert in zip(columns[::2], columns[1::2], self._converts, strict=True)
        ]


def _selected(column: str, octets: int) -> str:
    """A mark and the column's bytes, all of it of a known length: 0x00, or 0x01 before zeros for a NULL."""
    return f"ISNULL(0x00 + CONVERT(binary({octets}), {column}), 0x01{'00' * octets})"


def _convert(column: CapturedColumn, *, decimals_as_numbers: bool) -> Convert:
    found = projection(column.type, column.length, decimals_as_numbers=decimals_as_numbers)
    assert found is not None
    return found.convert


def _ready(marks: Sequence[bool], values: Sequence[Any], convert: Convert) -> Sequence[object]:
    ready = values if convert is unchanged else converted(convert, values)
    return [None if mark else value for mark, value in zip(marks, ready, strict=True)] if True in marks else ready
