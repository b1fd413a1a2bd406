"""The port `Tables` over the invented world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import ConfigurationError
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
from tests.fakes.desk.watching import FakeWatching
from tests.fakes.desk.world import World


@dataclass(frozen=True, slots=True)
class FakeTables:
    world: World

    def pause(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        with self.world.lock:
            row = self.world.row(name)
            if row.pause is not None:
                raise Conflict(f"{row.name} is paused already, by {row.pause.by}", hint="resume it first")
            row.pause = Pause(at=self.world.text(), by=actor.who, reason=order.reason)
            return FakeWatching(self.world).table(name)

    def resume(self, name: str, order: PauseOrder, actor: Actor) -> Table:
        with self.world.lock:
            row = self.world.row(name)
            if row.pause is None:
                raise Conflict(f"{row.name} is not paused")
            row.pause = None
            return FakeWatching(self.world).table(name)

    def move_offset(self, name: str, order: OffsetOrder, actor: Actor) -> OffsetResult:
        given = [order.lsn is not None, order.time is not None, order.earliest, order.latest]
        if sum(given) != 1:
            raise ConfigurationError(["exactly one of lsn, time, earliest and latest is needed"])
        if order.lsn is not None and (len(order.lsn) != 20 or set(order.lsn.lower()) - set("0123456789abcdef")):
            raise ConfigurationError([f"lsn: {order.lsn!r} is not an LSN"], hint="20 hexadecimal digits")
        with self.world.lock:
            row = self.world.row(name)
            needs = []
            if row.kind != "stopped" and row.pause is None:
                needs.append(Needed(option="take", why=f"{row.owner} reads the table now"))
            if order.latest:
                needs.append(Needed(option="skip", why="4,310 changes would never be sent"))
            lacking = [each for each in needs if not getattr(order, each.option)]
            moved = not order.dry_run and not lacking
            target = "the newest change" if order.latest else "the oldest change" if order.earliest else "the commit"
            begun = row.offset_moved or self.world.position(-2)
            to = f"{target}: {self.world.position(0 if order.latest else -7200)}"
            if moved:
                row.offset_moved = to
                self.world.moves.insert(
                    0,
                    Move(
                        table=row.name, at=self.world.text(), login=actor.who, begun=begun, to=to, reason=order.reason
                    ),
                )
        return OffsetResult(
            table=row.name,
            moved=moved,
            dry_run=order.dry_run,
            begun=begun,
            to=to,
            again=None if order.latest else "12,900 changes of two hours",
            skipped="4,310 changes of 3 minutes" if order.latest else None,
            needs=needs,
            lacking=lacking,
        )

    def moves(self, name: str | None, most: int) -> Sequence[Move]:
        with self.world.lock:
            wanted = None if name is None else self.world.row(name).name
            return [each for each in self.world.moves if wanted in (None, each.table)][:most]

    def snapshots(self, name: str | None, most: int) -> Sequence[Snapshot]:
        with self.world.lock:
            wanted = None if name is None else self.world.row(name).name
            return [each for each in self.world.snapshots if wanted in (None, each.table)][:most]

    def snapshot(self, order: SnapshotOrder, actor: Actor) -> SnapshotAnswer:
        with self.world.lock:
            row = self.world.row(order.table)
            if order.where is not None and ";" in order.where:
                raise ConfigurationError(["where: a condition has no semicolon"])
            ahead = sum(
                each.table == row.name and each.state in ("running", "waiting") for each in self.world.snapshots
            )
            id = None if order.dry_run else f"{0xB0 + len(self.world.snapshots):032x}"
            if id is not None:
                self.world.snapshots.insert(
                    0,
                    Snapshot(
                        id=id,
                        table=row.name,
                        state="waiting",
                        rows=0,
                        about=120_000,
                        where=order.where,
                        topic=order.topic,
                        asked_at=self.world.text(),
                        asked_by=actor.who,
                    ),
                )
        return SnapshotAnswer(
            table=row.name, dry_run=order.dry_run, rows=120_000, id=id, ahead=ahead, topic=order.topic or row.topic
        )

    def change_snapshot(self, id: str, change: SnapshotChange, actor: Actor) -> Snapshot:
        with self.world.lock:
            there = {each.id: number for number, each in enumerate(self.world.snapshots)}
            if id not in there:
                raise NotFound(f"there is no snapshot {id[:100]}")
            number = there[id]
            each = self.world.snapshots[number]
            if each.state in ("done", "stopped"):
                raise Conflict(f"the snapshot is over: it is {each.state}")
            state = {"pause": "paused", "resume": "waiting", "stop": "stopped"}[change]
            changed = each.model_copy(update={"state": state, "updated_at": self.world.text()})
            self.world.snapshots[number] = changed
            return changed
