"""Which tables the patterns of a configuration match, among those under Change Data Capture. Pure.

The result is settings with exact names, as if a person had written them: nothing below knows patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.names import TableName
from common.table_selection import TablePattern
from ingester.settings import IngesterSettings

OWN: Final = frozenset({"cdc_offsets", "cdc_offset_moves", "cdc_snapshots", "cdc_schemas"})
"""DStream's own tables in schema dbo. Each of their changes would make another one, so that no pattern finds them."""


@dataclass(frozen=True, slots=True)
class UnderCdc:
    """The tables with a capture instance, the oldest first. `hidden`: how many more there are whose names this login may not see."""

    tables: tuple[TableName, ...] = ()
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Matches:
    """`settings`: with exact names alone. `found`: the tables that are there because of a pattern, in the order of their names.

    `colliding`: pairs (table that is sent, table that is left out) whose names differ only in case, so that they would share a topic.
    """

    settings: IngesterSettings
    found: Mapping[TableName, TablePattern]
    colliding: tuple[tuple[TableName, TableName], ...] = ()

    @property
    def idle(self) -> tuple[TableName, ...]:
        """What overrides name and no table has: a slip of the pen leaves a table without its masks, or it comes later."""
        there = frozenset(self.settings.tables)
        return tuple(
            each.table_name for each in self.settings.tables_overrides.overrides if each.table_name not in there
        )


def matches(settings: IngesterSettings, under_cdc: Sequence[TableName]) -> Matches:
    """`under_cdc`: the oldest first. Of several that would share a topic the oldest is sent, and one that is named exactly before all others."""
    selection, origin = settings.selection, settings.origin
    taken = {origin.topic(name): name for name in settings.tables}
    found, colliding = dict[TableName, TablePattern](), list[tuple[TableName, TableName]]()
    there, named = frozenset(under_cdc), frozenset(settings.tables)
    for table in under_cdc:
        pattern = None if _own(table) or table in named else selection.finding(table)
        if pattern is None:
            continue
        first = taken.setdefault(origin.topic(table), table)
        if first is table:
            found[table] = pattern
        elif first in there:  # else it is the same table, which the file spells in another case
            colliding.append((first, table))
    ordered = {table: found[table] for table in sorted(found)}
    tables = (*settings.tables, *ordered)
    update = {"tables": tables, "tables_overrides": _spelled(settings, tables)}
    return Matches(settings.model_copy(update=update), ordered, tuple(colliding))


def _own(table: TableName) -> bool:
    return table.schema.lower() == "dbo" and table.table.lower() in OWN


def _spelled(settings: IngesterSettings, tables: Sequence[TableName]) -> object:
    """The overrides with the names that the tables have here: an override that case alone kept from its table would leave its masks out."""
    spelled = {table.key.lower(): table for table in tables}
    overrides = [
        each.model_copy(update={"table_name": spelled.get(each.table_name.key.lower(), each.table_name)})
        for each in settings.tables_overrides.overrides
    ]
    return settings.tables_overrides.model_copy(update={"overrides": tuple(overrides)})
