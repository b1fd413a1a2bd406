from __future__ import annotations

from ingester.dispatch import BUCKET_SIZE, Dispatcher, buckets
from ingester.drain import Drain
from ingester.lsn import Position
from ingester.slices import Slice, Trouble
from tests.fakes.ingester import (
    PERSONS,
    FakeOffsets,
    FakeSender,
    FakeSource,
    ThreadExecutor,
    encoder,
    instance,
    lsn,
)


def slices(count: int) -> list[Slice]:
    return [
        Slice(PERSONS, instance(), Position.before(lsn(1)), Position.end_of(lsn(1)), epoch=n, rows=2, seconds=1)
        for n in range(count)
    ]


def test_few_tables_get_a_slot_each() -> None:
    todo = slices(3)
    assert buckets(todo, [], slots=8, running=0, running_backlogs=0) == ([[t] for t in todo], [])


def test_many_tables_share_the_free_slots_evenly() -> None:
    quick, _ = buckets(slices(100), [], slots=4, running=0, running_backlogs=0)
    assert [len(bucket) for bucket in quick] == [25, 25, 25, 25]


def test_a_bucket_never_grows_beyond_its_size() -> None:
    quick, _ = buckets(slices(1000), [], slots=2, running=0, running_backlogs=0)
    assert [len(bucket) for bucket in quick] == [BUCKET_SIZE, BUCKET_SIZE]


def test_backlogs_leave_one_slot_to_the_others() -> None:
    quick, lone = buckets(slices(1), slices(9), slots=4, running=0, running_backlogs=0)
    assert (len(quick), len(lone)) == (1, 3)
    quick, lone = buckets([], slices(9), slots=4, running=3, running_backlogs=3)
    assert (quick, lone) == ([], [])


def test_a_single_slot_still_serves_a_backlog() -> None:
    assert len(buckets([], slices(2), slots=1, running=0, running_backlogs=0)[1]) == 1


def test_quick_tables_and_backlogs_take_turns_in_a_single_slot() -> None:
    executor = ThreadExecutor(Drain(FakeSource(), FakeOffsets(), FakeSender(), encoder(), lambda: 0.0), slots=1)
    dispatcher = Dispatcher(executor, lambda todo: todo)
    quick, backlog = slices(2)
    for _ in range(3):
        dispatcher.add(quick, backlog=False)
        dispatcher.add(backlog, backlog=True)
    for _ in range(6):
        dispatcher.start()
        assert dispatcher.results(timeout=60)
        dispatcher.add(backlog, backlog=True)
        dispatcher.add(quick, backlog=False)
    dispatcher.close()
    kinds = ["backlog" if bucket == [backlog] else "quick" for bucket in executor.buckets]
    assert kinds == ["backlog", "quick"] * 3


def test_one_kind_alone_has_a_single_slot_whoever_had_it_last() -> None:
    todo = slices(1)
    for turn in (True, False):
        assert buckets([], todo, slots=1, running=0, running_backlogs=0, quick_next=turn) == ([], [todo])
        assert buckets(todo, [], slots=1, running=0, running_backlogs=0, quick_next=turn) == ([todo], [])


def test_nothing_starts_while_every_slot_is_taken() -> None:
    assert buckets(slices(2), slices(2), slots=2, running=2, running_backlogs=1) == ([], [])


def test_an_executor_that_breaks_gives_every_slice_back_as_failed() -> None:
    executor = ThreadExecutor(Drain(FakeSource(), FakeOffsets(), FakeSender(), encoder(), lambda: 0.0))
    executor.fail = RuntimeError("worker died")
    dispatcher = Dispatcher(executor, lambda todo: todo)
    for todo in slices(1):
        dispatcher.add(todo, backlog=False)
    dispatcher.start()
    results = dispatcher.results(timeout=5)
    dispatcher.close()
    assert [(r.trouble, r.message) for r in results] == [(Trouble.UNEXPECTED, "RuntimeError: worker died")]
    assert dispatcher.running == 0
