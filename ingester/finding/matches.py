"""Which tables the patterns of a configuration match, among those under Change Data Capture. Pure.

The result is settings with exact names, as if a person had written them: nothing below knows patterns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.names import TableName
from common.table_selection import TablePattern
from ingester.settings import IngesterSettings, TableOverride

OWN: Final = frozenset({"cdc_offsets", "cdc_offset_moves", "cdc_snapshots", "cdc_schemas", "cdc_pauses"})
"""DStream's own tables in schema dbo. Each of their changes would make another one, so that no pattern finds them."""


@dataclass(frozen=True, slots=True)
class UnderCdc:
    """The tables with a capture instance, the oldest first. `hidden`: how many more there are whose names this login may not see.

    `with_offset`: those that were read before under their names. `former`: of those that were not, the name under which the offset of the same
    table is stored: it was renamed.
    """

    tables: tuple[TableName, ...] = ()
    hidden: int = 0
    with_offset: frozenset[TableName] = frozenset()
    former: Mapping[TableName, str] = field(default_factory=dict)

    def has(self, pattern: TablePattern) -> bool:
        """Whether it matches any table, even one that another entry includes or takes away: then it is no mistake."""
        return any(pattern.matches(table) for table in self.tables)


Pairs = tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """`settings`: with exact names alone. `found`: the tables that are there because of a pattern, in the order of their names.

    `colliding`: pairs (table that is sent, table that is left out) whose names differ only in case, so that they would share a topic.
    `renamed`: tables that are left out because their offset has another name, which comes second: masks that held for that name would not hold.
    `idle`: what overrides name and no table has: a slip of the pen leaves a table without its masks, or it comes later.
    `waiting`: pairs (table without an override that is left out, such an override that limits what is sent, of its name in another schema).
    `in_doubt`: the same of tables that are sent, because they were before.
    """

    settings: IngesterSettings
    found: Mapping[TableName, TablePattern]
    colliding: Pairs = ()
    renamed: tuple[tuple[TableName, str], ...] = ()
    idle: tuple[TableName, ...] = ()
    waiting: Pairs = ()
    in_doubt: Pairs = ()


def matches(settings: IngesterSettings, there: UnderCdc) -> Matches:
    """Of several tables that would share a topic the oldest is sent, and one that is named exactly before all others."""
    selected = _selected(settings, there.tables)
    idle, limits = _idle(settings, selected)
    renamed = {table: there.former[table] for table in selected if table in there.former}
    own = {each.table_name.key.lower() for each in settings.tables_overrides.overrides}
    namesakes = {
        table: limits[name]
        for table in selected
        if (name := table.table.lower()) in limits and table.key.lower() not in own
    }
    waiting = {table: meant for table, meant in namesakes.items() if table not in there.with_offset}
    found, colliding = _one_a_topic(settings, selected, there.tables, renamed.keys() | waiting.keys())
    tables = (*settings.tables, *found)
    update = {"tables": tables, "tables_overrides": _spelled(settings, tables)}
    return Matches(
        settings.model_copy(update=update),
        found,
        colliding,
        tuple(renamed.items()),
        idle,
        tuple((table, meant) for table, meant in waiting.items() if table not in renamed),
        tuple((table, meant) for table, meant in namesakes.items() if table in found),
    )


def _selected(settings: IngesterSettings, under_cdc: Sequence[TableName]) -> dict[TableName, TablePattern]:
    """What the patterns find besides the tables that are named exactly, in the order of `under_cdc`."""
    named = frozenset(settings.tables)
    asked = (
        (table, settings.selection.finding(table)) for table in under_cdc if table not in named and not _own(table)
    )
    return {table: pattern for table, pattern in asked if pattern is not None}


def _idle(
    settings: IngesterSettings, selected: Iterable[TableName]
) -> tuple[tuple[TableName, ...], dict[str, TableName]]:
    """What overrides name and no table has; and those of them that limit what is sent, by the bare name of each."""
    there = {table.key.lower() for table in (*settings.tables, *selected)}
    overrides = settings.tables_overrides.overrides
    idle = [each for each in overrides if each.table_name.key.lower() not in there]
    return tuple(each.table_name for each in idle), {
        each.table_name.table.lower(): each.table_name for each in idle if _limits(each)
    }


def _limits(override: TableOverride) -> bool:
    return any((override.columns, override.exclude_columns, override.mask, override.filter))


def _one_a_topic(
    settings: IngesterSettings,
    selected: Mapping[TableName, TablePattern],
    under_cdc: Collection[TableName],
    left_out: Collection[TableName],
) -> tuple[dict[TableName, TablePattern], Pairs]:
    taken = {settings.origin.topic(name): name for name in settings.tables}
    found, colliding = dict[TableName, TablePattern](), list[tuple[TableName, TableName]]()
    there = frozenset(under_cdc)
    for table, pattern in selected.items():
        if table in left_out:
            continue
        first = taken.setdefault(settings.origin.topic(table), table)
        if first is table:
            found[table] = pattern
        elif first in there:  # else it is the same table, which the file spells in another case
            colliding.append((first, table))
    return {table: found[table] for table in sorted(found)}, tuple(colliding)


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
