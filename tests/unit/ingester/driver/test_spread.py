"""A hot table over many tasks: how a window becomes parts, and what their results come to, without a loop."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from common.clock import SteadyTime, UnixTime
from common.errors import LeaseLost, PermanentError, TransientError
from common.names import Ordering
from ingester.driver.spread import part_rows, slices, whole
from ingester.driver.strides import Strides
from ingester.driver.tables import TrackedTable
from ingester.oversize import Oversized
from ingester.slices import Slice, SliceResult, Trouble, WorkerLost, failed
from ingester.source import Part, Stride
from ingester.sqlserver.position import LogPosition
from ingester.task.drain import Drain
from ingester.transform import SetAside
from tests.fakes.ingester import PERSONS, FakeOffsets, FakeSender, FakeSource, encoder, instance, lsn, position

TODO = Slice(PERSONS, instance(), position(1), LogPosition.end_of(lsn(9)), epoch=7, rows=8, seconds=10)


# -- a stride's parts


@pytest.mark.parametrize(("rows", "tasks"), [(6, 1), (7, 2), (12, 2), (13, 3), (24, 4)])
def test_there_are_as_many_tasks_as_there_are_pages_for(rows: int, tasks: int) -> None:
    made = slices(TODO, ("ID",), Stride(rows, position(5)), wanted=24, page_rows=8, number=1)
    assert len(made) == tasks
    if tasks > 1:
        assert [todo.part for todo in made] == [Part(1, n, tasks, ("ID",), rows) for n in range(tasks)]


def test_a_stride_ends_at_its_last_row_or_with_the_window() -> None:
    full = slices(TODO, ("ID",), Stride(24, position(5)), wanted=24, page_rows=8, number=1)
    assert {part.upto for part in full} == {position(5)}
    last = slices(TODO, ("ID",), Stride(23, position(5)), wanted=24, page_rows=8, number=1)
    assert {part.upto for part in last} == {TODO.upto}


def test_a_part_of_one_row_is_the_least() -> None:
    assert [part_rows(rows) for rows in (1, 2, 8, 2000)] == [1, 1, 6, 1500]


# -- what results come to


def came(trouble: Trouble | None = None, **more: object) -> SliceResult:
    made = SliceResult(PERSONS, position(1), 5, 1, trouble=trouble, message=str(trouble), part=Part(1, 0, 2, (), 9))
    return replace(made, **more)  # type: ignore[arg-type]  # a result's own fields


def test_parts_that_were_all_sent_add_up() -> None:
    aside = [Oversized(PERSONS, "{}", position(n), 9, 8) for n in (3, 2)]
    found = whole(
        [came(row_bytes=10.0, page_rows=9, set_aside=(aside[0],)), came(row_bytes=30.0, set_aside=(aside[1],))]
    )
    assert (found.changes, found.pages, found.row_bytes, found.page_rows) == (10, 2, 30.0, 9)
    assert (found.set_aside, found.part, found.trouble) == ((aside[1], aside[0]), None, None)


def test_what_parts_set_aside_adds_up_and_the_first_in_the_log_is_named() -> None:
    late, early = SetAside(2, position(7), "late"), SetAside(3, position(4), "early")
    assert whole([came(filter_failed=late), came(), came(filter_failed=early)]).filter_failed == SetAside(
        5, position(4), "early"
    )
    assert whole([came(), came()]).filter_failed is None
    assert whole([came(filter_failed=late), came(Trouble.TRANSIENT, filter_failed=early)]).filter_failed is None


def test_whatever_a_result_counts_adds_up() -> None:
    counted_before = {"refusals"}  # each part's own result is logged
    counts = {field.name for field in fields(SliceResult) if field.type == "int"} - counted_before
    assert {"changes", "dropped", "pages"} <= counts
    ones: dict[str, object] = dict.fromkeys(counts, 1)
    found = whole([came(None, **ones), came(None, **ones)])
    assert {name: getattr(found, name) for name in counts} == dict.fromkeys(counts, 2)


@pytest.mark.parametrize(
    ("one", "other", "worst"),
    [
        (Trouble.TRANSIENT, Trouble.PERMANENT, Trouble.PERMANENT),
        (Trouble.LEASE_LOST, Trouble.PERMANENT, Trouble.LEASE_LOST),
        (Trouble.EXPIRED, Trouble.TRANSIENT, Trouble.EXPIRED),
        (None, Trouble.UNEXPECTED, Trouble.UNEXPECTED),
        (Trouble.TRANSIENT, Trouble.SHAPE, Trouble.SHAPE),
        (Trouble.SHAPE, Trouble.PERMANENT, Trouble.PERMANENT),
    ],
)
def test_a_part_that_failed_is_what_the_stride_came_to(one: Trouble | None, other: Trouble, worst: Trouble) -> None:
    found = whole([came(one), came(other)])
    assert (found.trouble, found.message, found.changes, found.set_aside) == (worst, str(worst), 0, ())


# -- the driver's side


class Bench:
    """A table of 4 keys with 10 transactions, its offset behind the first, its strides drained as workers would."""

    def __init__(self, ordering: Ordering = "key", *, most: int | None = None) -> None:
        self.rows = [position(n, seq=s) for n in range(1, 11) for s in (1, 2, 3, 4)]
        self.source = FakeSource(rows={"dbo_Persons": list(self.rows)}, max_lsn=lsn(10))
        self.offsets = FakeOffsets(stored={PERSONS: self.rows[3]}, epochs={PERSONS: 7})
        self.sender = FakeSender()
        self.drain = Drain(
            self.source, self.offsets, self.sender, encoder(), lambda: UnixTime(0.0), lambda: SteadyTime(0.0)
        )
        self.table = TrackedTable(PERSONS, offset=self.rows[3], backlog=True, page_rows=7)
        self.todo = replace(TODO, upto=LogPosition.end_of(lsn(10)), row_bytes=600.0)
        self.strides = Strides(self.source, self.offsets, ordering, most=most)

    def parts(self, room: int = 3) -> list[Slice]:
        return self.strides.slices(self.todo, self.table, room=room)

    def run(self, parts: list[Slice]) -> SliceResult:
        """What the stride comes to; nothing before its last part is back."""
        *early, last = [self.drain.run(part) for part in parts]
        assert [self.strides.settled(result) for result in early] == [None] * len(early)
        found = self.strides.settled(last)
        assert found is not None
        return found

    def sent(self) -> list[str]:
        return [str(message.message_id) for message in self.sender.sent]


def test_strides_reach_the_windows_end_with_every_change_sent_and_each_keys_in_order() -> None:
    bench = Bench()
    more, strides = True, 0
    while more:
        parts = bench.parts()
        found = bench.run(parts)
        assert (found.trouble, found.position) == (None, parts[0].upto)
        bench.table.offset, more, strides = found.position, found.more, strides + 1
    assert (strides, bench.table.offset) == (3, bench.todo.upto)
    assert len(bench.offsets.commits) == 3
    ids = [f"database.dbo.Persons:{p.lsn.hex}-{p.command_id}-{p.seqval.hex()}-{p.operation}" for p in bench.rows[4:]]
    assert sorted(bench.sent()) == sorted(ids)
    for key in range(4):
        assert [i for i in bench.sent() if i in ids[key::4]] == ids[key::4]


def test_nothing_is_committed_before_every_part_was_sent() -> None:
    bench = Bench()
    parts = bench.parts()
    results = [bench.drain.run(part) for part in parts]
    assert len(parts) == 3
    for result in results[:-1]:
        assert bench.strides.settled(result) is None
        assert bench.offsets.commits == []
    assert bench.strides.settled(results[-1]) is not None
    assert bench.offsets.commits == [parts[0].upto]


def test_a_part_that_fails_moves_nothing_and_its_stride_is_sent_again_with_the_same_ids() -> None:
    bench = Bench()
    parts = bench.parts()
    bench.sender.fail_after = 1
    found = bench.run(parts)
    assert (found.trouble, found.position, bench.offsets.commits) == (Trouble.TRANSIENT, bench.table.offset, [])
    first = bench.sent()
    assert bench.run(bench.parts()).trouble is None
    assert set(first) <= set(bench.sent()[len(first) :])


def test_a_newer_owner_keeps_a_stride_from_being_committed() -> None:
    bench = Bench()
    results = [bench.drain.run(part) for part in bench.parts()]
    bench.offsets.claim(PERSONS, 8)
    *_, found = [bench.strides.settled(result) for result in results]
    assert found is not None
    assert (found.trouble, bench.offsets.commits) == (Trouble.LEASE_LOST, [])


def test_a_commit_that_fails_is_trouble_and_leaves_the_offset() -> None:
    bench = Bench()
    bench.offsets.fail = TransientError("the connection broke")
    found = bench.run(bench.parts())
    assert (found.trouble, found.position, bench.offsets.stored[PERSONS]) == (Trouble.TRANSIENT, None, bench.rows[3])


def test_an_offset_that_others_moved_is_seen_before_anything_is_sent() -> None:
    bench = Bench()
    parts = bench.parts()
    bench.offsets.stored[PERSONS] = bench.rows[7]
    found = bench.run(parts)
    assert (found.trouble, found.position, bench.sender.sent) == (Trouble.TRANSIENT, bench.rows[7], [])


@pytest.mark.parametrize("rows", [-1, 1], ids=["fewer", "more"])
def test_a_stride_whose_parts_do_not_come_to_its_rows_is_not_committed_and_read_by_one_task(rows: int) -> None:
    bench = Bench()
    parts = bench.parts()
    results = [bench.drain.run(part) for part in parts]
    results[0] = replace(results[0], changes=results[0].changes + rows)
    *_, found = [bench.strides.settled(result) for result in results]
    assert found is not None
    assert (found.trouble, found.position, bench.offsets.commits) == (Trouble.TRANSIENT, None, [])
    assert f"{results[0].part.rows} rows were shared out among 3 tasks, and {15 + rows} changes" in found.message  # type: ignore[union-attr]
    (only,) = bench.parts()
    assert only.part is None
    bench.table.offset = parts[0].upto
    assert len(bench.parts()) == 3, "what follows is shared out again"


def test_a_worker_that_dies_of_a_part_has_one_task_read_the_stride() -> None:
    bench = Bench()
    *early, last = bench.parts()
    for part in early:
        bench.strides.settled(bench.drain.run(part))
    found = bench.strides.settled(failed(last, WorkerLost("crashed")))
    assert found is not None
    assert (found.trouble, [todo.part for todo in bench.parts()]) == (Trouble.WORKER_LOST, [None])


@pytest.mark.parametrize(
    "why", ["no backlog", "no room", "no offset", "no page yet", "one session", "empty", "refused"]
)
def test_one_task_reads_what_cannot_be_spread(why: str) -> None:
    bench = Bench("table" if why == "one session" else "key")
    room = 1 if why == "no room" else 3
    match why:
        case "no backlog":
            bench.table.backlog = False
        case "no offset":
            bench.table.offset = None
        case "no page yet":
            bench.table.page_rows = None
        case "empty":
            bench.source.rows["dbo_Persons"] = []
        case "refused":
            bench.source.fail = PermanentError("no SELECT on the change table")
    (only,) = bench.parts(room)
    assert (only.part, only.upto) == (None, bench.todo.upto)
    assert bench.strides.settled(SliceResult(PERSONS, None)) == SliceResult(PERSONS, None)


@pytest.mark.parametrize(("most", "parts"), [(None, 3), (2, 2), (1, 1)])
def test_a_table_is_spread_over_no_more_tasks_than_are_worth_having(most: int | None, parts: int) -> None:
    assert len(Bench(most=most).parts(3)) == parts


def test_a_lost_connection_is_the_loops_to_deal_with() -> None:
    bench = Bench()
    bench.source.fail = TransientError("gone")
    with pytest.raises(TransientError):
        bench.parts()


def test_strides_that_overlap_do_not_mix_their_results() -> None:
    bench = Bench()
    old, new = bench.parts(2), bench.parts(2)
    early = [bench.drain.run(part) for part in (old[0], new[0], new[1], old[1])]
    settled = [bench.strides.settled(result) for result in early]
    assert [found is None for found in settled] == [True, True, False, False]
    assert settled[3] is not None
    assert settled[3].trouble is Trouble.LEASE_LOST


# -- a part in its worker


def test_a_part_goes_on_to_the_strides_end_whatever_time_it_takes() -> None:
    bench = Bench()
    part = replace(bench.parts()[0], rows=1, seconds=0)
    result = bench.drain.run(part)
    assert (result.trouble, result.more, result.part) == (None, False, part.part)
    assert result.pages == result.changes > 2


def test_a_part_obeys_the_lease_and_the_low_watermark() -> None:
    bench = Bench()
    part = bench.parts()[0]
    assert bench.drain.run(replace(part, send_before=UnixTime(0.0))).trouble is Trouble.EXPIRED
    assert bench.drain.run(replace(part, lease_seconds=0.0)).trouble is Trouble.EXPIRED
    bench.source.after_page = lambda: bench.source.low.update(dbo_Persons=lsn(9))
    assert bench.drain.run(part).trouble is Trouble.PERMANENT
    assert bench.sender.sent == []


def test_a_change_of_a_part_that_fits_no_message_stops_the_table_or_is_set_aside() -> None:
    bench = Bench()
    bench.source.wide[bench.rows[5]] = 300_000
    assert bench.run(bench.parts()).trouble is Trouble.PERMANENT
    assert bench.offsets.commits == []
    bench.drain = replace(bench.drain, stand_ins=True)
    found = bench.run(bench.parts())
    assert (found.trouble, [one.position for one in found.set_aside]) == (None, [bench.rows[5]])


def test_a_part_of_a_table_with_a_newer_owner_sends_nothing() -> None:
    bench = Bench()
    parts = bench.parts()
    bench.offsets.claim(PERSONS, 8)
    assert bench.run(parts).trouble is Trouble.LEASE_LOST
    with pytest.raises(LeaseLost):
        bench.offsets.load(PERSONS, 7)
    assert bench.sender.sent == []
