"""Which tables a configuration means: exact names, patterns that find more of them, and what `!` takes away. Pure.

`*` stands for any characters and `?` for one, in either part of a name and without case; what is in brackets stands for itself. The order of
the entries means nothing: a name or a pattern includes, and `!` takes away whatever included it. Which tables there are is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from common.names import TableName, parts_of

_WILD = re.compile(r"[*?]")
_TAKES = "!"

LONGEST: Final = 600
"""Characters of an entry: two names of 128, in brackets with every one of their own written twice, are fewer."""


@dataclass(frozen=True, slots=True)
class Glob:
    """`text` in lower case, where `*` stands for any characters and `?` for one. `exact`: neither does.

    Takes at most as many steps as both lengths multiplied: regular expressions of some patterns never come to an end.
    """

    text: str
    exact: bool = False

    def matches(self, name: str) -> bool:
        """`name` in lower case."""
        if self.exact:
            return self.text == name
        pattern, at, here = self.text, 0, 0
        star, tried = -1, 0
        while here < len(name):
            if at < len(pattern) and pattern[at] == "*":
                star, tried, at = at, here, at + 1
            elif at < len(pattern) and pattern[at] in ("?", name[here]):
                at, here = at + 1, here + 1
            elif star >= 0:  # the last star takes one character more; those before it need not be tried again
                tried += 1
                at, here = star + 1, tried
            else:
                return False
        return not pattern[at:].strip("*")


@dataclass(frozen=True, slots=True)
class TablePattern:
    """`text`: as the file has it, without `!`. `schema_name`: the schema, where there is only one; None for a pattern."""

    text: str
    schema: Glob
    table: Glob
    schema_name: str | None

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        """Read `sales.*`, `Audit*` (schema dbo) or `*.*`; an exact name finds that table in any case. Raises ValueError."""
        too_long(text)
        parts = parts_of(text)
        if len(parts) > 2:
            raise ValueError("has more than two parts; write schema.table (the database is part of the address)")
        schema, table = [("dbo", True), *parts][-2:]
        return cls(text.strip(), _glob(*schema), _glob(*table), None if _is_wild(*schema) else schema[0])

    def matches(self, table: TableName) -> bool:
        """In lower case, as the names of topics are: which upper and lower cases belong together then has one answer."""
        return self.schema.matches(table.schema.lower()) and self.table.matches(table.table.lower())

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An entry that takes away what it matches."""

    pattern: TablePattern


Entry = TableName | TablePattern | Exclusion


def entry(text: str) -> Entry:
    """What one entry of `tables` means. Raises ValueError."""
    bare = text.strip()
    if not bare.startswith(_TAKES):
        return TablePattern.parse(text) if is_pattern(text) else TableName.parse(text)
    rest = bare.removeprefix(_TAKES).strip()
    if not rest or rest.startswith(_TAKES):
        raise ValueError('takes away no table: write ! before one name or pattern, such as "!sales.Audit*"')
    return Exclusion(TablePattern.parse(rest))


def too_long(text: str) -> None:
    """Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text)} characters; the longest may have {LONGEST}")


def is_pattern(text: str) -> bool:
    """Whether a part outside of brackets has `*` or `?`, or a `!` is in front. Raises ValueError for what is not a name."""
    if text.strip().startswith(_TAKES):
        return True
    return any(_is_wild(*part) for part in parts_of(text))


@dataclass(frozen=True, slots=True)
class TableSelection:
    """`names`: those that nothing takes away, in the order of the file."""

    names: tuple[TableName, ...] = ()
    patterns: tuple[TablePattern, ...] = ()
    excluded: tuple[TablePattern, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> TableSelection:
        found = tuple(entries)
        excluded = tuple(each.pattern for each in found if isinstance(each, Exclusion))
        names = (each for each in found if isinstance(each, TableName))
        return cls(
            tuple(name for name in names if not any(each.matches(name) for each in excluded)),
            tuple(each for each in found if isinstance(each, TablePattern)),
            excluded,
        )

    def excluding(self, table: TableName) -> TablePattern | None:
        """What takes `table` away."""
        return next((each for each in self.excluded if each.matches(table)), None)

    def finding(self, table: TableName) -> TablePattern | None:
        """The first pattern that finds `table`; None if none does, or if it is taken away."""
        if self.excluding(table) is not None:
            return None
        return next((each for each in self.patterns if each.matches(table)), None)

    def may_have(self, table: TableName) -> bool:
        """Whether `table` is named, or a pattern would find it."""
        return table in self.names or self.finding(table) is not None

    @property
    def wanted(self) -> str:
        """The patterns for a person: `sales.*, not sales.Audit*`."""
        return ", ".join([*map(str, self.patterns), *(f"not {each}" for each in self.excluded)])


def _is_wild(part: str, bracketed: bool) -> bool:
    return not bracketed and _WILD.search(part) is not None


def _glob(part: str, bracketed: bool) -> Glob:
    return Glob(part.lower(), not _is_wild(part, bracketed))
