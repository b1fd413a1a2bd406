"""`dstream status` of stage 1: the tables, from the stores alone.

The number of requests does not grow with the tables, but for one batch in a hundred. Nothing is claimed, locked or raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from common.errors import DStreamError, PermanentError
from common.in_time import begun
from common.names import TRANSACTIONS, TableName
from common.unread import Unread, read_or
from ingester.blocks.locks import LocalLockSettings
from ingester.capture_status import LogTimes, OffsetTimes
from ingester.commands.kept import Kept
from ingester.commands.stores import Database, LocksSeen, database, locks_seen
from ingester.history.snapshot import Snapshot, SnapshotState
from ingester.operating.moving import Held
from ingester.operating.offset_desk import Lag, LagRequest, StoredOffset
from ingester.operating.pauses import Pause
from ingester.position import Position
from ingester.settings import IngesterSettings, OnGap
from ingester.source import Hints, TableState
from ingester.sqlserver.hints import ADD_OWNERS
from ingester.watch.retention import headroom
from ingester.window import choose_instance, gap, gap_error, probe_request, source_of

MOST_COUNTED = 1_000
"""Changes that wait are counted up to here, for each table."""

MOST_SNAPSHOTS = 1_000

_NO_OWNERS = "dbo.cdc_offsets has no column owner"


class Fault(StrEnum):
    """What kind of problem a table has. ABSENT: missing, or not under Change Data Capture. GAP: changes were lost before they were read."""

    ABSENT = "absent"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What is known of a table; None where it is unknown or where there is nothing yet.

    `owner`: who claimed it last, whether it still `held` the lock or not. `headroom`: seconds until cleanup reaches the
    offset, of the `retention`. `problem`: why the table cannot be read, with what to do; `fault`: which kind of problem. `snapshot`: the
    one that runs, or else one that waits or is paused.
    """

    table: str
    held: Held
    owner: str | None = None
    epoch: int | None = None
    position: str | None = None
    lsn: str | None = None
    committed: str | None = None
    updated: str | None = None
    lag: Lag | None = None
    headroom: float | None = None
    instance: str | None = None
    problem: str | None = None
    fault: Fault | None = None
    snapshot: Snapshot | None = None
    pause: Pause | None = None
    retention: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the stores have answered; None for a part that could not be read."""

    stored: Mapping[str, StoredOffset] | None = None
    states: Mapping[TableName, TableState] | None = None
    times: LogTimes | None = None
    retention: float | None = None
    lags: Mapping[TableName, Lag | DStreamError] | None = None


def tables_seen(
    settings: IngesterSettings,
    tables: Sequence[TableName],
    unread: list[Unread],
    *,
    lags: bool = True,
    kept: Kept | None = None,
) -> list[TableStatus]:
    """Each of `tables`, in their order. `lags`: whether the changes that wait are counted. `kept`: stores of earlier looks to use again."""
    looking = begun(
        lambda: locks_seen(settings, tables) if kept is None else kept.locks_seen(tables), name="locks seen"
    )
    with database(settings) if kept is None else kept.database() as stores:
        facts = _facts(settings, stores, tables, unread, lags=lags)
        snapshots = {} if facts.stored is None else _snapshots(stores, tables, unread)
        pauses = {} if facts.stored is None else _pauses(stores, unread)
        hints = stores.source.hints
        words = stores.desk.words
    locks = looking.result()
    local = isinstance(settings.locks, LocalLockSettings)
    if locks.unknown is not None and not local:
        unread.append(Unread("owners", locks.unknown.message, locks.unknown.hint))
    on_gap = {each.name: each.on_gap for each in settings.schedule}
    if TRANSACTIONS in tables:
        on_gap[TRANSACTIONS] = "fail" if settings.on_gap == "fail" else "skip"
    found = [
        replace(
            judged(table, facts, locks, hints, words, on_gap=on_gap[table], local=local),
            snapshot=snapshots.get(table.key),
            pause=pauses.get(table.key.lower()),
        )
        for table in tables
    ]
    if facts.lags is not None:
        failed = [(table, error) for table, error in facts.lags.items() if isinstance(error, DStreamError)]
        unread += [Unread(f"lag of {table.key}", error.message, error.hint) for table, error in failed]
    return found


def _facts(
    settings: IngesterSettings, stores: Database, tables: Sequence[TableName], unread: list[Unread], *, lags: bool
) -> Facts:
    """Where the first question fails the others are not asked: the database is away, or the login."""
    stored = read_or(unread, "offsets", stores.desk.stored, None)
    if stored is None:
        return Facts()
    if stored and not read_or(unread, "owners' names", stores.desk.owners_named, True):
        unread.append(Unread("owners' names", _NO_OWNERS, ADD_OWNERS))
    sources = {table: row.source for table in tables if (row := stored.get(table.key)) is not None and row.source}
    states = read_or(unread, "tables", lambda: stores.source.states(tables, sources), None)
    times = read_or(unread, "commit times", stores.capture.times, None) if stored else LogTimes(None, {})
    kept = read_or(unread, "retention", stores.capture.retention, None)
    if kept is not None and kept.unseen is not None:
        unread.append(Unread("retention", "this login may not see how long changes are kept", kept.unseen))
    retention = None if kept is None else kept.seconds
    if not lags or states is None:
        return Facts(stored, states, times, retention)
    if settings.query_mode == "function":
        unread.append(Unread("lag", 'changes are not counted with query_mode = "function"', note=True))
        return Facts(stored, states, times, retention)
    asked = [request for table in tables if (request := _request(table, states[table], stored)) is not None]
    counted = read_or(unread, "lag", lambda: stores.desk.lags(asked, MOST_COUNTED), None)
    return Facts(stored, states, times, retention, counted)


def _snapshots(stores: Database, tables: Sequence[TableName], unread: list[Unread]) -> dict[str, Snapshot]:
    """The one to show of each table that has one. A login that may not see snapshots looks at all else."""
    try:
        seen = [each.snapshot for each in stores.snapshots.snapshots(tables, MOST_SNAPSHOTS)]
    except PermanentError:
        return {}
    except DStreamError as error:
        unread.append(Unread("snapshots", error.message, error.hint))
        return {}
    shown = (SnapshotState.PAUSED, SnapshotState.WAITING, SnapshotState.RUNNING)  # the last one counts
    return {each.table: each for state in shown for each in seen if each.state is state}


def _pauses(stores: Database, unread: list[Unread]) -> Mapping[str, Pause]:
    """The pauses of now, by key in lower case. A login that may not see them looks at all else."""
    try:
        return stores.pauses.paused() or {}
    except PermanentError:
        return {}
    except DStreamError as error:
        unread.append(Unread("pauses", error.message, error.hint))
        return {}


def _request(table: TableName, state: TableState, stored: Mapping[str, StoredOffset]) -> LagRequest | None:
    """The question how far the table is behind; None where it cannot be read. Without an offset all of it waits."""
    instances = state.former or state.instances
    if not instances:
        return None
    row = stored.get(table.key)
    offset = None if row is None else row.position
    wanted = probe_request(instances, offset)
    after = wanted.instance.start if offset is None or offset < wanted.instance.start else offset
    return LagRequest(table, wanted.instance, after, wanted.before)


def judged(
    table: TableName,
    facts: Facts,
    locks: LocksSeen,
    hints: Hints,
    words: Callable[[Position], str],
    *,
    on_gap: OnGap,
    local: bool = False,
) -> TableStatus:
    """What the answers mean for `table`. Pure. `words`: a position for a person. `on_gap`: what follows a gap of the table.
    `local`: locks are of type "local"."""
    row = None if facts.stored is None else facts.stored.get(table.key)
    state = None if facts.states is None else facts.states[table]
    times = None if facts.times is None else facts.times.offsets.get(table.key)
    lag = None if facts.lags is None else facts.lags.get(table)
    position = None if row is None else row.position
    instances = () if state is None else state.former or state.instances
    fault, problem = (None, None) if state is None else _problem(table, state, row, hints, on_gap, local=local)
    return TableStatus(
        table=table.key,
        held=locks.of(table),
        owner=None if row is None else row.owner,
        epoch=None if row is None else row.epoch,
        position=None if position is None else words(position),
        lsn=None if position is None else position.place()[1],
        committed=None if row is None else row.committed,
        updated=None if row is None else row.updated,
        lag=lag if isinstance(lag, Lag) else None,
        headroom=_headroom(facts.retention, times),
        instance=choose_instance(instances, position)[0].name if instances else None,
        problem=problem,
        fault=fault,
        retention=facts.retention,
    )


def _headroom(retention: float | None, times: OffsetTimes | None) -> float | None:
    return None if retention is None or times is None else headroom(retention, times.age)


def _problem(
    table: TableName, state: TableState, row: StoredOffset | None, hints: Hints, on_gap: OnGap, *, local: bool
) -> tuple[Fault | None, str | None]:
    if (absence := hints.absence(table, state)) is not None:
        return Fault.ABSENT, absence
    if row is None or row.position is None:
        return None, None
    if row.source not in (None, source_of(state.instances)):
        if state.former:
            return None, "another table has the name now; the rest of the former one is sent first"
        return Fault.GAP, "the table was dropped and created again: the unread changes of the former one are lost"
    instance, _ = choose_instance(state.instances, row.position)
    lost = gap(row.position, instance.start)
    return (
        (None, None) if lost is None else (Fault.GAP, _sentence(gap_error(instance, lost, on_gap=on_gap, local=local)))
    )


def _sentence(error: PermanentError) -> str:
    return f"{error.message}; {error.hint}"


def ingesters(tables: Sequence[TableStatus]) -> dict[str, int]:
    """How many tables each owner holds, the busiest first. A table whose owner has no name is not counted."""
    return dict(Counter(each.owner for each in tables if each.held is Held.HELD and each.owner).most_common())
