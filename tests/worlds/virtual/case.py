"""A case: what is drawn from a seed, and how it runs. The same case gives the same run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Literal

from common.errors import ConnectionLost, TransientError
from common.names import Ordering, TableName
from ingester.history.rules import SnapshotRules, TableRules
from ingester.history.snapshot import Reason, SnapshotState
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import ORDERS, PERSONS, lsn
from tests.worlds.virtual.database import Database, Key, Write
from tests.worlds.virtual.lives import Life, Parts
from tests.worlds.virtual.queue import Accepted, Queue
from tests.worlds.virtual.simulation import Actor, Killed, Simulation, Stuck

What = Literal["all", "driver", "stale", "worker", "zombie", "freeze", "gap", "error"]
"""Who dies: all of an ingester, its driver, a worker. Who is only taken for dead: a driver (stale), a worker (zombie). Or it stands still, or its
answer is lost. A gap: all die, and changes are cleaned up before the next one begins."""
OF_THE_STORE = (
    *("boundary computed", "fence raised", "chunk read", "chunk recorded", "between rounds", "record's answer lost"),
    *("snapshot stored", "capture asked", "page read"),
)
POINTS = (*OF_THE_STORE, "chunk half sent", "chunk sent", "page half sent", "page sent", "gap event")
"""Where somebody dies."""
WHATS: tuple[What, ...] = ("all", "driver", "driver", "stale", "worker", "zombie", "zombie", "freeze", "gap", "error")
FATES = ("throttled", "broken", "in doubt", "late", "slow")
ORDERS_OF_A_PERSON = ("pause", "stop", "ask", "ask some", "ask for a topic", "move back", "gap")
QUIET, LIMIT = 60.0, 2500.0
"""When troubles end, and when the case must have ended (seconds)."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """When `point` is reached for the `nth` time. `seconds`: for how long the ingester is away, or the worker stands still."""

    point: str
    nth: int
    what: What
    seconds: float


@dataclass(frozen=True, slots=True)
class Case:
    """`wide`: keys of two columns. `fates`: of batches, by number. `said`: what a person does, and when. `writes`: transactions."""

    seed: int
    keyed: bool
    wide: bool
    rows: int
    writes: int
    lag: float
    page_rows: int
    chunk_rows: int
    slots: int
    batch: int
    ordering: Ordering
    detects: bool
    rate: int | None
    initial: bool
    exact: bool
    where: str | None
    troubles: tuple[Trouble, ...]
    fates: tuple[tuple[int, str], ...]
    said: tuple[tuple[float, str], ...]

    def smaller(self) -> Iterator[Case]:
        """Cases with less to look at."""
        for name in ("said", "fates", "troubles"):
            whole = getattr(self, name)
            yield from (replace(self, **{name: whole[:at] + whole[at + 1 :]}) for at in range(len(whole)))
        for writes in (0, self.writes // 2, self.writes - 1):
            if 0 <= writes < self.writes:
                yield replace(self, writes=writes)
        if self.rows > 1:
            yield from (replace(self, rows=self.rows // 2), replace(self, rows=self.rows - 1))


def drawn(seed: int) -> Case:
    draw = Random(seed)
    keyed, rows = draw.random() < 0.85, draw.choice((0, 1, 5, 20, 40))
    troubles = tuple(_trouble(draw) for _ in range(draw.choice((0, 1, 1, 2, 3))))
    fates = tuple((draw.randint(1, 40), draw.choice(FATES)) for _ in range(draw.choice((0, 0, 1, 2, 4))))
    said = tuple((draw.uniform(2, 45), draw.choice(ORDERS_OF_A_PERSON)) for _ in range(draw.choice((0, 0, 1, 1, 2, 3))))
    if draw.random() < 0.1:  # the second gap comes while nothing of the first one's snapshot is recorded
        said += ((draw.uniform(5, 20), "gap"),)
        troubles += (Trouble("chunk sent", draw.randint(2, 5), "gap", 0.0),)
    return Case(
        seed=seed,
        keyed=keyed,
        wide=draw.random() < 0.3,
        rows=rows,
        writes=draw.choice((0, 5, 20, 40)),
        lag=draw.choice((0.0, 1.0, 5.0, 30.0)),
        page_rows=draw.choice((1, 3, 10)),
        chunk_rows=draw.choice((2, 5, 10, 30)),
        slots=draw.choice((2, 3, 4)),
        batch=draw.choice((1, 3, 10)),
        ordering=draw.choice(("table", "table", "key")),
        detects=draw.random() < 0.5,
        rate=draw.choice((None, None, 1, 3)),
        initial=draw.random() < 0.7,
        exact=keyed and draw.random() < 0.3,
        where=draw.choice((None, None, None, "G < 3")),
        troubles=troubles,
        fates=fates,
        said=said,
    )


def _trouble(draw: Random) -> Trouble:
    what = draw.choice(WHATS)
    point = draw.choice(OF_THE_STORE if what == "error" else POINTS)
    nth = draw.randint(1, 2 if point in ("snapshot stored", "gap event") else 8)
    return Trouble(
        point, nth, what, draw.choice((0.0, 0.5, 12.0, draw.uniform(1, 20), draw.uniform(20, 32), 40.0, 200.0))
    )


class Run:
    """A case under way, and what it leaves behind. `fired`: how many troubles there were."""

    def __init__(self, case: Case) -> None:
        self.case, self.world = case, Simulation(case.seed)
        keyed = frozenset((PERSONS, ORDERS) if case.keyed else (ORDERS,))
        self.database = Database(self.world, keyed)
        self.queue = Queue(self.world, case.detects, seen=self._looked_at)
        rules = TableRules(initial=case.initial, after_gap=True, exact=case.exact)
        self.parts = Parts(
            self.world,
            database=self.database,
            queue=self.queue,
            point=self.point,
            fate=self._fate,
            rules=SnapshotRules({PERSONS: rules}, chunk_rows=case.chunk_rows, rate=case.rate),
            ordering=case.ordering,
            page_rows=case.page_rows,
            slots=case.slots,
            batch=case.batch,
        )
        self.store = self.parts.store
        self.fired = 0
        self.wrong: list[str] = []
        self.lost: LogPosition = LogPosition.before(lsn(1))
        """Changes up to here may have been cleaned up before they were read."""
        self.quiet = self.moved = False
        self._counts: Counter[str] = Counter()
        self._batches = 0
        self._lives = 0
        self._away = False
        self._sluggish: set[Actor] = set()
        self.life: Life

    def go(self) -> Run:
        """Run to the end. Raises AssertionError if there is none."""
        try:
            self._prepare()
            self._start()
            while not (self.quiet and self._settled()):
                self.world.sleep(1.0)
                if self.world.failures:
                    raise self.world.failures[0]
                if self.world.now >= QUIET:
                    self._quieten()
                if self.world.now > LIMIT:
                    raise Stuck(f"not over after {LIMIT:.0f} s: {self._what_is_open()}")
        finally:
            self.world.close()
        return self

    # what happens

    def _prepare(self) -> None:
        case, draw = self.case, self.world.random
        self.database.load(PERSONS, sorted({self._some_key() for _ in range(case.rows)}))
        for _ in range(case.writes):
            lag = draw.uniform(0, case.lag)
            writes = [self._write() for _ in range(draw.choice((1, 1, 2, 6)))]
            self.world.at(draw.uniform(0, QUIET - 10), partial(self.database.commit, writes, lag))
        for _ in range(5):
            write = ORDERS, Write("put", (draw.randrange(5), 0), 0)
            self.world.at(draw.uniform(0, QUIET - 10), partial(self.database.commit, [write], 0.1))
        for seconds, what in case.said:
            self.world.at(seconds, partial(self._said, what))
        if not case.initial:
            self.world.at(1.0, partial(self._ask, case.where))

    def _some_key(self) -> Key:
        draw = self.world.random
        return (draw.randrange(-20, 40), draw.randrange(3) if self.case.wide else 0)

    def _write(self) -> tuple[TableName, Write]:
        draw = self.world.random
        what: Literal["put", "delete", "move"] = draw.choice(("put", "put", "put", "delete", "move"))
        return PERSONS, Write(what, self._some_key(), draw.randrange(6), self._some_key())

    def _ask(self, where: str | None = None, topic: str | None = None) -> None:
        self.store.ask(PERSONS, Reason.ASKED, where, topic)

    def _said(self, what: str) -> None:
        self.fired += what != "ask"
        open_ones = [one for one in self.store.stored.values() if one.state is not SnapshotState.DONE]
        if what in ("pause", "stop") and open_ones:
            one = self.world.random.choice(open_ones)
            self.store.set(one.id, SnapshotState.PAUSED if what == "pause" else SnapshotState.STOPPED)
            self.world.after(self.world.random.uniform(0, 20), lambda: self._resume(one.id))
        elif what.startswith("ask"):
            self._ask("G < 3" if what == "ask some" else None, "side" if what == "ask for a topic" else None)
        elif what == "move back":
            self._move_back()
        elif what == "gap":
            self._gap()

    def _gap(self) -> None:
        if not self._away:
            self._kill(12.0)
            self.world.after(11.0, self._clean_up)

    def _resume(self, snapshot: str) -> None:
        if self._is(snapshot, SnapshotState.PAUSED):
            self.store.set(snapshot, SnapshotState.WAITING)

    def _is(self, snapshot: str, state: SnapshotState) -> bool:
        return self.store.stored[snapshot].state is state

    def _move_back(self) -> None:
        stored = self.parts.offsets.stored.get(PERSONS)
        if not isinstance(stored, LogPosition):
            return
        last = int.from_bytes(stored.lsn.value, "big")
        low = self.database.low[PERSONS]
        to = LogPosition.before(lsn(self.world.random.randint(low, max(low, last))))
        if to < stored:
            self.moved = True
            self.parts.offsets.set(PERSONS, to)

    def _clean_up(self) -> None:
        self.database.clean_up(PERSONS)
        self.lost = self.database.low_watermark(PERSONS)

    # who dies

    def _start(self) -> None:
        self._away = False
        self._lives += 1
        self.life = Life(self._lives, parts=self.parts)

    def _kill(self, away: float, *, with_workers: bool = True) -> None:
        if self._away:
            return
        self._away = True
        self.fired += 1
        self.life.die(with_workers=with_workers)
        self.world.after(away, self._start)

    def point(self, name: str) -> None:
        self._counts[name] += 1
        me = self.world.current
        if me.dead:
            raise Killed
        if self.quiet:
            return
        for trouble in self.case.troubles:
            if trouble.point == name and trouble.nth == self._counts[name]:
                self.fired += 1
                self._befalls(trouble)
                return
        if me in self._sluggish:
            self.world.sleep(self.world.random.choice((0.0, 0.0, 4.0, 9.0, 14.0)))

    def _befalls(self, trouble: Trouble) -> None:
        me, ours, what = self.world.current, self.world.current.life == self._lives, trouble.what
        bundle = self.life.working.get(me, (0, []))[1]
        may_outlive = not bundle or all(map(self.parts.may_outlive, bundle))
        if what == "error":
            raise self.world.random.choice((ConnectionLost("lost"), TransientError("refused")))
        if what in ("all", "driver") and ours:
            self._kill(min(trouble.seconds, 24.0), with_workers=what == "all")
        elif what == "gap" and ours:
            self._gap()
        elif what == "stale" and ours and self.case.detects and not self._away:
            self.parts.locks.free(self._lives)
            self._start()
        elif what in ("worker", "zombie") and ours and me.kind == "worker" and (what == "worker" or may_outlive):
            self.life.lose(me)
            if what == "worker":
                self.world.kill(me)
        # What outlives its driver wakes up at the worst time; a driver stands still for a while.
        long = me.kind == "worker" and may_outlive
        if long and what in ("driver", "zombie"):
            self._sluggish.add(me)
        self.world.sleep(trouble.seconds if long else min(trouble.seconds, 24.0))

    def _fate(self) -> str | None:
        self._batches += 1
        fate = None if self.quiet else dict(self.case.fates).get(self._batches)
        bundle = self.life.working.get(self.world.current, (0, []))[1]
        if fate in ("late", "slow") and not (bundle and all(map(self.parts.may_outlive, bundle))):
            return None  # a batch of changes that comes late is only harmless where duplicates are dropped
        self.fired += fate is not None
        return fate

    # the end

    def _quieten(self) -> None:
        self.quiet = True
        for one in list(self.store.stored.values()):
            if one.state in (SnapshotState.PAUSED, SnapshotState.FAILED):
                self.store.set(one.id, SnapshotState.WAITING)
        states = [one for one in self.store.stored.values() if one.topic is None]
        if any(one.state is SnapshotState.STOPPED for one in states) and not any(
            self._is_whole(one.id) for one in states
        ):
            self._ask()

    def _is_whole(self, snapshot: str) -> bool:
        """Whether it reads all rows, and was asked for after one was stopped."""
        names = list(self.store.stored)
        stopped = [name for name in names if self._is(name, SnapshotState.STOPPED)]
        one = self.store.stored[snapshot]
        later = names.index(snapshot) > max(map(names.index, stopped))
        return later and one.where is None and one.topic is None and one.state is not SnapshotState.STOPPED

    def _settled(self) -> bool:
        return not self._what_is_open()

    def _what_is_open(self) -> list[str]:
        found = [
            f"snapshot {one.id} {one.state.value}"
            for one in self.store.stored.values()
            if one.state not in (SnapshotState.DONE, SnapshotState.STOPPED)
        ]
        if self.store.fenced():
            found.append("fence")
        if any(actor.kind == "worker" and not actor.over for actor in self.world.actors):
            found.append("workers")
        for table in (PERSONS, ORDERS):
            changes = self.database.changes(table, self.database.log)
            at = self.parts.offsets.stored.get(table)
            if at is None or (changes and at < changes[-1].position):
                found.append(f"changes of {table.key} after {at}")
        return found

    def _looked_at(self, came: Accepted) -> None:
        """No row that was recorded is sent again."""
        if came.message.subject != "Read" or not self.case.keyed:
            return
        body = came.body()
        key, snapshot = (body["data"]["ID"], body["data"]["Sub"]), body["metadata"]["Snapshot"]["Id"]
        done = self.store.stored[snapshot].done
        if done is not None and key <= tuple(map(int, done)):
            self.wrong.append(f"{self.world.now:.3f}: row {key} of {snapshot} sent although {done} is recorded")
