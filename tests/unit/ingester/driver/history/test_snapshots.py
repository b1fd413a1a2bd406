"""A table's stream and its snapshot in turns, with the loop and its ports in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.clock import SteadyTime
from common.errors import ConnectionLost, LeaseLost, PermanentError, TransientError
from common.names import TableName
from ingester.driver.dispatch import Dispatcher
from ingester.driver.history.pace import Pace
from ingester.driver.history.snapshots import Snapshots
from ingester.driver.history.state import Known
from ingester.driver.reload import TableChanges
from ingester.driver.tables import TrackedTable
from ingester.executor import Executor
from ingester.history.rows import RowKey, RowsQuery
from ingester.history.rules import SnapshotRules, TableRules
from ingester.history.snapshot import ChunkDone, Reason, SnapshotState
from ingester.locks import Lease
from ingester.slices import Slice, SliceResult, Trouble
from tests.fakes.ingester import PERSONS, instance, lsn, position
from tests.fakes.rows import FakeRows
from tests.unit.ingester.driver.test_loop import World, no_waiting

__all__ = ["no_waiting"]


def world(*, rows: int = 25, chunk_rows: int = 10, rate: int | None = None, slots: int = 4, **rules: bool) -> World:
    """Persons has `rows` rows, and its offset is at 1."""
    made = World(
        tables=(PERSONS,), slots=slots, snapshots=SnapshotRules({PERSONS: TableRules(**rules)}, chunk_rows, rate)
    )
    made.rows.ids = list(range(1, rows + 1))
    made.offsets.stored[PERSONS] = position(1)
    return made


def reads(of: World) -> list[int]:
    """The keys of the rows that were sent, in order."""
    return [int(message.message_id.split()[1]) for message in of.sender.sent if message.subject == "Read"]  # type: ignore[union-attr]


def kinds(of: World) -> str:
    """What was sent, in order: R a row, c a change."""
    return "".join("R" if message.subject == "Read" else "c" for message in of.sender.sent)


def the_snapshot(of: World) -> Any:
    [found] = of.snapshots.stored.values()
    return found


def test_a_snapshot_that_was_asked_for_is_taken_once_and_whole() -> None:
    it = world()
    it.at(3, lambda: it.snapshots.ask(PERSONS))
    status, logs = it.run(60)
    assert status == 0
    assert sorted(reads(it)) == list(range(1, 26))
    assert (the_snapshot(it).state, the_snapshot(it).rows) == (SnapshotState.DONE, 25)
    assert [entry["event"] for entry in logs if "snapshot" in entry["event"]] == ["snapshot begins", "snapshot done"]
    assert it.snapshots.fences == {}


def test_a_snapshot_is_begun_within_ten_seconds_although_the_table_is_idle() -> None:
    it = world(rows=3)
    begun: list[float] = []
    it.chunks.next = [lambda todo: begun.append(it.clock)]
    it.at(100, lambda: it.snapshots.ask(PERSONS))
    it.run(200)
    assert 1100 <= begun[0] <= 1111


def test_a_snapshot_of_an_empty_table_is_done() -> None:
    it = world(rows=0)
    it.snapshots.ask(PERSONS)
    it.run(60)
    assert the_snapshot(it).state is SnapshotState.DONE
    assert reads(it) == []


@pytest.mark.parametrize("known", [True, False])
def test_only_a_table_without_an_offset_gets_an_initial_snapshot(known: bool) -> None:
    it = world(initial=True)
    if not known:
        del it.offsets.stored[PERSONS]
    it.run(60)
    assert sorted(reads(it)) == ([] if known else list(range(1, 26)))
    assert [found.reason for found in it.snapshots.stored.values()] == ([] if known else [Reason.INITIAL])


def test_an_initial_snapshot_is_stored_before_the_offset() -> None:
    it = world(initial=True)
    del it.offsets.stored[PERSONS]
    it.snapshots.refused = PermanentError("no right", hint="GRANT")
    _, logs = it.run(60)
    assert it.offsets.commits == []
    [error] = [entry for entry in logs if entry["log_level"] == "error" and "table stopped" in entry["event"]]
    assert "GRANT" in error["error"]


def test_between_two_rounds_the_stream_has_its_turn() -> None:
    it = world(rows=40, slots=2)
    it.snapshots.ask(PERSONS)
    it.chunks.next = [lambda todo, number=number: it.commit(number) for number in (5, 6, 7, 8)]  # type: ignore[misc]
    it.run(60)
    assert kinds(it).replace("R" * 10, "r") == "rcccrcccrcccrccc"


def test_a_round_behind_a_hand_over_has_the_columns_of_the_newer_capture_instance() -> None:
    """A round is prepared while the one before is out. Rows with the older columns would take the new one's values away again."""
    it = world(rows=40, slots=2)
    it.snapshots.ask(PERSONS)
    used: list[tuple[str, str]] = []

    def second_instance() -> None:
        it.source.instances[PERSONS] = (instance(), instance(start=5, name="second"))
        it.source.stale = True
        it.source.rows["second"] = []

    def looked(todo: Slice) -> None:
        assert todo.chunk is not None
        used.append((todo.instance.name, todo.chunk.table.instance.name))
        if len(used) == 1:
            second_instance()
        it.commit(4 + len(used))
        it.source.rows["second"].append(it.source.rows["dbo_Persons"][-1])

    it.chunks.next = [looked] * 4
    it.run(60)
    assert used == [("dbo_Persons", "dbo_Persons"), *[("second", "second")] * 3]


def test_a_busy_stream_does_not_keep_the_snapshot_from_going_on() -> None:
    it = world(rows=40, slots=2)
    it.snapshots.ask(PERSONS)
    for at in range(60):
        it.at(at, lambda at=at: it.commit(*range(10 + 5 * at, 15 + 5 * at)))  # type: ignore[misc]
    it.run(60)
    assert the_snapshot(it).state is SnapshotState.DONE


def test_no_change_is_read_while_a_chunk_is_out() -> None:
    it = world(slots=4)
    it.snapshots.ask(PERSONS)
    out: list[int] = []

    def looked(todo: Slice) -> None:
        out.append(it.source.pages)

    it.commit(5)
    it.chunks.next = [looked] * 9
    it.run(60)
    first_round = out[:2]
    assert len(set(first_round)) == 1


def lost(todo: Slice) -> SliceResult:
    """The chunk's worker has died after it raised the fence."""
    assert todo.chunk is not None
    return SliceResult(PERSONS, None, more=True, trouble=Trouble.WORKER_LOST, message="died", chunk=todo.chunk.id)


def test_the_stream_stands_until_nothing_of_a_lost_chunk_can_be_sent() -> None:
    it = world(rows=5)
    it.snapshots.ask(PERSONS)
    when: list[float] = []

    def dies(todo: Slice) -> SliceResult:
        chunk = todo.chunk
        assert chunk is not None
        it.snapshots.hold(chunk.id, PERSONS, todo.epoch, round=chunk.round, seconds=25.0)
        when.append(it.clock)
        it.commit(5)
        return lost(todo)

    it.chunks.next = [dies]
    send = it.sender.send

    def noted(messages: Any, **options: Any) -> None:
        when.append(it.clock)
        send(messages, **options)

    it.sender.send = noted  # type: ignore[method-assign]
    it.run(120)
    assert when[1] >= when[0] + 25.0
    assert when[1] <= when[0] + 45.0
    assert kinds(it) == "RRRRRccc"  # what may come late is sent once more before the stream goes on


def test_a_chunk_that_was_given_up_can_no_longer_hold_the_fence() -> None:
    it = world(rows=5)
    it.snapshots.ask(PERSONS)
    late: list[Slice] = []

    def gives_up(todo: Slice) -> SliceResult:
        late.append(todo)
        return lost(todo)

    it.chunks.next = [gives_up]
    it.run(60)
    [todo] = late
    assert todo.chunk is not None
    with pytest.raises(LeaseLost):
        it.snapshots.hold(todo.chunk.id, PERSONS, todo.epoch, round=todo.chunk.round, seconds=25.0)


def test_a_new_owner_lets_the_fence_of_the_last_one_run_out() -> None:
    it = world(rows=5)
    name = it.snapshots.ask(PERSONS)
    it.snapshots.stored[name] = replace(it.snapshots.stored[name], state=SnapshotState.STOPPED)
    it.snapshots.fences[name] = it.clock + 20.0
    it.commit(5)
    it.at(15, lambda: seen.append(len(it.sender.sent)))
    seen: list[int] = []
    it.run(60)
    assert seen == [0]
    assert len(it.sent()) == 3


def failing(times: int, error: Exception) -> list[Callable[[Slice], SliceResult | None]]:
    def fails(todo: Slice) -> SliceResult:
        assert todo.chunk is not None
        trouble = Trouble.PERMANENT if isinstance(error, PermanentError) else Trouble.TRANSIENT
        text = str(error)
        return SliceResult(
            PERSONS, None, trouble=trouble, message=text, chunk=todo.chunk.id, done=ChunkDone(settled=True)
        )

    return [fails] * times


def test_a_chunk_that_fails_is_tried_again_with_one_warning_and_the_stream_goes_on() -> None:
    it = world(rows=5)
    it.snapshots.ask(PERSONS)
    it.chunks.next = failing(4, TransientError("locked by another session"))
    it.at(8, lambda: it.commit(5))
    _, logs = it.run(200)
    assert [entry["error"] for entry in logs if entry["event"] == "snapshot waits, retrying"] == [
        "locked by another session"
    ]
    assert sum(entry["event"] == "snapshot recovered" for entry in logs) == 1
    assert not any(entry["event"] == "table failed, retrying" for entry in logs)
    assert len(it.sent()) == 3 + 5
    assert kinds(it).startswith("c")


def test_a_permanent_error_ends_the_snapshot_and_not_the_table() -> None:
    it = world(rows=5)
    it.snapshots.ask(PERSONS)
    it.chunks.next = failing(1, PermanentError("a row fits no message"))
    it.at(20, lambda: it.commit(5))
    status, logs = it.run(60)
    assert status == 0
    assert the_snapshot(it).state is SnapshotState.FAILED
    [error] = [entry for entry in logs if entry["log_level"] == "error"]
    assert error["event"] == "snapshot failed, the table's changes go on"
    assert len(it.sent()) == 3


def test_a_pause_keeps_what_was_sent_and_the_snapshot_goes_on_from_there() -> None:
    it = world(rows=30, slots=2)
    name = it.snapshots.ask(PERSONS)

    def pauses(todo: Slice) -> None:
        it.snapshots.stored[name] = replace(it.snapshots.stored[name], state=SnapshotState.PAUSED)

    it.chunks.next = [lambda todo: None, pauses]
    it.at(
        40,
        lambda: it.snapshots.stored.update({name: replace(it.snapshots.stored[name], state=SnapshotState.WAITING)}),
    )
    it.run(100)
    assert reads(it) == list(range(1, 31))
    assert the_snapshot(it).state is SnapshotState.DONE


def test_a_record_whose_answer_was_lost_is_made_before_the_stream_goes_on() -> None:
    it = world(rows=30, slots=2)
    it.snapshots.ask(PERSONS)

    def cuts(todo: Slice) -> None:
        it.snapshots.fail = ConnectionLost("cut")
        it.commit(5)

    it.chunks.next = [cuts]
    it.run(100)
    assert reads(it) == list(range(1, 31))
    assert the_snapshot(it).rows == 30


def test_a_rate_is_kept() -> None:
    it = world(rows=40, chunk_rows=10, rate=5)
    it.snapshots.ask(PERSONS)
    times: list[float] = []
    it.chunks.next = [lambda todo: times.append(it.clock)] * 20
    it.run(100)
    assert len(reads(it)) == 40
    assert times[7] - times[0] >= 7.0


def test_the_pass_over_a_table_without_an_order_gets_the_rate() -> None:
    it = world(rate=5)
    it.rows.ordered = False
    it.snapshots.ask(PERSONS)
    rates: list[int | None] = []
    it.chunks.next = [lambda todo: rates.append(None if todo.chunk is None else todo.chunk.rate)]
    it.run(20)
    assert rates == [5]


def test_a_gap_is_an_event_and_a_snapshot_where_the_rules_say_so() -> None:
    it = world(after_gap=True)
    it.offsets.stored[PERSONS] = position(2)
    it.source.low["dbo_Persons"] = lsn(5)
    it.commit(6)
    gaps: list[Slice] = []
    drained = it.executor.drain.run

    def run(bundle: Any, **how: Any) -> Any:
        for todo in bundle:
            if todo.gap:
                gaps.append(todo)
                it.offsets.commit(PERSONS, todo.epoch, seen=todo.start, position=todo.upto)
                return [SliceResult(PERSONS, todo.upto, changes=1, pages=1, more=True)]
        return [drained(todo) if todo.chunk is None else it.chunks.run(todo) for todo in bundle]

    it.executor.run = run  # type: ignore[method-assign]
    status, logs = it.run(60)
    assert status == 0
    [gap] = gaps
    assert gap.start == position(2)
    assert gap.upto < position(6)
    assert the_snapshot(it).reason is Reason.GAP
    assert sorted(reads(it)) == list(range(1, 26))
    assert len(it.sent()) == 25 + 3
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == [
        "changes were lost, a gap event and a snapshot follow"
    ]


def test_a_store_that_may_not_be_used_leaves_the_stream_alone() -> None:
    it = world()
    it.snapshots.refused = PermanentError("no right", hint="GRANT")
    it.at(3, lambda: it.commit(5))
    status, logs = it.run(60)
    assert status == 0
    assert len(it.sent()) == 3
    assert [entry["hint"] for entry in logs if entry["event"] == "snapshots cannot be taken"] == ["GRANT"]


def test_tables_wait_and_say_so_while_the_store_does_not_answer() -> None:
    it = world()
    it.commit(5)
    it.snapshots.refused = TransientError("locked")
    it.at(30, lambda: seen.append(len(it.sender.sent)))
    it.at(31, lambda: setattr(it.snapshots, "refused", None))
    seen: list[int] = []
    _, logs = it.run(200)
    assert seen == [0]
    assert len(it.sent()) == 3
    assert [entry["event"] for entry in logs if "wait" in entry["event"]] == [
        "tables wait to learn whether a snapshot of them is under way, retrying",
        "tables no longer wait for the state of snapshots",
    ]


def test_a_table_without_a_key_is_announced_and_read_by_one_task() -> None:
    it = world(rows=3)
    it.rows.ordered = False
    it.snapshots.ask(PERSONS)
    bundles = it.executor.bundles
    _, logs = it.run(60)
    [chunk] = [todo.chunk for bundle in bundles for todo in bundle if todo.chunk is not None]
    assert chunk.last
    assert any("no unique key" in entry["event"] for entry in logs)


def test_a_stream_does_not_wait_for_ever_for_a_chunk_that_cannot_be_sent_again() -> None:
    it = world(rows=5)
    it.snapshots.ask(PERSONS)
    begun = it.clock

    def dies(todo: Slice) -> SliceResult:
        assert todo.chunk is not None
        it.snapshots.hold(todo.chunk.id, PERSONS, todo.epoch, round=todo.chunk.round, seconds=25.0)
        it.commit(5)
        return lost(todo)

    it.chunks.next = [dies, *failing(100, TransientError("locked"))]
    sent: list[float] = []
    send = it.sender.send

    def noted(messages: Any, **options: Any) -> None:
        sent.append(it.clock - begun)
        send(messages, **options)

    it.sender.send = noted  # type: ignore[method-assign]
    it.run(300)
    assert 100 < sent[0] < 200


class Failing(FakeRows):
    """Rows whose next looks fail. `looks`: how many there were."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__(list(range(1, 26)))
        self.errors, self.looks, self.bounded = list(errors), 0, 0

    def bounds(self, query: RowsQuery, most: int) -> Sequence[RowKey]:
        self.looks += 1
        if self.errors:
            raise self.errors.pop(0)
        return super().bounds(query, most)


def looking(rows: FakeRows) -> World:
    it = world()
    it.rows = rows
    it.snapshots.ask(PERSONS)
    return it


def test_a_look_that_fails_is_none_of_the_connection_and_is_tried_again_for_one_chunk() -> None:
    rows = Failing(ConnectionLost("no answer within 60 s"))
    it = looking(rows)
    it.at(1, lambda: it.commit(5))
    _, logs = it.run(100)
    assert the_snapshot(it).state is SnapshotState.DONE
    assert [entry["error"] for entry in logs if entry["event"] == "snapshot waits, retrying"] == [
        "no answer within 60 s"
    ]
    assert not any("connection to SQL Server lost" in entry["event"] for entry in logs)
    assert kinds(it).startswith("ccc")


def test_a_table_that_may_not_be_read_ends_its_snapshot() -> None:
    it = looking(Failing(PermanentError("no right", hint="GRANT SELECT")))
    _, logs = it.run(60)
    assert the_snapshot(it).state is SnapshotState.FAILED
    assert it.snapshots.errors[the_snapshot(it).id] == "no right (GRANT SELECT)"
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == [
        "snapshot failed, the table's changes go on"
    ]


def test_rows_that_kill_their_worker_again_and_again_end_the_snapshot() -> None:
    it = world(rows=25)
    it.snapshots.ask(PERSONS)
    it.chunks.next = [lost] * 50
    it.run(600)
    assert the_snapshot(it).state is SnapshotState.FAILED
    assert "workers died" in (it.snapshots.errors[the_snapshot(it).id] or "")


def test_a_chunk_that_spark_began_twice_does_not_lower_the_fence() -> None:
    it = world(rows=5)
    it.snapshots.ask(PERSONS)
    run = it.executor.run

    def twice(bundle: Any, *, begins: Any, **how: Any) -> Any:
        begins()
        begins()
        return run(bundle, begins=begins, **how)

    it.executor.run = twice  # type: ignore[method-assign]
    it.run(40)
    assert the_snapshot(it).rows == 5
    assert not any(progress.lowers for progress in it.snapshots.records)


def test_a_snapshot_says_that_it_waits_while_nothing_was_captured_yet() -> None:
    it = world(rows=3, initial=True)
    del it.offsets.stored[PERSONS]
    it.source.max_lsn = None
    it.at(60, lambda: it.commit(5))
    _, logs = it.run(100)
    assert [entry["event"] for entry in logs if entry["event"].startswith("snapshot")] == [
        "snapshot waits until capture has recorded a transaction",
        "snapshot begins",
        "snapshot done",
    ]


def test_a_gap_that_a_worker_finds_is_announced_by_the_rules_of_a_reload() -> None:
    it = world()
    it.commit(5)
    it.loop.reconfigure(TableChanges({}, frozenset(), {}), {}, SnapshotRules({PERSONS: TableRules(after_gap=True)}))
    it.run(20)
    assert all(todo.announces_gaps for bundle in it.executor.bundles for todo in bundle)


def test_a_pass_over_a_table_without_a_key_leaves_other_backlogs_their_slot() -> None:
    ran: list[Slice] = []

    class Held:
        slots = 2

        def run(self, bundle: Sequence[Slice], **how: Any) -> Sequence[SliceResult]:
            ran.extend(bundle)
            threading.Event().wait(0.3)
            return []

        def waits(self, number: int) -> bool:
            return False

        def aside(self, number: int) -> bool:
            return False

    dispatcher = Dispatcher(cast(Executor, Held()), lambda todo: todo)
    todo = Slice(PERSONS, instance(), position(1), position(1), epoch=1, rows=1, seconds=1.0)
    for name in ("a", "b"):
        dispatcher.add_long(replace(todo, table=TableName("dbo", name)))
    dispatcher.add(replace(todo, table=TableName("dbo", "backlog")), backlog=True)
    dispatcher.start()
    for _ in range(3_000):
        if len(ran) == 2:
            break
        threading.Event().wait(0.02)
    assert sorted(slice.table.table for slice in ran) == ["a", "backlog"]
    dispatcher.close()


def test_a_table_that_comes_to_rest_before_a_pass_is_made_due_again_the_next_time() -> None:
    """The pass after the end of a fence may not get as far as the snapshots: the connection is lost, or the table is paused."""
    now = SteadyTime(100.0)
    preparing: Any = SimpleNamespace(answers=dict, asks=lambda name: False)
    none: Any = None
    snapshots = Snapshots(
        SnapshotRules({}, 10, None),
        preparing=preparing,
        store=none,
        superseded=none,
        failed=none,
        stats=none,
        clock=lambda: now,
        chance=lambda: 0.5,
    )
    table = TrackedTable(PERSONS, lease=Lease("persons", "us", 1))
    known = Known(1, Pace(lambda: 0.5), fenced=SteadyTime(90.0))
    snapshots._tables[PERSONS] = snapshots._awake[PERSONS] = known
    snapshots._looked_at = now
    assert snapshots.look({PERSONS: table}) == [PERSONS]
    assert snapshots.look({PERSONS: table}) == []
    assert not known.hurried
