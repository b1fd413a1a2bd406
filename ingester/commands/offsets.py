"""`dstream offsets`: where a table's offset is, what it would mean to move it, the move, and who moved what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from common.errors import PermanentError, TransientError, Unfit
from common.names import TableName
from ingester.commands.stores import Database, LocksSeen, chosen, database, locks_seen
from ingester.operating.moving import Bounds, MovePlan, Span, spans, within
from ingester.operating.offset_desk import Count, Move, MoveOrder, StoredOffset
from ingester.position import Position
from ingester.settings import IngesterSettings
from ingester.source import CaptureInstance, TableState
from ingester.sqlserver.operating.desk import lsn_of
from ingester.window import choose_instance, source_of

MOST_COUNTED = 100_000
"""Changes between two positions are counted up to here."""
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: exactly one of the four."""

    lsn: str | None = None
    time: datetime | None = None
    end: Literal["earliest", "latest"] | None = None


def refuse_unreadable(lsn: str) -> None:
    """Asks no server. Raises ConfigurationError if `lsn` is not an LSN."""
    lsn_of(lsn)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What the person has agreed to."""

    take: bool = False
    skip: bool = False


@dataclass(frozen=True, slots=True)
class MoveResult:
    """`begun`, `to`: the plan's places in words. `moved`: whether the offset was moved. `lacking`: (option, why) of the
    confirmations without which it is not."""

    plan: MovePlan
    begun: str | None
    to: str
    moved: bool = False
    lacking: tuple[tuple[str, str], ...] = ()


def move(
    settings: IngesterSettings, name: str, target: Target, confirmed: Confirmed, *, dry_run: bool, reason: str | None
) -> MoveResult:
    """Move one table's offset, unless a confirmation is lacking. Raises DStreamError.

    The order names the epoch that was seen. If the offset is claimed or moved in between, everything is looked at again.
    """
    [table] = chosen(settings, [name], settings.streams)
    with database(settings) as stores:
        for _ in range(_ATTEMPTS):
            seen = stores.desk.stored().get(table.key)
            state = _state(stores, table, seen)
            plan = planned(stores, table, state, seen, target, locks_seen(settings, [table]))
            lacking = tuple(each for each in plan.needs if not getattr(confirmed, each[0].removeprefix("--")))
            if lacking or dry_run or plan.begun == plan.to:
                return _result(stores, plan, lacking=lacking)
            epoch = None if seen is None else seen.epoch
            if stores.desk.move(MoveOrder(table, epoch, plan.to, source_of(state.instances), reason)):
                return _result(stores, plan, moved=True)
    raise TransientError(
        f"setting the offset of {table.key}: it was claimed or moved by another process at each of {_ATTEMPTS} attempts; nothing "
        "was changed",
        hint="dstream offsets moves shows who else moves it; run the command again",
    )


def _result(
    stores: Database, plan: MovePlan, *, moved: bool = False, lacking: tuple[tuple[str, str], ...] = ()
) -> MoveResult:
    begun = None if plan.begun is None else stores.desk.words(plan.begun)
    return MoveResult(plan, begun, stores.desk.words(plan.to), moved, lacking)


def _state(stores: Database, table: TableName, seen: StoredOffset | None) -> TableState:
    """The table as it is in the catalog. Raises PermanentError where its changes cannot be read."""
    stored = None if seen is None else seen.source
    state = stores.source.states([table], {table: stored} if stored is not None else None)[table]
    if (absence := stores.source.hints.absence(table, state)) is not None:
        raise PermanentError(f"setting the offset of {table.key}: {absence}")
    if state.former:
        raise PermanentError(
            f"setting the offset of {table.key}: it counts the changes of another table that had this name (object {stored}), whose "
            "rest is sent first",
            hint="wait until the ingester has sent it, and run the command again",
        )
    return state


def planned(
    stores: Database,
    table: TableName,
    state: TableState,
    seen: StoredOffset | None,
    target: Target,
    locks: LocksSeen,
) -> MovePlan:
    """What the move would mean, counted."""
    low, captured = min(instance.start for instance in state.instances), stores.desk.captured()
    bounds = Bounds(low, low if captured is None else max(low, captured))
    to = within(table, _position(stores, table, target, bounds), bounds)
    dropped = seen is not None and seen.source not in (None, source_of(state.instances))
    begun = None if seen is None else seen.position
    again, skipped, lost = spans(None if dropped else begun, to, bounds)
    held = locks.of(table)
    return MovePlan(
        table,
        begun,
        to,
        low,
        held,
        owner=None if seen is None else seen.owner,
        why_unknown=None if locks.unknown is None else locks.unknown.message,
        again=counted(stores, state.instances, again),
        skipped=counted(stores, state.instances, skipped),
        lost=_lost(table, seen, bounds, dropped=dropped) if lost or dropped else None,
    )


def _lost(table: TableName, seen: StoredOffset | None, bounds: Bounds, *, dropped: bool) -> str:
    """Which changes are lost already."""
    if dropped:
        return f"{table.key} was dropped and created again: the unread changes of the former table are lost"
    begun = None if seen is None else seen.position
    return f"cleanup has removed the changes between {begun} and {bounds.low} before they were sent: they are lost"


def _position(stores: Database, table: TableName, target: Target, bounds: Bounds) -> Position:
    if target.end is not None:
        return bounds.low if target.end == "earliest" else bounds.captured
    if target.lsn is not None:
        return stores.desk.position_of(target.lsn)
    assert target.time is not None
    found = stores.desk.position_at(target.time)
    if found is None:
        raise Unfit(
            f"setting the offset of {table.key} to {target.time.isoformat()}: nothing was captured at that time or later; capture "
            f"has come to {bounds.captured}",
            hint="use --latest to go on after all that is captured",
        )
    return found


def counted(stores: Database, instances: Sequence[CaptureInstance], span: Span | None) -> Span | None:
    """`span` with its changes counted, and none for an empty one. Where an instance takes over, its changes count."""
    if span is None:
        return None
    found, after = 0, span.after
    try:
        while after < span.upto and found < MOST_COUNTED:
            instance, successor = choose_instance(instances, after)
            ends = successor is None or successor.start >= span.upto
            upto = span.upto if successor is None or ends else successor.start
            count = stores.desk.count(instance, after, upto, MOST_COUNTED - found)
            found += count.changes
            if count.capped:
                return replace(span, count=replace(count, changes=MOST_COUNTED))
            if ends:
                break
            after = upto
    except PermanentError as error:
        return replace(span, why=error.message)
    return None if found == 0 else replace(span, count=Count(found))


def moves(settings: IngesterSettings, table: str | None, *, most: int) -> Sequence[Move]:
    """Who moved which offset, the newest first."""
    name = None if table is None else chosen(settings, [table], settings.streams)[0]
    with database(settings) as stores:
        return stores.desk.moves(name, most)
