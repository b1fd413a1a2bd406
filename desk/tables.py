"""What can be done to tables, by the same functions as the commands: pausing, moving an offset, snapshots. Who asked goes into the database, too.

Allows nothing and refuses nothing by itself: see `console/guard.py`. Needs the ingester's packages and settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Protocol

from common.errors import ConfigurationError, TransientError
from common.unread import Unread
from desk.desk import Actor, Conflict, NotFound, SnapshotChange
from desk.documents.tables import (
    Move,
    Needed,
    OffsetOrder,
    OffsetResult,
    Pause,
    PauseOrder,
    Snapshot,
    SnapshotAnswer,
    SnapshotOrder,
    Table,
)
from desk.importing import imported
from desk.status import Stages
from desk.watching.tables import SNAPSHOT_STATES

if TYPE_CHECKING:  # a router is installed without the ingester's packages
    from common.names import TableName
    from ingester.commands.offsets import MoveResult
    from ingester.commands.pauses import Paused
    from ingester.commands.snapshots import Started
    from ingester.history.desk import SeenSnapshot

_STATES = {"pause": "paused", "resume": "waiting", "stop": "stopped"}
_DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


class _Watching(Protocol):
    """What of the console's view is needed here."""

    def table(self, name: str) -> Table: ...

    def soon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredTables:
    """`stages`: those of now, with the ingester's settings; the router's only for snapshots to another topic."""

    stages: Callable[[], Stages]
    watching: _Watching

    def pause(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        settings, table = self._table(name)
        done: Paused = imported("ingester.commands.pauses").pause(settings, table.key, _why(actor, order.reason))
        if not done.changed:
            by = "" if done.pause is None else f", since {done.pause.at} by {done.pause.by}"
            raise Conflict(f"{table.key}: it is paused already{by}", hint="resume it first, or leave it as it is")
        return self._now(table, done)

    def resume(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        settings, table = self._table(name)
        done: Paused = imported("ingester.commands.pauses").resume(settings, table.key, _why(actor, order.reason))
        if not done.changed:
            raise Conflict(f"{table.key}: it is not paused", hint="somebody else may have resumed it")
        return self._now(table, done, over=True)

    def _now(self, table: TableName, done: Paused, *, over: bool = False) -> Table:
        """As it was seen last, with what was changed; the next look shows the rest."""
        self.watching.soon()
        seen = self.watching.table(table.key)
        if over or done.pause is None:
            state = "unknown" if seen.state == "paused" else seen.state
            return seen.model_copy(update={"pause": None, "state": state})
        pause = Pause(at=done.pause.at, by=done.pause.by, reason=done.pause.reason)
        return seen.model_copy(update={"pause": pause, "state": "paused"})

    def move_offset(self, name: str, order: OffsetOrder, actor: Actor) -> OffsetResult:
        chosen = [order.lsn is not None, order.time is not None, order.earliest, order.latest]
        if sum(chosen) != 1:
            raise ConfigurationError(["choose exactly one of lsn, time, earliest and latest"])
        settings, table = self._table(name)
        module = imported("ingester.commands.offsets")
        time = order.time
        if time is not None and time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        end = "earliest" if order.earliest else "latest" if order.latest else None
        found: MoveResult = module.move(
            settings,
            table.key,
            module.Target(lsn=order.lsn, time=time, end=end),
            module.Confirmed(take=order.take, skip=order.skip),
            dry_run=order.dry_run,
            reason=_why(actor, order.reason),
        )
        if found.moved:
            self.watching.soon()
        return _moved(found, dry_run=order.dry_run)

    def moves(self, name: str | None, most: int) -> Sequence[Move]:
        settings, key = self._settings(), None
        if name is not None:
            settings, table = self._table(name)
            key = table.key
        found = imported("ingester.commands.offsets").moves(settings, key, most=most)
        return [
            Move(
                table=each.table,
                at=each.at,
                login=each.login,
                host=each.host,
                begun=each.begun,
                to=each.to,
                reason=each.reason,
            )
            for each in found
        ]

    def snapshots(self, name: str | None, most: int) -> Sequence[Snapshot]:
        settings, keys = self._settings(), list[str]()
        if name is not None:
            settings, table = self._table(name)
            keys = [table.key]
        unread = list[Unread]()
        found = imported("ingester.commands.snapshots").listed(settings, keys, most, unread)
        if unread and not found.snapshots:
            raise TransientError(f"{unread[0].what}: {unread[0].why}", hint=unread[0].hint)
        return [_snapshot(each, found.sizes.get(each.snapshot.table)) for each in found.snapshots]

    def snapshot(self, order: SnapshotOrder, actor: Actor) -> SnapshotAnswer:
        settings, table = self._table(order.table)
        topic = self._topic(order)
        found: Started = imported("ingester.commands.snapshots").start(
            settings, table.key, where=order.where, topic=topic, dry_run=order.dry_run
        )
        if found.id is not None:
            self.watching.soon()
        return SnapshotAnswer(
            table=table.key,
            dry_run=order.dry_run,
            rows=found.base.rows,
            id=found.id,
            ahead=found.ahead,
            topic=found.topic,
            remarks=_remarks(found),
        )

    def _topic(self, order: SnapshotOrder) -> Callable[[], str | None]:
        to, router = order.topic, self.stages().router
        if to is None:
            return lambda: None
        if router is None:
            raise ConfigurationError(
                ["another topic needs the router's settings"],
                hint="start the console where the settings of both stages are set",
            )
        topics = imported("router.side_topic")
        name: str = topics.named(router, to)
        return lambda: name if order.dry_run else topics.provide(router, to)

    def change_snapshot(self, id: str, change: SnapshotChange, actor: Actor) -> Snapshot:
        settings = self._settings()
        with imported("ingester.commands.stores").database(settings) as stores:
            if stores.snapshots.find(id) is None:
                raise NotFound(f"snapshot {id}: there is none with this id", hint="see the list of snapshots")
        state = imported("ingester.history.snapshot").SnapshotState(_STATES[change])
        [changed] = imported("ingester.commands.snapshots").change(settings, id, state)
        if not changed.done:
            raise Conflict(
                f"snapshot {id}: it cannot be {_DONE[change]}, because it is {changed.seen.snapshot.state}",
                hint="ask for another one",
            )
        self.watching.soon()
        return _snapshot(changed.seen, None)

    def _settings(self) -> Any:
        return imported("ingester.commands.stores").with_matches(self.stages().ingester)

    def _table(self, name: str) -> tuple[Any, TableName]:
        """The settings with exact names, and the table in its own spelling."""
        settings = self._settings()
        try:
            [table] = imported("ingester.commands.stores").chosen(settings, [name], settings.streams)
        except ConfigurationError as error:
            raise NotFound("; ".join(error.problems), hint=error.hint) from error
        return settings, table


def _why(actor: Actor, reason: str | None) -> str:
    """What is kept in the database, where the console has one login for everybody."""
    return f"{actor.who} through the console" + (f": {reason}" if reason else "")


def _moved(found: MoveResult, *, dry_run: bool) -> OffsetResult:
    plan = found.plan
    return OffsetResult(
        table=plan.table.key,
        moved=found.moved,
        dry_run=dry_run,
        begun=found.begun,
        to=found.to,
        again=None if plan.again is None else str(plan.again),
        skipped=None if plan.skipped is None else str(plan.skipped),
        lost=plan.lost,
        needs=_needed(plan.needs),
        lacking=_needed(found.lacking),
    )


def _remarks(found: Started) -> list[str]:
    """What a person should know before it begins."""
    remarks = list[str]()
    if not found.base.order:
        remarks.append("the table has no key, so it is read in one pass, and its changes wait meanwhile")
    if found.ahead:
        remarks.append(f"{found.ahead} of the table are not over; one runs at a time")
    if found.locks.unknown is None and found.table not in found.locks.held:
        remarks.append("it begins when an ingester reads the table: none does now")
    return remarks


def _needed(options: Sequence[tuple[str, str]]) -> list[Needed]:
    return [Needed(option="take" if option == "--take" else "skip", why=why) for option, why in options]


def _snapshot(seen: SeenSnapshot, about: int | None) -> Snapshot:
    of = seen.snapshot
    return Snapshot(
        id=of.id,
        table=of.table,
        state=SNAPSHOT_STATES[of.state],
        rows=of.rows,
        about=about,
        where=of.where,
        topic=of.topic,
        asked_at=seen.asked,
        asked_by=seen.asked_by,
        begun_at=seen.begun,
        updated_at=seen.updated,
        owner=seen.owner,
        error=seen.error,
    )
