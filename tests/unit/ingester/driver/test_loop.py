"""The loop with its ports in memory and a clock that moves when the loop waits; no sockets, no JVM, no sleeping."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime, UnixTime
from common.errors import ConnectionLost, PermanentError, TransientError
from common.message import Message
from common.names import Ordering, TableName
from ingester.change import Change
from ingester.driver.history.parts import Stored
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.loop import _KILL_SECONDS, Loop
from ingester.driver.loop_settings import LoopSettings
from ingester.driver.reload import TableChanges
from ingester.driver.schedule import Rhythm
from ingester.history.rules import NO_SNAPSHOTS, SnapshotRules
from ingester.local.locks import LocalLocks
from ingester.slices import Trouble, WorkerClock, WorkerLost
from ingester.source import Source
from ingester.spark import executor as spark
from ingester.spark import jvm as spark_jvm
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.waiting import GRACE
from ingester.task.drain import Drain
from ingester.transform import Transform
from ingester.watch.stats import IngesterStats
from tests.fakes.history import FakeChunks, FakeSnapshots
from tests.fakes.ingester import (
    ORDERS,
    PERSONS,
    FakeOffsets,
    FakeSender,
    FakeSource,
    ThreadExecutor,
    encoder,
    instance,
    lsn,
    position,
)
from tests.fakes.locks import LEASE_SECONDS, MARGIN, FakeLocks, LockService
from tests.fakes.rows import FakeRows


class World:
    """A loop over two tables. `at`: what happens when the clock passes a time. `shared`: locks that run out, of a service that others use.

    `source`: what is read in place of `self.source`.
    """

    def __init__(
        self,
        *,
        skip_gaps: bool = False,
        rows: int = 5,
        shared: bool = False,
        stand_ins: bool = False,
        transforms: Sequence[Transform] = (),
        slots: int = 2,
        ordering: Ordering = "table",
        tables: Sequence[TableName] = (PERSONS, ORDERS),
        source: Source | None = None,
        snapshots: SnapshotRules = NO_SNAPSHOTS,
    ) -> None:
        self.clock = 1000.0
        self.date = 1_700_000_000.0
        """What the wall clock shows at a `clock` of 0: a test may set it."""
        self.service = LockService(lambda: SteadyTime(self.clock))
        self.snapshot: list[Any] = []
        self.held_at_the_end: list[str] = []
        self.stop = threading.Event()
        self.looking_after_locks = False
        self.source = FakeSource(
            instances={table: (instance(table),) for table in tables},
            rows={instance(table).name: [] for table in tables},
            max_lsn=lsn(1),
        )
        self.offsets = FakeOffsets()
        self.rows, self.snapshots = FakeRows(), FakeSnapshots(lambda: self.clock)
        self.sender = FakeSender()
        self.locks: LocalLocks | FakeLocks = (
            FakeLocks(self.service) if shared else LocalLocks(self.unix, clock=lambda: SteadyTime(self.clock))
        )
        places = ("place 0", "place 1") if shared else ()
        self.leases = LeaseKeeper(
            self.locks,
            clock=lambda: SteadyTime(self.clock),
            shuffle=lambda names: None,
            chance=lambda: 0.0,
            places=places,
        )
        self.executor = ThreadExecutor(
            Drain(
                source or self.source,
                self.offsets,
                self.sender,
                encoder(),
                self.unix,
                self.now,
                stand_ins,
                transforms=transforms,
            ),
            slots,
        )
        self.chunks = FakeChunks(self.rows, self.snapshots, self._read)
        self.executor.chunks = self.chunks.run
        self.events: list[tuple[float, Callable[[], None]]] = []
        rhythm = Rhythm(5.0, 60.0)
        self.stats = IngesterStats(tables, clock=lambda: SteadyTime(self.clock))
        self.loop = Loop(
            LoopSettings(
                tables=dict.fromkeys(tables, rhythm),
                lock_names={table: table.table.lower() for table in tables},
                page_rows=rows,
                slice_seconds=10,
                coalesce_seconds=0.1,
                skip_gaps=skip_gaps,
                ordering=ordering,
                snapshots=snapshots,
            ),
            source=source or self.source,
            offsets=self.offsets,
            stored=Stored(lambda: self.rows, self.snapshots, lambda look: look()),
            leases=self.leases,
            executor=self.executor,
            stats=self.stats,
            stop=self.stop,
            clock=self.now,
            now=self.unix,
            chance=lambda: 0.0,
        )

    def _read(self, table: TableName, key: int) -> None:
        row = Message(
            b'{"data":{"ID":%d}}' % key, f"row {key}", subject="Read", application_properties={"table": table.table}
        )
        self.sender.sent.append(row)

    def unix(self) -> UnixTime:
        """The time of day, which anybody may set."""
        return UnixTime(self.date + self.clock)

    def now(self) -> SteadyTime:
        """The steady clock. Every look at the clock moves it a little, so that the loop's waiting ends without sleeping."""
        self.clock += 0.02
        while self.events and self.events[0][0] <= self.clock:
            self.events.pop(0)[1]()
        in_loop = threading.current_thread() is threading.main_thread()
        if in_loop and not self.looking_after_locks and not self.stop.is_set():
            self.looking_after_locks = True
            self.leases.turn()
            self.looking_after_locks = False
        return SteadyTime(self.clock)

    def at(self, seconds: float, event: Callable[[], Any]) -> None:
        self.events.append((1000.0 + seconds, lambda: event() and None))
        self.events.sort(key=lambda e: e[0])

    def commit(self, *numbers: int, name: str = "dbo_Persons") -> None:
        """Transactions `numbers` were committed and captured."""
        self.source.rows[name] += [position(n, seq=s) for n in numbers for s in (1, 2, 3)]
        self.source.max_lsn = lsn(max(numbers))

    def break_locks(self, error: Exception | None) -> None:
        """What the lock service answers from now on."""
        assert isinstance(self.locks, FakeLocks)
        self.locks.fail = error

    def tables_held(self) -> list[str]:
        """Whose locks somebody has, once what was given back is."""
        for release in self.leases._releases:
            release.result(60)
        return [name for name in ("persons", "orders") if self.service.holder(name) is not None]

    def run(self, seconds: float) -> tuple[int, list[Any]]:
        self.at(seconds, lambda: self.held_at_the_end.extend(self.tables_held()))
        self.at(seconds, self.stop.set)
        with capture_logs() as logs:
            status = self.loop.run()
        return status, [dict(entry) for entry in logs]

    def sent(self, table: str = "Persons") -> list[str]:
        return [m.message_id or "" for m in self.sender.sent if m.application_properties["table"] == table]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


def test_changes_are_sent_in_order_and_a_stop_ends_with_status_0() -> None:
    world = World()
    world.at(3, lambda: world.commit(2, 3))
    world.at(20, lambda: world.commit(4))
    status, _ = world.run(60)
    assert status == 0
    assert world.sent() == [f"database.dbo.Persons:{lsn(n).hex}-1-{s:020x}-2" for n in (2, 3, 4) for s in (1, 2, 3)]


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wall_clock_that_is_set_changes_nothing(hours: int) -> None:
    """By a first NTP step, a machine that is restored or moved, a person."""
    world = World(shared=True)
    world.at(3, lambda: world.commit(2))
    world.at(30, lambda: setattr(world, "date", world.date + hours * 3600))
    world.at(40, lambda: world.commit(3))
    world.at(100, lambda: world.snapshot.extend([len(world.sent()), *world.tables_held()]))
    _, logs = world.run(300)
    assert world.snapshot == [6, "persons", "orders"]
    assert [entry for entry in logs if entry["log_level"] not in ("debug", "info")] == []


def hanging(monkeypatch: pytest.MonkeyPatch) -> tuple[World, list[float]]:
    """A world whose first page hangs until it is cancelled, and asks for a stop before that; and when it asked."""
    monkeypatch.setattr("ingester.driver.loop._TICK", 0.0)
    monkeypatch.setattr("ingester.driver.loop._KILL_SECONDS", 0.0)
    world = World()
    asked_at: list[float] = []

    def hang() -> None:
        asked_at.append(world.clock)
        world.stop.set()
        world.executor.cancelled.wait(10)
        raise TransientError("cancelled")

    world.source.after_page = hang
    return world, asked_at


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_stop_takes_no_longer_when_the_wall_clock_is_set_meanwhile(
    monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    world, asked_at = hanging(monkeypatch)
    world.executor.finish = lambda: setattr(world, "date", world.date + hours * 3600)  # type: ignore[method-assign]
    world.at(3, lambda: world.commit(2))
    world.run(1000)
    assert 5 <= world.clock - asked_at[0] < 7


@pytest.mark.parametrize("near", [True, False])
def test_a_table_that_a_machine_out_of_reach_may_still_read_keeps_its_lock_until_the_lease_has_run_out(
    monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    world, _ = hanging(monkeypatch)
    world.executor.near = near
    world.at(3, lambda: world.commit(2))
    _, logs = world.run(1000)
    left = [entry["tables"] for entry in logs if entry["event"] == "locks are left to run out"]
    assert left == ([] if near else [["dbo.Persons"]])
    assert (world.locks.acquire("persons") is not None) == near
    assert world.locks.acquire("orders") is not None, "nobody reads it"


def test_an_executor_whose_clock_is_ahead_is_reported_once_and_blamed_for_what_expired() -> None:
    world = World(shared=True)
    run = world.executor.run

    def far_ahead(bundle: Any, **how: Any) -> Any:
        clock = WorkerClock("executor-1", world.unix(), UnixTime(world.unix() + 600), UnixTime(world.unix() + 600))
        return [replace(result, trouble=Trouble.EXPIRED, changes=0, clock=clock) for result in run(bundle, **how)]

    world.executor.run = far_ahead  # type: ignore[method-assign]
    world.at(3, lambda: world.commit(2, 3))
    _, logs = world.run(30)
    warned = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [entry["event"] for entry in warned] == [
        "an executor's clock differs from the driver's",
        "table failed, retrying",
    ]
    assert "the clock of executor-1 is" in warned[1]["error"]


def test_a_change_table_that_somebody_holds_stops_itself_alone_and_is_told_once() -> None:
    world = World(shared=True)
    world.source.locked.add("dbo_Persons")
    world.at(3, lambda: world.commit(2))
    world.at(4, lambda: world.commit(3, name="sales_Orders"))
    world.at(50, lambda: world.snapshot.extend([len(world.sent()), len(world.sent("Orders")), *world.tables_held()]))
    world.at(100, world.source.locked.clear)
    _, logs = world.run(130)
    assert world.snapshot == [0, 3, "persons", "orders"]
    assert len(world.sent()) == 3
    told = [(entry["log_level"], entry["event"]) for entry in logs if entry.get("table") == "dbo.Persons"]
    assert [event for event in told if "locked" in event[1]] == [
        ("warning", "change table is locked by another session, retrying"),
        ("info", "change table is no longer locked"),
    ]
    assert not any("connection lost" in entry["event"] for entry in logs)


def test_an_idle_tables_offset_advances_with_the_log() -> None:
    world = World()
    world.at(3, lambda: world.commit(9))
    world.run(200)
    assert world.offsets.stored[ORDERS] == LogPosition.end_of(lsn(9))


def test_only_tables_that_hold_something_are_read() -> None:
    world = World()
    world.at(3, lambda: world.commit(2))
    world.run(30)
    assert {todo.table for bundle in world.executor.bundles for todo in bundle} == {PERSONS}


def test_all_tables_that_are_due_are_asked_for_in_one_question() -> None:
    world = World()
    asked: list[int] = []
    probe = world.source.probe

    def counted(requests: Any) -> Any:
        asked.append(len(requests))
        return probe(requests)

    world.source.probe = counted  # type: ignore[method-assign]
    world.run(200)
    assert set(asked) == {2}
    assert len(asked) < 10


@pytest.mark.parametrize("skip_gaps", [False, True])
def test_a_table_whose_cdc_was_off_for_a_while_stops_with_the_gap_or_goes_on_after_it(skip_gaps: bool) -> None:
    """The new capture instance begins above the offset: what was changed in between nobody captured."""
    world = World(skip_gaps=skip_gaps)

    def off_and_on_again() -> None:
        world.source.instances[PERSONS] = (instance(start=30, name="again"),)
        world.source.rows["again"] = [position(40)]
        world.source.max_lsn, world.source.stale = lsn(40), True

    world.at(3, lambda: world.commit(2))
    world.at(40, off_and_on_again)
    status, logs = world.run(200)
    assert status == 0
    [told] = [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    assert told["log_level"] == ("warning" if skip_gaps else "error")
    why = told["what"] if skip_gaps else told["error"]
    assert f"the offset is at LSN 0x{lsn(2).hex}" in why
    assert f"low watermark, LSN 0x{lsn(30).hex}" in why
    assert len(world.sent()) == (4 if skip_gaps else 3)


def test_a_table_whose_changes_were_purged_stops_and_the_others_go_on() -> None:
    world = World()
    world.offsets.stored[PERSONS] = position(2)
    world.source.low["dbo_Persons"] = lsn(5)
    world.at(3, lambda: world.commit(6, name="sales_Orders"))
    status, logs = world.run(60)
    assert status == 0
    assert len(world.sent("Orders")) == 3
    assert world.offsets.stored[PERSONS] == position(2)
    [error] = [entry for entry in logs if entry["log_level"] == "error"]
    assert lsn(2).hex in error["error"]
    assert lsn(5).hex in error["error"]


def test_with_on_gap_skip_reading_goes_on_from_the_watermark_with_a_warning() -> None:
    world = World(skip_gaps=True)
    world.offsets.stored[PERSONS] = position(2)
    world.source.low["dbo_Persons"] = lsn(5)
    world.commit(6)
    _, logs = world.run(30)
    assert len(world.sent()) == 3
    assert any(entry["event"] == "skipping lost changes" for entry in logs)


def with_a_wide_row(*, stand_ins: bool) -> World:
    """Persons has one in the middle of transaction 2; Orders goes on with transaction 3 and, much later, 4."""
    world = World(stand_ins=stand_ins)
    world.source.wide = {position(2, seq=2): 300_000}
    world.at(3, lambda: world.commit(2))
    world.at(5, lambda: world.commit(3, name="sales_Orders"))
    world.at(100, lambda: world.commit(4, name="sales_Orders"))
    return world


def test_a_change_that_fits_no_message_stops_its_table_saying_so_once_and_the_others_go_on() -> None:
    world = with_a_wide_row(stand_ins=False)
    status, logs = world.run(300)
    assert status == 0
    [error] = [entry for entry in logs if entry["log_level"] == "error"]
    assert error["table"] == "dbo.Persons"
    assert 'key {"ID":2}' in error["error"]
    assert (len(world.sent()), len(world.sent("Orders"))) == (1, 6)
    assert world.offsets.stored[PERSONS] == position(2, seq=1)


def test_a_change_that_is_set_aside_is_told_once_with_its_key_and_its_table_goes_on() -> None:
    world = with_a_wide_row(stand_ins=True)
    _, logs = world.run(300)
    [warning] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["event"] == "change fits no message, sent to be dead-lettered"
    assert (warning["table"], warning["key"], warning["lsn"]) == ("dbo.Persons", '{"ID":2}', lsn(2).hex)
    assert warning["bytes"] > warning["limit"] == 262_144
    assert (len(world.sent()), len(world.sent("Orders"))) == (3, 6)


@dataclass(frozen=True)
class Fails:
    """A filter that fails on every change of Persons, and sets it aside."""

    name: str = "filter"

    def __call__(self, change: Change) -> Change | None:
        return change if change.table != PERSONS else replace(change, set_aside="the filter fails: no reason")


def test_changes_on_which_the_filter_failed_are_told_once_a_slice_and_counted() -> None:
    world = World(rows=3, transforms=(Fails(),))
    world.at(3, lambda: world.commit(2))
    world.at(5, lambda: world.commit(3, name="sales_Orders"))
    _, logs = world.run(100)
    [warning] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["event"] == "filter failed on changes, sent to be dead-lettered"
    assert (warning["table"], warning["changes"], warning["first_lsn"]) == ("dbo.Persons", 3, lsn(2).hex)
    assert warning["error"] == "the filter fails: no reason"
    figures = world.stats.figures().tables
    assert {name: (each.changes, each.filter_failed, each.dropped) for name, each in figures.items()} == {
        PERSONS: (3, 3, 0),
        ORDERS: (3, 0, 0),
    }


def test_the_driver_remembers_how_wide_a_tables_rows_are() -> None:
    world = World(rows=5000)
    world.at(3, lambda: world.commit(2))
    world.at(60, lambda: world.commit(3))
    world.run(120)
    assert world.source.asked[0] == 100
    assert world.source.asked[-1] > 1000


def test_a_missing_table_is_reported_once_and_found_when_it_appears() -> None:
    world = World()
    del world.source.instances[PERSONS]
    world.at(100, lambda: world.source.instances.update({PERSONS: (instance(),)}))
    world.at(101, lambda: world.commit(2))
    _, logs = world.run(300)
    warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    (warning,) = warnings
    assert warning.startswith("table dbo.Persons does not exist in the database, or this login may not see it")
    assert len(world.sent()) == 3


def test_a_table_without_cdc_is_told_from_a_missing_one() -> None:
    world = World()
    world.source.instances[ORDERS] = ()
    _, logs = world.run(10)
    [warning] = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert "sales.Orders is not under CDC" in warning
    assert "sp_cdc_enable_table @source_schema = N'sales', @source_name = N'Orders'" in warning


def test_a_lost_connection_is_retried_and_told_once() -> None:
    world = World()
    world.at(3, lambda: setattr(world.source, "fail", ConnectionLost("SQL Server is away")))
    world.at(4, lambda: world.commit(2))
    _, logs = world.run(90)
    assert [entry["event"] for entry in logs if "onnect" in entry["event"]] == [
        "connection to SQL Server lost, retrying",
        "reconnected to SQL Server",
    ]
    assert len(world.sent()) == 3


def test_after_an_outage_no_table_waits_for_an_interval_that_grew_meanwhile() -> None:
    world = World()
    chances = cycle((0.0, 0.9))
    world.loop._schedule._chance = lambda: next(chances)
    sent: dict[str, float] = {}
    send = world.sender.send

    def timed(messages: Any, **options: Any) -> None:
        send(messages, **options)
        for message in messages:
            sent.setdefault(message.application_properties["table"], world.clock)

    world.sender.send = timed  # type: ignore[method-assign]
    probe = world.source.probe

    def away(requests: Any) -> Any:
        if 1003 <= world.clock < 1500:
            raise ConnectionLost("SQL Server is away")
        return probe(requests)

    world.source.probe = away  # type: ignore[method-assign]
    world.at(499, lambda: world.commit(2))
    world.at(499, lambda: world.commit(2, name="sales_Orders"))
    world.run(600)
    assert abs(sent["Persons"] - sent["Orders"]) < 2


def test_a_right_on_the_catalog_that_is_revoked_ends_nothing_and_is_told_once_with_its_end() -> None:
    """Or Change Data Capture that is switched off between two statements of one look."""
    world = World()
    refused = PermanentError("reading cdc.change_tables: permission denied", hint="GRANT SELECT ON SCHEMA::cdc")
    world.at(3, lambda: setattr(world.source, "away", refused))
    world.at(100, lambda: world.snapshot.append((world.stats.ready(), standings(world))))
    world.at(150, lambda: setattr(world.source, "away", None))
    world.at(160, lambda: world.commit(2))
    status, logs = world.run(300)
    [(why, stood)] = world.snapshot
    assert (status, stood) == (0, {"absent"})
    assert "permission denied" in why
    told = [(entry["event"], entry.get("hint")) for entry in logs if entry["log_level"] == "warning"]
    assert told == [("SQL Server does not answer for the tables, retrying", "GRANT SELECT ON SCHEMA::cdc")]
    assert "SQL Server answers for the tables again" in [entry["event"] for entry in logs]
    assert (len(world.sent()), world.stats.ready(), standings(world)) == (3, None, {"read"})


def standings(world: World) -> set[str]:
    return {table.standing.value for table in world.stats.figures().tables.values()}


def test_a_question_for_all_tables_that_was_a_deadlocks_victim_is_asked_again_and_loses_no_connection() -> None:
    world = World()
    world.at(3, lambda: setattr(world.source, "fail", TransientError("error 1205: deadlocked")))
    world.at(40, lambda: world.commit(2))
    _, logs = world.run(120)
    assert "connection to SQL Server lost, retrying" not in [entry["event"] for entry in logs]
    assert len(world.sent()) == 3


@pytest.mark.parametrize("when", [0.0, 3.0])
def test_what_the_statement_of_one_table_met_is_no_other_tables_trouble(when: float) -> None:
    """A row of the offsets that is locked: when the table is claimed, or when its offset moves while it is idle."""
    world = World()
    world.at(when, lambda: world.offsets.refused.update({PERSONS: TransientError("error 1222: lock timeout")}))
    world.at(30, lambda: world.commit(2, name="sales_Orders"))
    world.at(200, lambda: world.snapshot.append(len(world.sent("Orders"))))
    world.at(200, world.offsets.refused.clear)
    world.at(210, lambda: world.commit(3))
    _, logs = world.run(400)
    assert (world.snapshot, len(world.sent())) == ([3], 3)
    warned = [(entry["event"], entry["table"]) for entry in logs if entry["log_level"] == "warning"]
    assert warned == [("table failed, retrying", "dbo.Persons")]


def test_a_stride_that_was_a_deadlocks_victim_is_its_tables_trouble_alone() -> None:
    world = World(slots=4, ordering="key")
    stride = world.source.stride
    victims: list[Exception] = []

    def once(*arguments: Any, **named: Any) -> Any:
        if not victims:
            victims.append(TransientError("error 1205: deadlocked"))
            raise victims[0]
        return stride(*arguments, **named)

    world.source.stride = once  # type: ignore[method-assign]
    world.at(3, lambda: world.commit(*range(2, 202)))
    _, logs = world.run(120)
    assert len(victims) == 1
    warned = [(entry["event"], entry["table"]) for entry in logs if entry["log_level"] == "warning"]
    assert warned == [("table failed, retrying", "dbo.Persons")]
    assert len(world.sent()) == 600


def test_an_idle_offset_whose_moves_answer_was_lost_is_no_lost_lock() -> None:
    world = World()
    move_many, lost = world.offsets.move_many, list[int]()

    def without_answer(moves: Any) -> Any:
        found = move_many(moves)
        if world.clock > 1100 and not lost:
            lost.append(1)
            raise ConnectionLost("the answer was cut off")
        return found

    world.offsets.move_many = without_answer  # type: ignore[method-assign]
    world.at(50, lambda: world.commit(2))
    world.at(150, lambda: world.commit(3, name="sales_Orders"))
    _, logs = world.run(600)
    assert lost
    assert "lock lost" not in [entry["event"] for entry in logs]
    assert world.offsets.stored[PERSONS] == LogPosition.end_of(lsn(3))


@pytest.mark.parametrize("shared", [False, True], ids=["local locks", "shared locks"])
def test_an_offset_that_a_person_set_is_taken_up_without_a_restart_though_nothing_is_committed(shared: bool) -> None:
    """As `dstream offsets set --take` does it: the epoch of the stored row goes up with the position."""
    world = World(shared=shared)

    def set_back() -> None:
        world.offsets.epochs[PERSONS] += 1
        world.offsets.stored[PERSONS] = LogPosition.before(lsn(2))

    world.at(3, lambda: world.commit(2, 3))
    world.at(200, set_back)
    _, logs = world.run(400)
    assert [entry["table"] for entry in logs if entry["event"] == "lock lost"] == ["dbo.Persons"]
    assert len(world.sent()) == 12, "both transactions were sent twice"
    assert world.offsets.stored[PERSONS] == LogPosition.end_of(lsn(3))


def test_readiness_names_the_tables_that_stopped() -> None:
    world = World()
    world.offsets.refused = {PERSONS: PermanentError("claiming an offset: denied")}
    world.run(30)
    assert "dbo.Persons" in (world.stats.ready() or "")
    assert "sales.Orders" not in (world.stats.ready() or "")


def test_a_table_that_kills_its_workers_is_said_once_tried_seldom_and_shown_until_it_recovers() -> None:
    world = World(tables=[PERSONS, ORDERS])
    run, deaths = world.executor.run, list[float]()

    def dies(bundle: Any, **more: Any) -> Any:
        if world.clock < 1600 and any(todo.table == PERSONS for todo in bundle):
            deaths.append(world.clock)
            raise WorkerLost("running a Spark task: Python worker exited unexpectedly (crashed)")
        return run(bundle, **more)

    world.executor.run = dies  # type: ignore[method-assign]
    ready: list[str | None] = []
    world.at(10, lambda: world.commit(2))
    world.at(10, lambda: world.commit(2, name="sales_Orders"))
    world.at(500, lambda: ready.append(world.stats.ready()))
    _, logs = world.run(800)
    assert ready == ["kills the worker that reads it; the log has what to do: dbo.Persons"]
    told = [line for line in logs if line["event"] == "table kills the worker that reads it, retrying rarely"]
    assert [(line["log_level"], line["table"]) for line in told] == [("error", "dbo.Persons")]
    assert min(b - a for a, b in pairwise(deaths[4:])) >= 50
    assert world.stats.ready() is None
    assert world.offsets.stored == {PERSONS: LogPosition.end_of(lsn(2)), ORDERS: LogPosition.end_of(lsn(2))}
    assert [line["table"] for line in logs if line["event"] == "table recovered"].count("dbo.Persons") == 1


MANY = [TableName("dbo", f"T{number}") for number in range(1000)]


def test_a_thousand_tables_are_claimed_and_moved_with_a_few_statements() -> None:
    world = World(tables=MANY)
    world.at(50, lambda: setattr(world.source, "max_lsn", lsn(9)))
    world.run(70)
    assert len(world.offsets.epochs) == 1000
    assert len(world.offsets.commits) >= 1000
    assert sum(world.offsets.batches) >= 2000
    assert len(world.offsets.batches) <= 60


def test_which_tables_to_have_is_said_when_it_changes_and_not_with_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time is work by the number of tables, for the loop and for the leases' thread."""
    world = World()
    said, asked = list[int](), list[int]()
    want, probe = world.leases.want, world.source.probe

    def noted_want(names: Any) -> None:
        said.append(len(names))
        want(names)

    def noted_probe(requests: Any) -> Any:
        asked.append(len(requests))
        return probe(requests)

    monkeypatch.setattr(world.leases, "want", noted_want)
    monkeypatch.setattr(world.source, "probe", noted_probe)
    world.loop.reconfigure(TableChanges({}, frozenset(), {PERSONS: Rhythm(1.0, 1.0)}), {}, NO_SNAPSHOTS)
    world.run(200)
    assert len(asked) > 100
    assert len(said) <= 10


def test_a_failed_commit_while_idle_does_not_drop_the_table() -> None:
    world = World()
    world.at(3, lambda: setattr(world.offsets, "fail", TransientError("away")))
    world.at(4, lambda: world.commit(2))
    world.at(80, lambda: world.commit(3, name="sales_Orders"))
    world.run(300)
    assert (len(set(world.sent())), len(set(world.sent("Orders")))) == (3, 3)


def test_an_offset_that_may_not_be_written_stops_its_table_with_the_remedy_and_no_other() -> None:
    world = World()
    world.offsets.fail = PermanentError("committing an offset: denied", hint="GRANT UPDATE ON dbo.cdc_offsets")
    world.at(3, lambda: world.commit(2, name="sales_Orders"))
    world.at(3, lambda: world.commit(2))
    status, logs = world.run(60)
    assert status == 0
    [error] = [entry for entry in logs if entry["log_level"] == "error"]
    assert "GRANT UPDATE ON dbo.cdc_offsets" in error["error"]
    assert sorted((len(world.sent()), len(world.sent("Orders")))) == [0, 3]


# a stop


def test_a_stop_lets_the_page_in_flight_be_sent_and_committed_and_only_then_gives_the_locks_back() -> None:
    world = World()
    free: list[bool] = []
    told = threading.Event()
    finish = world.executor.finish

    def finish_and_tell() -> None:
        finish()
        told.set()

    def in_flight() -> None:
        world.stop.set()
        assert told.wait(10)
        free.append(world.locks.acquire("persons") is not None)

    world.executor.finish = finish_and_tell  # type: ignore[method-assign]  # tells the test
    world.source.after_page = in_flight
    world.at(3, lambda: world.commit(2))
    status, _ = world.run(60)
    assert (status, free, world.executor.asked) == (0, [False], ["finish"])
    assert len(world.sent()) == 3
    assert world.offsets.stored[PERSONS] == position(2, seq=3)
    assert world.locks.acquire("persons") is not None


def test_what_does_not_end_in_time_is_given_up_and_the_locks_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked_at = hanging(monkeypatch)
    world.at(3, lambda: world.commit(2))
    status, _ = world.run(1000)
    assert (status, world.executor.asked, world.sent()) == (0, ["finish", "cancel"], [])
    assert 5 <= world.clock - asked_at[0] < 7
    assert world.locks.acquire("persons") is not None


def test_a_stop_ends_although_nothing_ever_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a JVM that is stuck, which takes no order either."""
    monkeypatch.setattr("ingester.driver.loop._TICK", 0.0)
    monkeypatch.setattr("ingester.driver.loop._KILL_SECONDS", 0.0)
    world = World(shared=True)
    let_go = threading.Event()

    def hang() -> None:
        world.stop.set()
        let_go.wait(300)

    world.source.after_page = hang
    world.at(3, lambda: world.commit(2))
    status, _ = world.run(1000)
    waiting = not let_go.is_set()
    let_go.set()
    assert (status, waiting, world.tables_held()) == (0, True, [])


def test_what_a_stop_waits_for_adds_up_to_less_than_20_seconds() -> None:
    """A statement under way, running slices, tasks that are killed, the leases, and a JVM that answers nothing any more."""
    leases = inspect.signature(LeaseKeeper.close).parameters["seconds"].default
    slices = inspect.signature(LoopSettings).parameters["stop_seconds"].default
    of_spark = spark._CANCEL_SECONDS + spark._STOP_SECONDS + spark_jvm.END_SECONDS
    assert GRACE + slices + _KILL_SECONDS + leases + of_spark < 20


def test_once_a_stop_was_asked_for_no_table_is_looked_at_again() -> None:
    world = World(rows=5)
    results = world.loop._dispatcher.results

    def stop_with_the_first(timeout: float) -> Any:
        found = results(timeout)
        if found:
            world.stop.set()
        return found

    world.loop._dispatcher.results = stop_with_the_first  # type: ignore[method-assign]
    world.source.after_page = lambda: setattr(world, "clock", world.clock + 5)
    world.at(3, lambda: world.commit(2, 3, 4))
    world.run(60)
    assert len(world.sent()) == 5


def test_a_statement_that_a_stop_cuts_off_is_not_said_to_be_retried() -> None:
    world = World()

    def cut_off(*_: Any) -> Any:
        world.stop.set()
        raise ConnectionLost("looking at tables: no answer before the stop")

    world.at(20, lambda: setattr(world.source, "states", cut_off))
    world.at(20, lambda: setattr(world.source, "probe", cut_off))
    status, logs = world.run(300)
    assert (status, world.stop.is_set()) == (0, True)
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == []


def test_a_dead_worker_is_a_failure_that_is_tried_again() -> None:
    world = World()
    world.executor.fail = TransientError("running a Spark task: worker died")
    world.at(3, lambda: world.commit(2))
    _, logs = world.run(60)
    told = [entry for entry in logs if entry["event"] in ("table failed, retrying", "table recovered")]
    assert [entry["event"] for entry in told] == ["table failed, retrying", "table recovered"]
    assert "docs/fail.md" in told[0]["hint"]
    assert len(world.sent()) == 3


def test_a_failure_that_lasts_is_told_once_and_so_is_its_end() -> None:
    world = World()
    run, failures = world.executor.run, 0

    def broken(bundle: Any, **rest: Any) -> Any:
        nonlocal failures
        if world.clock < 1300:
            failures += 1
            raise TransientError("running a Spark task: worker died")
        return run(bundle, **rest)

    world.executor.run = broken  # type: ignore[method-assign]
    world.at(3, lambda: world.commit(2))
    _, logs = world.run(600)
    assert failures > 3
    told = [entry["event"] for entry in logs if entry["event"] in ("table failed, retrying", "table recovered")]
    assert told == ["table failed, retrying", "table recovered"]
    assert len(world.sent()) == 3


def test_an_executor_that_is_gone_for_good_ends_the_loop_and_gives_the_locks_back() -> None:
    world = World()
    world.at(3, lambda: setattr(world.executor, "gone", True))
    with pytest.raises(PermanentError, match="the executor is gone"):
        world.run(60)
    assert world.locks.acquire("persons") is not None


def test_a_newer_owner_is_not_fought_over() -> None:
    world = World()
    world.at(3, lambda: world.offsets.epochs.update({PERSONS: 10**18}))
    world.at(4, lambda: world.commit(2))
    _, logs = world.run(100)
    assert world.sent() == []
    lost = [entry["event"] for entry in logs if "lost" in entry["event"]]
    assert set(lost) == {"lock lost"}
    assert 2 <= len(lost) <= 4, "about one in 30 s"


def test_when_every_table_has_stopped_for_good_the_status_is_1() -> None:
    world = World()
    for name in (PERSONS, ORDERS):
        world.offsets.stored[name] = position(2)
    world.source.low = {"dbo_Persons": lsn(5), "sales_Orders": lsn(5)}
    assert world.run(60)[0] == 1


def test_the_last_table_that_stops_is_followed_by_why_the_process_ends() -> None:
    world = World()
    world.commit(2)
    world.commit(2, name="sales_Orders")
    world.sender.fail = PermanentError("sending: refused")
    status, logs = world.run(60)
    *before, last = [entry for entry in logs if entry["log_level"] == "error"]
    assert (status, len(before)) == (1, 2)
    assert (last["event"], last["stopped"]) == ("every table has stopped, ending", ["dbo.Persons", "sales.Orders"])
    assert "`table stopped`" in last["hint"]


@pytest.mark.parametrize("when", [50.0, 250.0], ids=["of the outage", "of its own"])
def test_a_slice_that_meets_a_connection_which_an_outage_has_cost_is_not_told_again(when: float) -> None:
    world = World()
    world.at(20, lambda: setattr(world.source, "away", ConnectionLost("SQL Server: refused")))
    world.at(100, lambda: setattr(world.source, "away", None))
    load = world.offsets.load

    def dead(*arguments: Any, **named: Any) -> Any:
        world.offsets.__dict__["load"] = load
        raise ConnectionLost("SQL Server: the connection is dead")

    world.at(when, lambda: world.commit(2))
    world.at(when, lambda: world.offsets.__dict__.update(load=dead))
    _, logs = world.run(400)
    warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert warnings == ["connection to SQL Server lost, retrying", *(["table failed, retrying"] if when > 100 else [])]
    assert len(world.sent()) == 3


def test_a_probe_that_fails_for_one_table_stops_that_table_alone() -> None:
    world = World()
    probe = world.source.probe

    def refuse(requests: Any) -> Any:
        if any(request.instance.table == PERSONS for request in requests):
            raise PermanentError("permission denied")
        return probe(requests)

    world.source.probe = refuse  # type: ignore[method-assign]  # one table's answer is made to fail
    world.commit(2, name="sales_Orders")
    status, _ = world.run(30)
    assert (status, len(world.sent("Orders"))) == (0, 3)


def test_a_backlog_is_drained_without_sleeping_between_pages() -> None:
    world = World(rows=2)
    world.commit(*range(2, 102))
    world.run(60)
    assert len(world.sent()) == 300


def test_a_second_capture_instance_takes_over_without_gap_or_duplicate() -> None:
    world = World()
    old, new = instance(name="old"), instance(name="new", start=5)
    world.source.instances[PERSONS] = (old,)
    world.source.rows |= {"old": [], "new": []}
    world.at(3, lambda: world.commit(2, 3, name="old"))
    world.at(10, lambda: world.source.instances.update({PERSONS: (old, new)}))
    world.at(11, lambda: world.commit(4, 6, 7, name="old"))
    world.at(11, lambda: world.commit(6, 7, name="new"))
    world.run(200)
    numbers = [int(i.split(":")[1][:20], 16) for i in world.sent()]
    assert numbers == [n for n in (2, 3, 4, 6, 7) for _ in range(3)]


def test_an_instance_made_since_the_catalog_was_read_takes_over_at_its_first_row() -> None:
    """Without a second look the old one, which is filled as well, would go on for as long as the catalog is trusted."""
    world = World()
    world.commit(2)

    def second_instance() -> None:
        world.source.instances[PERSONS] = (instance(), instance(start=5, name="second"))
        world.source.stale = True
        world.source.rows["second"] = []
        for name in ("dbo_Persons", "second"):
            world.source.rows[name] += [position(n) for n in (6, 7)]
        world.source.max_lsn = lsn(7)

    world.at(6, second_instance)
    world.run(20)
    assert [m.body.count(b'"CaptureInstance":"second"') for m in world.sender.sent] == [0, 0, 0, 1, 1]


def test_a_table_whose_instance_was_dropped_waits_for_the_next_and_is_not_stopped() -> None:
    world = World()
    world.commit(2)

    def dropped() -> None:
        world.source.instances[PERSONS] = ()
        world.source.stale = True

    def made_again() -> None:
        world.source.instances[PERSONS] = (instance(start=2, name="again"),)
        world.source.rows["again"] = [position(9)]
        world.source.max_lsn = lsn(9)

    world.at(6, dropped)
    world.at(40, made_again)
    status, logs = world.run(120)
    assert status == 0
    assert len(world.sent()) == 4
    assert [e["event"] for e in logs if "not under CDC" in e["event"]] != []


def test_a_probe_that_stays_stale_does_not_keep_the_loop() -> None:
    world = World()
    world.source.states = lambda tables, sources=None: FakeSource.states(world.source, tables, sources) or {}  # type: ignore
    world.commit(2)
    world.at(1, lambda: setattr(world.source, "stale", True))
    world.run(20)
    assert len(world.sent()) == 3


def test_that_an_old_instance_can_be_dropped_is_told_once_with_the_statement() -> None:
    world = World()
    world.source.instances[PERSONS] = (instance(), instance(start=3, name="it's new"))
    world.source.rows["it's new"] = [position(4)]
    world.commit(2)
    world.source.max_lsn = lsn(4)
    _, logs = world.run(200)
    told = [e["event"] for e in logs if "can be dropped" in e["event"]]
    assert len(told) == 1
    assert told[0].endswith(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'dbo_Persons'"
    )


def other_ingester(service: LockService, name: str) -> None:
    """Takes a lock and never gives it back."""
    assert FakeLocks(service).acquire(name) is not None


def test_a_table_locked_elsewhere_is_not_read_until_its_lock_is_free() -> None:
    world = World(shared=True)
    other_ingester(world.service, "persons")
    world.at(3, lambda: world.commit(2))
    world.at(3, lambda: world.commit(2, name="sales_Orders"))
    world.at(LEASE_SECONDS - 2, lambda: world.snapshot.append(len(world.sent())))
    world.run(LEASE_SECONDS + 20)
    assert world.snapshot == [0]
    assert (len(world.sent()), len(world.sent("Orders"))) == (3, 3)


def test_a_lock_that_was_taken_is_told_of_at_once() -> None:
    world = World()
    world.commit(2)
    world.at(2, lambda: world.snapshot.append(len(world.sent())))
    world.run(10)
    assert world.snapshot == [3]


def test_a_lease_that_could_not_be_renewed_stops_its_tables_and_they_go_on_when_it_can() -> None:
    world = World(shared=True)
    world.at(5, lambda: world.break_locks(TransientError("no answer")))
    world.at(LEASE_SECONDS + 10, lambda: world.commit(2))
    world.at(LEASE_SECONDS + 60, lambda: world.snapshot.append(len(world.sent())))
    world.at(LEASE_SECONDS + 60, lambda: world.break_locks(None))
    _, logs = world.run(LEASE_SECONDS + 180)
    assert world.snapshot == [0]
    assert len(world.sent()) == 3
    assert [entry["table"] for entry in logs if entry["event"] == "lock lost"].count("dbo.Persons") == 1
    assert "lock service available again" in [entry["event"] for entry in logs]


def test_a_lock_service_away_for_less_than_a_lease_stops_nothing() -> None:
    world = World(shared=True)
    world.at(21, lambda: world.break_locks(TransientError("no answer")))
    world.at(30, lambda: world.commit(2))
    world.at(50, lambda: world.break_locks(None))
    _, logs = world.run(100)
    assert len(world.sent()) == 3
    assert "lock lost" not in [entry["event"] for entry in logs]


def test_a_refused_renewal_stops_the_table_with_the_remedy() -> None:
    world = World(shared=True)
    world.at(5, lambda: world.break_locks(PermanentError("403", hint="grant the role")))
    status, logs = world.run(200)
    assert status == 1
    assert {entry["error"] for entry in logs if entry["event"].startswith("table stopped")} == {"403 (grant the role)"}


def test_tables_are_given_back_when_another_ingester_is_counted() -> None:
    world = World(shared=True)
    world.at(5, lambda: other_ingester(world.service, "place 1"))
    _, logs = world.run(40)
    assert [entry["event"] for entry in logs].count("lock given back, others have their share") == 1
    assert len(world.held_at_the_end) == 1


def test_an_ingester_without_its_database_leaves_the_tables_to_others() -> None:
    world = World(shared=True)

    def away() -> None:
        world.source.fail = ConnectionLost("away")

    for second in range(5, 150):
        world.at(second, away)
    world.at(140, lambda: world.snapshot.extend(world.tables_held()))
    world.at(150, lambda: world.commit(2))
    world.run(400)
    assert world.snapshot == []
    assert len(world.sent()) == 3


AWAY = ConnectionLost("SQL Server is away")


def test_locks_that_were_taken_and_not_claimed_are_left_to_others_when_the_database_stays_away() -> None:
    """For this machine only, and just as it had taken the first locks of another ingester that died."""
    world = World(shared=True)
    world.offsets.refused = {PERSONS: AWAY, ORDERS: AWAY}
    world.at(0.5, lambda: setattr(world.source, "away", AWAY))
    world.at(20, lambda: world.snapshot.extend(world.tables_held()))
    _, logs = world.run(300)
    assert [entry["event"] for entry in logs if "lock" in entry["event"]] == []
    assert world.snapshot != []
    assert world.held_at_the_end == []
    assert world.service.holder("place 0") is None


def test_a_table_whose_slice_is_under_way_keeps_its_lock_though_the_driver_lost_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(shared=True)
    world.at(3, lambda: world.commit(2))
    reading, ended = threading.Event(), threading.Event()

    def wait_seconds(loop: Loop) -> float:
        """The clock of this world waits for no thread: it is to stand until the slice is under way."""
        return 0.02 if loop._dispatcher.running and not reading.is_set() else 0.0

    monkeypatch.setattr(Loop, "_wait_seconds", wait_seconds)

    def slow() -> None:
        world.source.after_page, world.source.away = None, AWAY
        reading.set()
        assert ended.wait(60)

    world.source.after_page = slow
    world.at(170, lambda: world.snapshot.extend(world.tables_held()))
    world.at(171, ended.set)
    world.run(400)
    assert world.snapshot == ["persons"]
    assert world.held_at_the_end == []


def test_a_slice_that_waited_for_a_slot_starts_with_what_its_lease_is_worth_then() -> None:
    world = World(shared=True)
    world.at(30, lambda: world.commit(2))
    world.run(120)
    [todo] = [todo for bundle in world.executor.bundles for todo in bundle]
    assert todo.lease_seconds is not None
    assert todo.send_before is not None
    assert LEASE_SECONDS / 2 < todo.lease_seconds <= LEASE_SECONDS - MARGIN


def test_a_slice_whose_time_was_up_before_its_page_was_ready_is_tried_again() -> None:
    world = World(shared=True)
    world.commit(2)

    def slow() -> None:
        world.source.after_page = None
        world.clock += LEASE_SECONDS

    world.source.after_page = slow
    _, logs = world.run(200)
    assert len(world.sent()) == 3
    assert "dbo.Persons" in [
        entry["table"] for entry in logs if entry["event"] in ("lock lost", "table failed, retrying")
    ]


def test_a_hot_table_is_spread_over_the_slots_but_one_and_each_keys_order_holds() -> None:
    world = World(slots=4, ordering="key")
    world.at(3, lambda: world.commit(*range(2, 202)))
    _, logs = world.run(60)
    parts = [[todo.part for todo in bundle] for bundle in world.executor.bundles if bundle[0].part is not None]
    assert len(parts) > 3
    assert all(part is not None and part.of <= 3 for (part,) in parts)
    expected = [[f"database.dbo.Persons:{lsn(n).hex}-1-{s:020x}-2" for n in range(2, 202)] for s in (1, 2, 3)]
    assert sorted(world.sent()) == sorted(event for key in expected for event in key)
    for key in expected:
        assert [event for event in world.sent() if event in set(key)] == key
    assert world.loop.changes == 600
    assert world.offsets.commits == sorted(world.offsets.commits)
    assert [entry for entry in logs if entry["log_level"] not in ("debug", "info")] == []


def test_a_hot_table_recovers_from_a_share_that_broke() -> None:
    world = World(slots=4, ordering="key")
    world.at(3, lambda: world.commit(*range(2, 202)))
    broken: list[int] = []

    def once() -> None:
        if world.executor.bundles[-1][0].part is not None and not broken:
            broken.append(1)
            world.sender.fail_after = 1

    world.source.after_page = once
    _, logs = world.run(120)
    assert broken
    assert [entry["event"] for entry in logs if entry["event"] in ("table failed, retrying", "table recovered")] == [
        "table failed, retrying",
        "table recovered",
    ]
    assert len(set(world.sent())) == 600 <= len(world.sent()) <= 600 + 15
    assert world.loop.changes == 600


def test_without_keys_order_a_hot_table_stays_with_one_task() -> None:
    world = World(slots=4)
    world.at(3, lambda: world.commit(*range(2, 202)))
    world.run(60)
    assert len(world.sent()) == 600
    assert all(todo.part is None for bundle in world.executor.bundles for todo in bundle)


def test_columns_that_differ_from_what_is_captured_are_told_once_and_so_is_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingester.driver.catalog_news._CATALOG_SECONDS", 3.0)
    world = World()
    [found] = world.source.instances[PERSONS]
    dropped = replace(found.columns[1], gone=True)
    world.source.instances[PERSONS] = (replace(found, columns=(found.columns[0], dropped), added=("Age", "Town")),)
    world.at(40, lambda: world.source.instances.update({PERSONS: (found,)}))
    _, logs = world.run(90)
    [warned] = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert "Age, Town added since and not captured; Name dropped since and no longer captured" in warned
    assert "@source_name = N'Persons', @role_name = NULL, @capture_instance = N'dbo_Persons_2'" in warned
    assert [entry["table"] for entry in logs if entry["event"] == "capture instance matches the table again"] == [
        "dbo.Persons"
    ]
