"""Decides what an edited configuration changes in a running ingester. Pure.

Tables, their polling, their snapshots and their shapes are taken over at once. Every other setting is in use in too many places (Spark's workers have
copies), so the log names it as one that needs a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.config.difference import differing
from common.names import TRANSACTIONS, TableName
from ingester.driver.schedule import Rhythm
from ingester.history.rules import SnapshotRules, TableRules
from ingester.settings import IngesterSettings
from ingester.shape.table_shape import TableShape

AT_ONCE = ("tables", "tables_overrides", "poll_interval_defaults", "snapshot", "shape")
"""Settings that need no restart."""

Rhythms = Mapping[TableName, Rhythm]
Shapes = Mapping[TableName, TableShape]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Tables to add, to remove, and to poll at other intervals. No table is in two of them."""

    added: Rhythms
    removed: frozenset[TableName]
    paced: Rhythms

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.paced)


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """`tables`: all tables after `changes`; `snapshots`, `shapes`: of these. `restart`: names of changed settings that need a restart."""

    changes: TableChanges
    tables: Rhythms
    restart: tuple[str, ...]
    snapshots: SnapshotRules
    shapes: Shapes


def rhythms(settings: IngesterSettings) -> dict[TableName, Rhythm]:
    """The tables of `settings` with their polling intervals, in the order of the file; transactions have the defaults."""
    usual = settings.poll_interval_defaults
    intervals = {table.name: (table.poll_interval, table.max_poll_interval) for table in settings.schedule}
    if settings.transactions:
        intervals[TRANSACTIONS] = (usual.poll_interval, usual.max_poll_interval)
    return {name: Rhythm(least.total_seconds(), most.total_seconds()) for name, (least, most) in intervals.items()}


def snapshot_rules(
    settings: IngesterSettings, *, on_gap: str, names: Mapping[TableName, TableName] | None = None
) -> SnapshotRules:
    """`on_gap`: the setting that is in force. `names`: tables that run under another spelling than in `settings`."""
    tables = {
        (names or {}).get(table.name, table.name): TableRules(
            initial=table.snapshot != "never",
            after_gap=table.snapshot == "when_needed" or on_gap == "snapshot",
            exact=table.exact,
        )
        for table in settings.schedule
    }
    return SnapshotRules(tables, settings.snapshot.chunk_rows, settings.snapshot.max_rows_per_second)


def shapes(
    settings: IngesterSettings, *, names: Mapping[TableName, TableName] | None = None
) -> dict[TableName, TableShape]:
    """The shape of every table. `names`: as for `snapshot_rules`."""
    return {(names or {}).get(table.name, table.name): table.shape for table in settings.schedule}


def plan(settings: IngesterSettings, tables: Rhythms, new: IngesterSettings) -> ReloadPlan:
    """From `settings` (at the start) and `tables` (running now) to `new`.

    A table that is only spelled differently (`persons` for `Persons`) stays as it is: two names would have two locks.
    """
    running = {table.key.lower(): table for table in tables}
    wanted: dict[TableName, Rhythm] = {}
    respelled: list[str] = []
    found = rhythms(new.model_copy(update={"transactions": settings.transactions}))
    for table, rhythm in found.items():
        known = running.get(table.key.lower(), table)
        wanted[known] = rhythm
        if known != table:
            respelled.append(f"the spelling of {table.key} in ingester.tables")
    changes = TableChanges(
        added={table: rhythm for table, rhythm in wanted.items() if table not in tables},
        removed=frozenset(tables.keys() - wanted.keys()),
        paced={table: rhythm for table, rhythm in wanted.items() if tables.get(table, rhythm) != rhythm},
    )
    names = {table: running.get(table.key.lower(), table) for table in found}
    restart = (*respelled, *differing(settings, new, block="ingester", besides=AT_ONCE))
    rules = snapshot_rules(new, on_gap=settings.on_gap, names=names)
    return ReloadPlan(changes, wanted, restart, rules, shapes(new, names=names))
