"""Decides what an edited configuration changes in a running ingester. Pure.

Tables, their polling, their snapshots and their shapes are taken over at once. Every other setting is in use in too many places (Spark's workers have
copies), so the log names it as one that needs a restart. What leaves changes out was checked with those settings as the new file has them: where they
are not in force, it needs the restart as well, because a filter that judges by other values loses changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from common.config.difference import differing
from common.names import TRANSACTIONS, TableName
from ingester.driver.schedule import Rhythm
from ingester.history.rules import SnapshotRules, TableRules
from ingester.settings import IngesterSettings
from ingester.shape.counted import LEAVES_OUT
from ingester.shape.settings import filter_conflicts
from ingester.shape.table_shape import TableShape

AT_ONCE = ("tables", "tables_overrides", "poll_interval_defaults", "snapshot", "shape")
"""Settings that need no restart."""
_NAMED = 3
"""Tables that a line of the log names."""

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


def plan(settings: IngesterSettings, tables: Rhythms, in_force: Shapes, new: IngesterSettings) -> ReloadPlan:
    """From `settings` (at the start), with `tables` and their shapes `in_force` (running now), to `new`.

    A table that is only spelled differently (`persons` for `Persons`) stays as it is: two names would have two locks.
    """
    running = {table.key.lower(): table for table in tables}
    paces = rhythms(_besides_transactions(settings, new))
    names = {table: running.get(table.key.lower(), table) for table in paces}
    found = shapes(new, names=names)
    unfit = {table: why for table, shape in found.items() if (why := _unfit(shape, in_force.get(table), settings, new))}
    kept = {table: _limited_as(found[table], in_force[table]) for table in unfit if table in in_force}
    waiting = unfit.keys() - tables.keys()
    wanted = {names[table]: rhythm for table, rhythm in paces.items() if names[table] not in waiting}
    changes = TableChanges(
        added={table: rhythm for table, rhythm in wanted.items() if table not in tables},
        removed=frozenset(tables.keys() - wanted.keys()),
        paced={table: rhythm for table, rhythm in wanted.items() if tables.get(table, rhythm) != rhythm},
    )
    respelled = (f"the spelling of {table.key} in ingester.tables" for table, name in names.items() if name != table)
    restart = (*respelled, *_told(unfit), *differing(settings, new, block="ingester", besides=AT_ONCE))
    rules = snapshot_rules(new, on_gap=settings.on_gap, names=names)
    usable = {table: shape for table, shape in {**found, **kept}.items() if table not in waiting}
    return ReloadPlan(changes, wanted, restart, rules, usable)


def _besides_transactions(settings: IngesterSettings, new: IngesterSettings) -> IngesterSettings:
    return new.model_copy(update={"transactions": settings.transactions})


def _unfit(
    shape: TableShape, in_force: TableShape | None, settings: IngesterSettings, new: IngesterSettings
) -> str | None:
    """The setting that `shape` needs as `new` has it and that is not in force: `settings` has it as it was at the start."""
    if settings.transactions and any(getattr(shape, setting) for setting in LEAVES_OUT):
        return "transactions"  # `new` has them off: its counts are of every change
    if shape.filter is None or (in_force is not None and shape.filter == in_force.filter):
        return None
    if any(filter_conflicts({"filter": shape.filter}, before_images=settings.before_images)):
        return "before_images"
    return "decimals" if settings.decimals != new.decimals else None


def _limited_as(shape: TableShape, in_force: TableShape) -> TableShape:
    """With the columns and masks of `shape`; the changes that are left out stay those that are left out now."""
    return replace(
        shape,
        filter=in_force.filter,
        on_filter_error=in_force.on_filter_error,
        skip_operations=in_force.skip_operations,
        skip_unchanged=in_force.skip_unchanged,
    )


def _told(unfit: Mapping[TableName, str]) -> Iterator[str]:
    for setting in dict.fromkeys(unfit.values()):
        of = [table.key for table, why in unfit.items() if why == setting]
        more = f" and {len(of) - _NAMED} more" if len(of) > _NAMED else ""
        yield f"what is left out of {', '.join(of[:_NAMED])}{more}, with ingester.{setting}"
