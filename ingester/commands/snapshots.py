"""`dstream snapshot`: what one would be, asking for it, and pausing, resuming and stopping those that were asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.errors import ConfigurationError, PermanentError
from common.names import TableName
from common.unread import Unread, read_or
from ingester.commands.stores import Database, LocksSeen, chosen, database, locks_seen
from ingester.history.desk import POSSIBLE, SeenSnapshot
from ingester.history.rows import BaseTable
from ingester.history.snapshot import SnapshotState
from ingester.settings import IngesterSettings

_ID = re.compile(r"[0-9a-f]{12}")
_AT_ONCE = 10_000

WAITING, RUNNING, PAUSED = SnapshotState.WAITING, SnapshotState.RUNNING, SnapshotState.PAUSED
STOPPED = SnapshotState.STOPPED

_DOING: Final[Mapping[SnapshotState, str]] = {PAUSED: "pausing", WAITING: "resuming", STOPPED: "stopping"}
_ALREADY: Final[Mapping[SnapshotState, tuple[SnapshotState, ...]]] = {
    PAUSED: (PAUSED,),
    WAITING: (WAITING, RUNNING),
    STOPPED: (STOPPED,),
}


@dataclass(frozen=True, slots=True)
class Started:
    """`base`: the table as it is read. `ahead`: how many of its snapshots run or wait. `id`: None: it was not asked for."""

    table: TableName
    base: BaseTable
    locks: LocksSeen
    ahead: int
    where: str | None = None
    topic: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """`sizes`: about how many rows each table has now, by its key; without those that cannot be seen."""

    snapshots: Sequence[SeenSnapshot]
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Changed:
    """`done`: whether it is now as it was asked to be."""

    seen: SeenSnapshot
    done: bool


def start(
    settings: IngesterSettings, name: str, *, where: str | None, topic: Callable[[], str | None], dry_run: bool
) -> Started:
    """Ask for a snapshot of one table, unless `dry_run`. Raises DStreamError.

    `topic`: makes or checks where it goes instead of the table's topic, once everything else was found to be right.
    """
    [table] = chosen(settings, [name])
    with database(settings) as stores:
        base = _base(stores, table)
        if where is not None:
            stores.rows.check(base, where)
        seen = stores.snapshots.snapshots([table], _AT_ONCE)
        ahead = [each for each in seen if each.snapshot.state in (WAITING, RUNNING)]
        destination = topic()
        asked = None if dry_run else stores.snapshots.start(table, where=where, topic=destination)
    return Started(table, base, locks_seen(settings, [table]), len(ahead), where, destination, asked)


def _base(stores: Database, table: TableName) -> BaseTable:
    state = stores.source.states([table])[table]
    if (absence := stores.source.hints.absence(table, state)) is not None:
        raise PermanentError(f"asking for a snapshot of {table.key}: {absence}")
    return stores.rows.table(state.instances[-1])


def listed(settings: IngesterSettings, tables: Sequence[str], most: int, unread: list[Unread]) -> Listed:
    """Those of `tables`; without any, of all tables, also of those that are no longer configured."""
    names = chosen(settings, tables) if tables else None
    found: Sequence[SeenSnapshot] = ()
    sizes: Mapping[TableName, int] = {}
    with database(settings) as stores:
        found = read_or(unread, "snapshots", lambda: stores.snapshots.snapshots(names, most), found)
        about = list(dict.fromkeys(name for each in found if (name := _name(each.snapshot.table)) is not None))
        sizes = read_or(unread, "sizes of tables", lambda: stores.snapshots.sizes(about), sizes)
    return Listed(found, {name.key: rows for name, rows in sizes.items()})


def _name(key: str) -> TableName | None:
    """None for a key that is too long to have the whole name."""
    try:
        return TableName.parse(key)
    except ValueError:
        return None


def change(settings: IngesterSettings, which: str, state: SnapshotState) -> Sequence[Changed]:
    """Pause, resume or stop the snapshot of an id, or those of a table. Raises DStreamError if there is nothing of the kind."""
    with database(settings) as stores:
        found = []
        for snapshot in _meant(settings, stores, which, state):
            seen = stores.snapshots.change(snapshot, state)
            if seen is None:
                raise PermanentError(
                    f"{_DOING[state]} snapshot {snapshot}: there is none with this id", hint="dstream snapshot list"
                )
            found.append(Changed(seen, seen.snapshot.state in _ALREADY[state]))
    return found


def _meant(settings: IngesterSettings, stores: Database, which: str, state: SnapshotState) -> list[str]:
    """The ids. What looks like an id is a table's name only if no snapshot has it and a table is configured so."""
    text = which.strip().lower()
    configured = {table.key.lower() for table in settings.tables}
    if _ID.fullmatch(text) and (f"dbo.{text}" not in configured or stores.snapshots.find(text) is not None):
        return [text]
    try:
        [table] = chosen(settings, [which])
    except ConfigurationError as error:
        problems = [f"{each}, and not the id of a snapshot" for each in error.problems]
        raise ConfigurationError(problems, hint=f"dstream snapshot list has the ids; {error.hint}") from None
    seen = stores.snapshots.snapshots([table], _AT_ONCE)
    meant = [each.snapshot.id for each in reversed(seen) if each.snapshot.state in POSSIBLE[state]]
    if not meant:
        raise PermanentError(
            f"{_DOING[state]} the snapshots of {table.key}: none of them is {' or '.join(POSSIBLE[state])}",
            hint=f"dstream snapshot list {table.key}",
        )
    return meant
