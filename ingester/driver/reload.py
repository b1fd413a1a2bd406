"""What becomes of a running ingester when its configuration was edited: decided here, done elsewhere. Pure.

Tables and their polling are taken over as they run; every other setting is in use in too many places (Spark's workers have their copy), and is
named as one that a restart will bring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.config.difference import differing
from common.names import TableName
from ingester.driver.schedule import Rhythm
from ingester.settings import IngesterSettings

AT_ONCE = ("tables", "tables_overrides", "poll_interval_defaults")
"""The settings that are taken over without a restart."""

Rhythms = Mapping[TableName, Rhythm]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Tables to begin with, to leave, and to look at in another rhythm. No table is in two of them."""

    added: Rhythms
    removed: frozenset[TableName]
    paced: Rhythms

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.paced)


@dataclass(frozen=True, slots=True)
class ReloadPlan:
    """`tables`: all tables that run when `changes` have been made. `restart`: the names of settings that only a restart will bring."""

    changes: TableChanges
    tables: Rhythms
    restart: tuple[str, ...]


def rhythms(settings: IngesterSettings) -> dict[TableName, Rhythm]:
    """The tables of `settings`, each with how often it is looked at, in the order of the file."""
    return {
        table.name: Rhythm(table.poll_interval.total_seconds(), table.max_poll_interval.total_seconds())
        for table in settings.schedule
    }


def plan(settings: IngesterSettings, tables: Rhythms, new: IngesterSettings) -> ReloadPlan:
    """From `settings` as they were at the start, and the `tables` that run by now, to `new`.

    A table that is only spelled anew (`persons` for `Persons`) stays as it is: under both names it would have two locks.
    """
    running = {table.key.lower(): table for table in tables}
    wanted: dict[TableName, Rhythm] = {}
    respelled: list[str] = []
    for table, rhythm in rhythms(new).items():
        known = running.get(table.key.lower(), table)
        wanted[known] = rhythm
        if known != table:
            respelled.append(f"the spelling of {table.key} in ingester.tables")
    changes = TableChanges(
        added={table: rhythm for table, rhythm in wanted.items() if table not in tables},
        removed=frozenset(tables.keys() - wanted.keys()),
        paced={table: rhythm for table, rhythm in wanted.items() if tables.get(table, rhythm) != rhythm},
    )
    return ReloadPlan(changes, wanted, (*respelled, *differing(settings, new, block="ingester", besides=AT_ONCE)))
