"""One ingester after another over the same database, store and queue: how each lives, dies, and leaves workers behind."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from threading import Event
from typing import Any, TypeVar, cast

from common.clock import SteadyTime, UnixTime
from common.names import Ordering, Origin
from common.side_topic import SideTopics
from ingester.driver.history.parts import Stored
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.loop import Loop
from ingester.driver.loop_settings import LoopSettings
from ingester.driver.schedule import Rhythm
from ingester.executor import Begins, Early
from ingester.history.rules import SnapshotRules
from ingester.locks import Lease
from ingester.slices import Slice, SliceResult, WorkerLost, failed
from ingester.task.chunk_pages import ChunkReader
from ingester.task.drain import Drain
from ingester.task.encode import Encoder
from ingester.task.read_chunk import ChunkDrain
from ingester.watch.stats import IngesterStats
from tests.fakes.ingester import ORDERS, PERSONS
from tests.worlds.virtual.database import Database
from tests.worlds.virtual.ports import ModelOffsets, ModelRows, ModelSnapshots, ModelSource, Point
from tests.worlds.virtual.queue import ModelSender, Queue
from tests.worlds.virtual.simulation import Actor, Killed, Simulation

_T = TypeVar("_T")
DATE = 1_700_000_000.0
ORIGIN, QUEUE = Origin("server", "database"), "ingest-queue"


class Locks:
    """Locks of the kind that is free at once when its owner has died."""

    renew_seconds: float | None = None

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._held: dict[str, tuple[int, int]] = {}
        self._epoch = 0

    def of(self, life: int) -> OwnLocks:
        return OwnLocks(self, life)

    def free(self, life: int) -> None:
        self._held = {name: held for name, held in self._held.items() if held[0] != life}

    def take(self, name: str, life: int) -> Lease | None:
        if name in self._held:
            return None
        self._epoch = max(self._epoch + 1, int((DATE + self._world.now) * 1000))
        self._held[name] = life, self._epoch
        return Lease(name, f"life {life}", self._epoch)

    def release(self, lease: Lease) -> None:
        if self._held.get(lease.name, (0, 0))[1] == lease.epoch:
            del self._held[lease.name]

    def held(self) -> frozenset[str]:
        return frozenset(self._held)


class OwnLocks:
    """One ingester's."""

    renew_seconds: float | None = None

    def __init__(self, all_of_them: Locks, life: int) -> None:
        self._all, self._life = all_of_them, life

    def ensure(self) -> None:
        pass

    def acquire(self, name: str) -> Lease | None:
        return self._all.take(name, self._life)

    def renew(self, lease: Lease) -> Lease:
        return lease

    def release(self, lease: Lease) -> None:
        self._all.release(lease)

    lost = release

    def held(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(names) & self._all.held()

    def close(self) -> None:
        pass


class InlinePool:
    """A pool whose work is done by whoever asks for it. `later`: whether it is put off until its result is needed."""

    def __init__(self, later: Callable[[], bool] = lambda: False) -> None:
        self._later = later

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        return _Work(lambda: work(*arguments), later=self._later())

    def map(self, work: Callable[..., _T], *arguments: Iterable[Any]) -> Iterable[_T]:
        return list(map(work, *arguments))

    def shutdown(self, **_: bool) -> None:
        pass


class _Work(Future[_T]):
    def __init__(self, work: Callable[[], _T], *, later: bool) -> None:
        super().__init__()
        self._do: Callable[[], _T] | None = work
        if not later:
            self._finish()

    def _finish(self) -> None:
        if self._do is not None:
            do, self._do = self._do, None
            try:
                self.set_result(do())
            except Exception as error:
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> _T:
        self._finish()
        return super().result(timeout)


class Reports:
    """The dispatcher's queue of results. Waiting for one takes the clock's time. `asked`: called before."""

    def __init__(self, world: Simulation, asked: Callable[[], None]) -> None:
        self._world, self._asked = world, asked
        self._items: deque[Any] = deque()
        self._waiting: Actor | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if (waiting := self._waiting) is not None:
            self._waiting = None
            self._world.wake(waiting)

    def get(self, timeout: float) -> Any:
        self._asked()
        if not self._items:
            self._waiting = self._world.current
            self._world.sleep(timeout)
            self._waiting = None
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class _Threads:
    """The dispatcher's: each bundle has an actor."""

    def __init__(self, world: Simulation, life: int) -> None:
        self._world, self._life = world, life

    def run(self, work: Callable[[], None]) -> None:
        self._world.spawn(work, "worker", self._life)

    def close(self) -> None:
        pass


class Life:
    """An ingester: its loop, and the workers that run its slices."""

    def __init__(self, number: int, *, parts: Parts) -> None:
        self.number, self._parts, world = number, parts, parts.world
        self._world = world
        drift = 1.0 + world.random.uniform(-0.02, 0.02)
        self.clock: Callable[[], SteadyTime] = lambda: SteadyTime(1000.0 + world.now * drift)
        self.working: dict[Actor, tuple[int, list[Slice]]] = {}
        self.left_behind: set[Actor] = set()
        self._keeper = LeaseKeeper(
            parts.locks.of(number), clock=self.clock, shuffle=lambda names: None, chance=world.random.random
        )
        self._keeper._pool = cast(Any, InlinePool())
        self.loop = self._made()
        dispatcher = self.loop._dispatcher
        self._reports = Reports(world, self._keeper.turn)
        dispatcher._reports = cast(Any, self._reports)
        dispatcher._threads = cast(Any, _Threads(world, number))
        dispatcher._clock = self.clock
        self.driver = world.spawn(self._drive, "driver", number)

    def _drive(self) -> None:
        raise AssertionError(f"the loop ended with status {self.loop.run()}")

    def _made(self) -> Loop:
        parts, tables = self._parts, (PERSONS, ORDERS)
        return Loop(
            LoopSettings(
                tables=dict.fromkeys(tables, Rhythm(1.0, 5.0)),
                lock_names={table: table.table.lower() for table in tables},
                page_rows=parts.page_rows,
                slice_seconds=10,
                coalesce_seconds=0.1,
                skip_gaps=False,
                ordering=parts.ordering,
                snapshots=parts.rules,
            ),
            source=ModelSource(parts.database, parts.point),
            offsets=parts.offsets,
            stored=Stored(lambda: ModelRows(parts.database, parts.point), parts.store, lambda look: look()),
            leases=self._keeper,
            executor=self,
            stats=IngesterStats(tables, clock=self.clock),
            stop=Event(),
            clock=self.clock,
            now=self._now,
            chance=lambda: 0.5,
        )

    def _now(self) -> UnixTime:
        return UnixTime(DATE + self._world.now)

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early, begins: Begins) -> Sequence[SliceResult]:
        me = self._world.current
        self.working[me] = number, list(bundle)
        try:
            self._world.sleep(0.01)
            return [self._slice(todo) for todo in bundle]
        finally:
            del self.working[me]

    def _slice(self, todo: Slice) -> SliceResult:
        parts, world = self._parts, self._world
        sender = ModelSender(world, parts.queue, parts.batch, parts.point, parts.fate)
        drift = 1.0 + world.random.uniform(-0.02, 0.02)
        drain = Drain(
            ModelSource(parts.database, parts.point),
            parts.offsets,
            sender,
            Encoder(ORIGIN, QUEUE, parts.ordering, 3),
            self._now,
            lambda: SteadyTime(world.now * drift),
            wait=world.sleep,
            chance=lambda: 0.5,
        )
        if todo.chunk is None:
            return drain.run(todo)
        parts.note_chunk(todo)
        reader = ChunkReader(ModelRows(parts.database, parts.point))
        reader._thread = cast(Any, InlinePool(lambda: world.random.random() < 0.3))
        return ChunkDrain(reader, parts.store, drain, SideTopics.of(ORIGIN, QUEUE)).run(todo, todo.chunk)

    # the executor

    @property
    def slots(self) -> int:
        return self._parts.slots

    def waits(self, number: int) -> bool:
        return False

    def aside(self, number: int) -> bool:
        return False

    def give_up(self, number: int) -> None:
        """It may run on: so it does."""

    def check(self) -> str | None:
        return None

    def finish(self) -> None:
        self._alive()

    def cancel(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def _alive(self) -> None:
        if self._world.current.dead:
            raise Killed

    # how it ends

    def lose(self, worker: Actor) -> None:
        """The driver takes the worker for dead. It may live on."""
        if worker in self.working and worker not in self.left_behind:
            self.left_behind.add(worker)
            number, bundle = self.working[worker]
            lost = [failed(todo, WorkerLost("the worker was lost")) for todo in bundle]
            self._reports.put((number, lost, True))

    def die(self, *, with_workers: bool) -> None:
        """The locks are free at once. Workers that are left behind know nothing of it, but for those that may not: see `Parts.may_outlive`."""
        self._world.kill(self.driver)
        self._parts.locks.free(self.number)
        for worker in [actor for actor in self._world.actors if actor.kind == "worker" and actor.life == self.number]:
            _, bundle = self.working.get(worker, (0, []))
            outlives = worker in self.left_behind or (bundle and all(map(self._parts.may_outlive, bundle)))
            if not outlives or (with_workers and worker not in self.left_behind):
                self._world.kill(worker)


class Parts:
    """What all lives share, and how a case wants it."""

    def __init__(
        self,
        world: Simulation,
        *,
        database: Database,
        queue: Queue,
        point: Point,
        fate: Callable[[], str | None],
        rules: SnapshotRules,
        ordering: Ordering,
        page_rows: int,
        slots: int,
        batch: int,
    ) -> None:
        self.world, self.database, self.queue = world, database, queue
        self.point, self.fate, self.rules, self.ordering = point, fate, rules, ordering
        self.page_rows, self.slots, self.batch = page_rows, slots, batch
        self.locks = Locks(world)
        self.offsets = ModelOffsets(world)
        self.store = ModelSnapshots(world, self.offsets, point)
        self.chunk_rows = 0
        """Most rows that a chunk was asked for, for a table without an order all rows."""

    def note_chunk(self, todo: Slice) -> None:
        assert todo.chunk is not None
        ordered = bool(todo.chunk.table.order)
        rows = todo.chunk.rows if ordered else len(self.database.tables[PERSONS])
        self.chunk_rows = max(self.chunk_rows, rows)

    def may_outlive(self, todo: Slice) -> bool:
        """A worker that sends changes may send them again beside its successor: a queue that detects duplicates drops them."""
        return todo.chunk is not None or self.queue.detects
