"""A table of PostgreSQL as rows are written to it, and which of its columns the values of a message go to. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

MOST_BYTES: Final = 63
"""Of an identifier: PostgreSQL cuts off what is longer."""

_DIGITS: Final = 16
_PLACE: Final = re.compile(r'"((?:[^"]|"")*)"\."((?:[^"]|"")*)"', re.DOTALL)


def identifier(name: str, *, lower: bool) -> str:
    """The identifier for a name of the source. A longer one ends in a hash of the whole, so that no two are equal."""
    name = name.lower() if lower else name
    octets = name.encode("utf-8", "replace")
    if len(octets) <= MOST_BYTES:
        return name
    digest = hashlib.sha256(octets).hexdigest()[:_DIGITS]
    return f"{octets[: MOST_BYTES - _DIGITS - 1].decode(errors='ignore')}-{digest}"


def quoted(*parts: str) -> str:
    """`"schema"."table"`."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def parts_of(place: str) -> tuple[str, str]:
    """The schema and the table of what `quoted` has written."""
    found = _PLACE.fullmatch(place)
    assert found is not None
    return found[1].replace('""', '"'), found[2].replace('""', '"')


@dataclass(frozen=True, slots=True)
class Column:
    """`base`: its type without a length; `declared`: with it. `key`: its place in the primary key, from 0. `generated`: never written."""

    name: str
    base: str
    declared: str
    key: int | None = None
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the values of messages with these columns go. `values`: (name in the message, column) pairs. `unknown`: names without a column.

    `missing`: columns of the key without a value.
    """

    values: tuple[tuple[str, Column], ...]
    unknown: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.values)

    @property
    def key(self) -> tuple[str, ...]:
        """The names in a message of the key's columns, in the key's order."""
        found = [(column.key, name) for name, column in self.values if column.key is not None]
        return tuple(name for _, name in sorted(found))

    @property
    def as_written(self) -> bool:
        """Whether the server can find each value by its name: it cuts off longer identifiers."""
        return all(len(name.encode("utf-8", "replace")) <= MOST_BYTES for name, _ in self.values)


@dataclass(frozen=True)
class Table:
    """`position`: the name of the column that holds positions; it is among `columns` where the table has it."""

    schema: str
    name: str
    columns: Sequence[Column]
    position: str

    @property
    def place(self) -> str:
        return quoted(self.schema, self.name)

    @cached_property
    def key(self) -> tuple[Column, ...]:
        return tuple(sorted((c for c in self.columns if c.key is not None), key=lambda c: c.key or 0))

    @property
    def has_position(self) -> bool:
        return any(column.name == self.position and column.base == "bytea" for column in self.columns)

    def column(self, name: str) -> Column | None:
        """The column for a name of the source: spelled so, in lower case, or shortened."""
        for spelled in (name, identifier(name, lower=True), identifier(name, lower=False)):
            if (found := self._by_name.get(spelled)) is not None:
                return found
        return None

    def layout(self, names: tuple[str, ...]) -> Layout:
        values, unknown, taken = list[tuple[str, Column]](), list[str](), set[str]()
        for name in names:
            column = self.column(name)
            if column is None or column.name in taken:
                unknown.append(name)
                continue
            taken.add(column.name)
            if not column.generated:
                values.append((name, column))
        missing = tuple(column.name for column in self.key if column.name not in taken)
        return Layout(tuple(values), tuple(unknown), missing)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns if column.name != self.position}
