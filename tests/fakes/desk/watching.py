"""The port `Watching` over the invented world."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from desk.documents.overview import Entity, Overview, Owner, Process, Trouble, Unacknowledged
from desk.documents.shape import Unknown
from desk.documents.tables import History, Lag, Offset, Point, Table, TableSnapshot
from desk.watching.alerts import after
from tests.fakes.desk.world import DATABASE, NAMESPACE, RETENTION, SERVER, Row, World

_PROBLEM = (
    "reading change table cdc.dbo_Persons_CT: the login dstream may not select from it; "
    "run `GRANT SELECT ON SCHEMA::cdc TO dstream`"
)
_GAP = "cleanup has removed changes that were not sent: 2 h 10 min of them are lost"
_TITLES = {"stopped": "{} has stopped", "gap": "{} has lost changes", "behind": "{} is behind"}
_TROUBLES = {
    "stopped": (
        "DStreamTableStopped",
        "the login may not select from cdc.dbo_Persons_CT, and nobody reads the table",
        "grant it, and restart the ingester: `USE [shop]; GRANT SELECT ON SCHEMA::cdc TO dstream`",
    ),
    "gap": (
        "DStreamChangesLost",
        _GAP,
        "send the rows that the table holds now: `dstream snapshot start stock.Ledger/2026`",
    ),
    "behind": (
        "DStreamLagHigh",
        None,
        "compare lag and throughput: give the ingester more slots, or find out what holds it (queue, server, a large transaction)",
    ),
}
_OVER = ("done", "stopped", "failed")


@dataclass(frozen=True, slots=True)
class FakeWatching:
    world: World

    def overview(self) -> Overview:
        with self.world.lock:
            tables, entities = self.tables(), self.world.entities()
        lags = [table.lag for table in tables if table.lag is not None]
        headrooms = [table.headroom_seconds for table in tables if table.headroom_seconds is not None]
        return Overview(
            at=self.world.text(),
            version=metadata.version("dstream-cdc"),
            complete=False,
            changes_allowed=self.world.changes_allowed,
            server=SERVER,
            database=DATABASE,
            namespace=NAMESPACE,
            tables=len(tables),
            states=dict(Counter(table.state for table in tables)),
            worst_lag_seconds=max((lag.seconds for lag in lags), default=None),
            worst_headroom_seconds=min(headrooms, default=None),
            changes_waiting=sum(lag.changes for lag in lags),
            changes_per_second=round(sum(table.changes_per_second or 0 for table in tables), 1),
            queue=entities[0],
            dead_letters=sum(entity.dead_letters or 0 for entity in entities),
            owners=[
                Owner(owner=owner, tables=count)
                for owner, count in sorted(Counter(table.owner for table in tables if table.owner).items())
            ],
            processes=self._processes(),
            troubles=self._troubles(tables),
            unknown=[
                Unknown(
                    what="topic sql-prod-3.shop.hr.v1.absences.events",
                    text="the connection has no right to manage",
                    remedy="assign Azure Service Bus Data Owner, or ignore it",
                )
            ],
        )

    def _processes(self) -> list[Process]:
        busy = int(3 + 3 * math.sin(self.world.now() / 15))
        return [
            *(
                Process(
                    address=f"http://ingester-{number}:8080",
                    stage="ingester",
                    reached=True,
                    ready=True,
                    alive=True,
                    tables=len(self.world.rows) // 3,
                    slots=8,
                    slots_busy=max(0, busy - number),
                    memory_bytes=610_000_000 + number * 7_000_000,
                )
                for number in range(3)
            ),
            Process(
                address="http://router-0:8080",
                stage="router",
                reached=True,
                ready=True,
                alive=True,
                sessions=11 + busy,
                parked=2,
                behind={"search": 4},
                memory_bytes=92_000_000,
            ),
            Process(address="http://router-1:8080", stage="unknown", reached=False, text="connection refused"),
        ]

    def _troubles(self, tables: Sequence[Table]) -> list[Trouble]:
        found = [
            Trouble(
                severity="critical" if table.state in ("stopped", "gap") else "warning",
                what=_TITLES[table.state].format(table.table),
                cause=_TROUBLES[table.state][1]
                or f"it is {table.lag.seconds / 60 if table.lag else 0:.0f} minutes behind; "
                f"{table.lag.changes if table.lag else 0:,} changes wait",
                remedy=_TROUBLES[table.state][2],
                since=self.world.text(-900),
                table=table.table,
                alert=_TROUBLES[table.state][0],
                alert_after_seconds=after(_TROUBLES[table.state][0]),
            )
            for table in tables
            if table.state in _TROUBLES
        ]
        dead = len(self.world.letters["queue"])
        if dead:
            found.append(
                Trouble(
                    severity="warning",
                    what="Dead letters wait in queue ingest-queue",
                    cause=f"{dead:,} dead letters wait for a person",
                    remedy="look at their reasons; correct the cause, and replay them",
                    entity="queue",
                    alert="DStreamDeadLettersWait",
                    alert_after_seconds=after("DStreamDeadLettersWait"),
                )
            )
        return found

    def tables(self) -> Sequence[Table]:
        with self.world.lock:
            return [self._table(row) for row in self.world.rows]

    def table(self, name: str) -> Table:
        with self.world.lock:
            return self._table(self.world.row(name))

    def _table(self, row: Row) -> Table:
        lag, state = self._lag(row), row.kind
        if row.kind in ("snapshot", "flowing", "behind"):
            state = "behind" if lag.seconds > 60 else "flowing" if lag.changes else "idle"
        if row.pause is not None:
            state = "paused"
        elif row.kind == "paused":
            state = "flowing"
        problem = {"stopped": _PROBLEM, "gap": _GAP}.get(row.kind)
        snapshots = [each for each in self.world.snapshots if each.table == row.name and each.state not in _OVER]
        return Table.model_validate(
            {
                "table": row.name,
                "state": state,
                "lock": "free" if row.kind == "stopped" else "held",
                "owner": row.owner,
                "epoch": 1_795_000_000_000 + int(row.phase * 1000),
                "offset": Offset(
                    position=row.offset_moved or self.world.position(-lag.seconds),
                    lsn=self.world.lsn(-lag.seconds),
                    committed_at=self.world.text(-lag.seconds),
                    updated_at=self.world.text(-min(lag.seconds, 2)),
                ),
                "lag": lag,
                "headroom_seconds": -390.0 if row.kind == "gap" else RETENTION - lag.seconds,
                "retention_seconds": RETENTION,
                "capture_instance": row.name.replace(".", "_", 1),
                "topic": row.topic,
                "problem": problem,
                "pause": row.pause,
                "snapshot": TableSnapshot(id=snapshots[0].id, state=snapshots[0].state, rows=snapshots[0].rows)
                if snapshots
                else None,
                "changes_per_second": self._rate(row, self.world.now()) if state in ("flowing", "behind") else 0.0,
            }
        )

    def _lag(self, row: Row, at: float | None = None) -> Lag:
        """`behind`: up to 15 minutes, caught up after two minutes, and again; of the others a wave of seconds."""
        at = self.world.now() if at is None else at
        age = at - self.world.born
        if row.pause is not None or row.kind in ("stopped", "gap"):
            waited = max(0.0, 1800 + age)
            return Lag(
                seconds=round(waited, 1),
                changes=int(min(waited * row.pace, 10_000)),
                at_least=waited * row.pace > 10_000,
            )
        if row.kind == "behind":
            left = max(0.0, 1 - (age % 240) / 120) if age >= 0 else max(0.0, 1 + age / 1800)
            return Lag(seconds=round(900 * left, 1), changes=int(900 * left * row.pace), at_least=False)
        if row.kind == "idle":
            return Lag(seconds=0.0, changes=0, at_least=False)
        seconds = max(0.0, 1.5 + 2 * math.sin(at / 7 + row.phase))
        return Lag(seconds=round(seconds, 1), changes=int(seconds * row.pace), at_least=False)

    def _rate(self, row: Row, at: float) -> float:
        if row.kind in ("idle", "stopped", "gap") or row.pause is not None:
            return 0.0
        faster = 8 if row.kind == "behind" else 1
        return round(faster * row.pace * (1 + 0.4 * math.sin(at / 60 + row.phase)), 1)

    def history(self, table: str | None) -> History:
        with self.world.lock:
            rows = self.world.rows if table is None else [self.world.row(table)]
            name = None if table is None else rows[0].name
        counted = rows[:60]
        end = self.world.now() // 10 * 10
        times = [end - 10 * number for number in range(359, -1, -1)]
        unknown = {at for at in times if 0 < at - end + 1500 < 60}
        return History(
            table=name,
            lag_seconds=[
                Point(at=at, value=None if at in unknown else max(self._lag(row, at).seconds for row in counted))
                for at in times
            ],
            changes_per_second=[
                Point(
                    at=at,
                    value=None
                    if at in unknown
                    else round(sum(self._rate(row, at) for row in counted) * len(rows) / len(counted), 1),
                )
                for at in times
            ],
            queue_messages=[]
            if table
            else [Point(at=at, value=int(300 + 250 * math.sin((at - self.world.born) / 40))) for at in times],
        )

    def entities(self) -> Sequence[Entity]:
        with self.world.lock:
            return self.world.entities()

    def unacknowledged(self) -> Sequence[Unacknowledged]:
        with self.world.lock:
            unread = Counter[str]()
            for entity in self.world.entities()[1:]:
                unread[entity.name] += entity.active or 0
            queued = [
                Unacknowledged(table=row.name, queued=int(row.pace), unread=unread[row.topic], topic=row.topic)
                for row in self.world.rows
            ]
        return sorted(queued, key=lambda each: -(each.unread or 0))

    def changed(self, since: int, *, wait: float) -> int:
        ends = time.monotonic() + wait
        while (number := self._looked()) <= since and (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
        return number

    def _looked(self) -> int:
        return 1 + int((self.world.now() - self.world.born) / self.world.look_every)
