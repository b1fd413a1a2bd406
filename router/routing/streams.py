"""Which streams a route takes: names and patterns of tables, as in `tables`, or of topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from common.names import TableName, parts_of
from common.table_selection import Glob, TablePattern, too_long

_TAKES = "!"
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class StreamPattern:
    """One entry. `table`: None where the entry has more parts than a table's name and can only be a topic's.

    In `topic` a `*` stands for dots too: topics of one server begin alike.
    """

    text: str
    excludes: bool
    table: TablePattern | None
    topic: Glob

    @classmethod
    def parse(cls, text: str) -> StreamPattern:
        """Raises ValueError."""
        too_long(text)
        bare = text.strip()
        excludes = bare.startswith(_TAKES)
        if excludes:
            bare = bare.removeprefix(_TAKES).strip()
        if not bare or bare.startswith(_TAKES):
            raise ValueError("must be a table such as Persons or sales.*, or a topic; ! takes one away")
        table = TablePattern.parse(bare) if len(parts_of(bare)) <= 2 else None
        return cls(text.strip(), excludes, table, Glob(bare.lower(), exact=_WILD.search(bare) is None))

    def matches(self, topic: str, table: TableName | None) -> bool:
        """`topic` in lower case. `table`: None where it is unknown."""
        if self.table is not None and table is not None and self.table.matches(table):
            return True
        return self.topic.matches(topic)

    def names(self, topic: str) -> bool:
        """Whether it is about this topic, and not about tables: it is the topic's name, or has more parts than a table's."""
        return (self.topic.exact and self.topic.matches(topic)) or (self.table is None and self.matches(topic, None))


def named(patterns: Sequence[StreamPattern], topic: str) -> bool:
    """Whether one is about the topic, which no table has, and none takes it away."""
    return any(each.names(topic) for each in patterns if not each.excludes) and matches(patterns, topic, None)


def matches(patterns: Sequence[StreamPattern], topic: str, table: TableName | None) -> bool:
    """Whether one includes the stream and none takes it away. Only entries that take away: they do so from all."""
    if any(each.excludes and each.matches(topic, table) for each in patterns):
        return False
    including = [each for each in patterns if not each.excludes]
    return not including or any(each.matches(topic, table) for each in including)
