"""A chunk of a snapshot: which rows are sent, as what, and how far its result says it came, whatever ends it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from common.bus.ports import OutOfTime, SendInterrupted, TimeLeft
from common.clock import SteadyTime, UnixTime
from common.errors import EntityUnavailable, LeaseLost, PermanentError, TransientError
from common.message import Message
from common.names import Origin
from common.side_topic import SideTopics
from ingester.change import Change
from ingester.history.rows import BaseTable, RowKey, RowsQuery
from ingester.history.snapshot import Chunk, ChunkDone
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice, SliceResult, Trouble
from ingester.sqlserver.history.condition import refused
from ingester.sqlserver.position import LogPosition
from ingester.task.chunk_pages import ChunkReader
from ingester.task.drain import Drain
from ingester.task.fence import SEND_SECONDS
from ingester.task.read_chunk import ChunkDrain
from tests.fakes.ingester import PERSONS, FakeOffsets, FakeSender, FakeSource, encoder, instance, lsn
from tests.fakes.rows import FakeFence, FakeRows

START = LogPosition.end_of(lsn(3))
SNAPSHOT = "a1b2c3d4e5f6"
TOPICS = SideTopics.of(Origin("server", "database"), "Ingest-Queue")


class Clocked(FakeSender):
    """Accepts what it is sent, unless no time is left. `before_send`, `after_send`: called then; `refuses`: raised by the next sends."""

    before_send: Callable[[], None] | None = None
    after_send: Callable[[], None] | None = None
    refuses: list[Exception] | None = None

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        if self.before_send is not None:
            self.before_send()
        if self.refuses:
            raise self.refuses.pop(0)
        if left is not None and left() <= 0:
            raise OutOfTime("sending: nothing more may be sent")
        super().send(messages, left=left)
        if self.after_send is not None:
            self.after_send()


class Bench:
    """A chunk over ten rows in pages of three, with a clock that a test moves."""

    def __init__(self) -> None:
        self.steady, self.stops, self.waited = 5.0, False, list[float]()
        self.rows, self.fence, self.sender, self.offsets = (
            FakeRows(list(range(1, 11))),
            FakeFence(),
            Clocked(),
            FakeOffsets(),
        )
        self.reader = ChunkReader(self.rows)
        self.parts = Drain(
            FakeSource(),
            self.offsets,
            self.sender,
            encoder(),
            lambda: UnixTime(self.steady + 1000),
            lambda: SteadyTime(self.steady),
            wait=self.wait,
            chance=lambda: 0.5,
            stopping=lambda: self.stops,
        )
        self.chunk = Chunk(SNAPSHOT, BaseTable(instance(), ("ID",), 10), 4, rows=100, round=9)
        self.todo = Slice(PERSONS, instance(), START, START, epoch=7, rows=3, seconds=60.0, chunk=self.chunk)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.steady += seconds

    def run(self, *, lease: float | None = None, **chunk: Any) -> SliceResult:
        todo = replace(self.todo, chunk=replace(self.chunk, **chunk), lease_seconds=lease)
        assert todo.chunk is not None
        return ChunkDrain(self.reader, self.fence, self.parts, TOPICS).run(todo, todo.chunk)

    def keep(self, **parts: Any) -> None:
        self.parts = replace(self.parts, **parts)

    def sent(self) -> list[int]:
        return [json.loads(message.body)["data"]["ID"] for message in self.sender.sent]

    def last(self) -> list[bool]:
        return [json.loads(message.body)["metadata"]["Snapshot"]["Last"] for message in self.sender.sent]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.reader.close()


def key(number: int) -> RowKey:
    return (str(number),)


def done(result: SliceResult) -> ChunkDone:
    assert result.done is not None
    return result.done


def test_the_rows_between_two_keys_are_sent_in_order_as_reads_and_no_offset_moves(bench: Bench) -> None:
    result = bench.run(after=key(2), upto=key(8))
    assert bench.sent() == [3, 4, 5, 6, 7, 8]
    assert result.done == ChunkDone(key(8), 6, complete=True, ended=False, settled=True)
    assert (result.chunk, result.changes, result.position, result.trouble, result.more) == (
        (SNAPSHOT, 4),
        6,
        None,
        None,
        False,
    )
    assert bench.offsets.commits == []
    body = json.loads(bench.sender.sent[0].body)
    assert body["data"] == {"ID": 3, "Name": "x"}
    found = {name: body["metadata"][name] for name in ("OperationType", "OperationID", "LSN", "CommandID", "SeqVal")}
    assert found == {
        "OperationType": "Read",
        "OperationID": 0,
        "LSN": lsn(3).hex,
        "CommandID": 0,
        "SeqVal": "0" * 20,
    }
    assert body["metadata"]["CommitTime"] is None
    assert body["metadata"]["Unavailable"] == ["Photo"]
    assert body["metadata"]["Snapshot"] == {"Id": SNAPSHOT, "Chunk": 4, "Last": False}


def test_a_row_that_is_sent_again_has_the_same_id_whatever_the_chunk_and_each_row_has_another(bench: Bench) -> None:
    bench.run(after=key(2), upto=key(8))
    bench.run(after=key(2), upto=key(8), number=1, attempt=3, round=12)
    first, again = bench.sender.sent[:6], bench.sender.sent[6:]
    assert [message.message_id for message in first] == [message.message_id for message in again]
    assert len({message.message_id for message in first}) == 6
    bench.run(after=key(2), upto=key(8), snapshot="another")
    assert len({message.message_id for message in bench.sender.sent}) == 12


def test_the_rest_of_a_table_has_as_many_rows_as_the_chunk_may_and_ends_where_there_are_no_more(bench: Bench) -> None:
    result = bench.run(after=key(1), rows=4, last=True)
    assert bench.sent() == [2, 3, 4, 5]
    assert result.done == ChunkDone(key(5), 4, complete=True, ended=False, settled=True)
    assert not any(bench.last())
    result = bench.run(after=key(5), rows=100, last=True)
    assert result.done == ChunkDone(key(10), 5, complete=True, ended=True, settled=True)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 10, 11])
@pytest.mark.parametrize("last", [False, True])
def test_only_the_last_row_of_the_last_chunk_is_marked_even_if_a_page_ends_with_it(
    bench: Bench, rows: int, last: bool
) -> None:
    bench.todo = replace(bench.todo, rows=rows)
    assert done(bench.run(last=last)).ended
    assert bench.sent() == list(range(1, 11))
    assert bench.last() == [False] * 9 + [last]


def test_an_empty_table_is_done_without_a_message(bench: Bench) -> None:
    bench.rows.ids = []
    assert bench.run(last=True).done == ChunkDone(None, 0, complete=True, ended=True, settled=True)
    assert bench.sender.sent == []


def test_the_fence_stands_before_the_first_row_is_read(bench: Bench) -> None:
    seen = list[int]()
    bench.rows.before_page = lambda query: seen.append(len(bench.fence.held))
    bench.run()
    assert bench.fence.held == [((SNAPSHOT, 4), PERSONS, 7, 9, 25.0)]
    assert min(seen) == 1


def test_the_fence_is_held_again_when_less_than_half_is_left_so_that_a_chunk_may_take_long(bench: Bench) -> None:
    def slowly() -> None:
        bench.steady += 9

    bench.sender.before_send = slowly
    result = bench.run()
    assert (done(result).complete, bench.sent()) == (True, list(range(1, 11)))
    assert len(bench.fence.held) == 2


def test_the_time_of_the_fence_counts_from_before_it_was_asked_for(bench: Bench) -> None:
    def slowly() -> None:
        bench.steady += 20

    bench.fence.hold_takes = slowly
    result = bench.run()
    assert bench.sent() == []
    assert result.trouble is Trouble.TRANSIENT
    assert "the time for which the table's changes stand was over" in result.message
    assert done(result) == ChunkDone(settled=True)


def test_nothing_is_sent_after_the_fence_and_what_was_accepted_before_counts(bench: Bench) -> None:
    sends = list[int]()

    def the_second_takes_too_long() -> None:
        sends.append(0)
        bench.steady += 20.0 if len(sends) == 2 else 0.0

    bench.sender.before_send = the_second_takes_too_long
    result = bench.run()
    assert bench.sent() == [1, 2, 3]
    assert (result.trouble, done(result)) == (Trouble.TRANSIENT, ChunkDone(key(3), 3, settled=False))


def test_a_fence_that_was_lost_ends_the_chunk_before_the_next_page(bench: Bench) -> None:
    def then_it_is_lost() -> None:
        bench.steady += 11
        bench.fence.fail = LeaseLost("the snapshot no longer runs")

    bench.sender.before_send = then_it_is_lost
    result = bench.run()
    assert (result.trouble, bench.sent()) == (Trouble.LEASE_LOST, [1, 2, 3])
    assert done(result) == ChunkDone(key(3), 3, settled=True)


def test_a_chunk_ends_within_its_lease_with_what_was_accepted(bench: Bench) -> None:
    def slowly() -> None:
        bench.steady += 4

    bench.sender.after_send = slowly
    result = bench.run(lease=7.0)
    assert bench.sent() == [1, 2, 3, 4, 5, 6]
    assert (result.trouble, result.more, done(result)) == (None, True, ChunkDone(key(6), 6, settled=True))


def test_nothing_is_sent_after_the_lease(bench: Bench) -> None:
    def slowly() -> None:
        bench.steady += 4

    bench.sender.before_send = slowly
    result = bench.run(lease=7.0)
    assert bench.sent() == [1, 2, 3]
    assert (result.trouble, done(result)) == (Trouble.EXPIRED, ChunkDone(key(3), 3, settled=False))


def test_a_stop_ends_a_chunk_after_its_page(bench: Bench) -> None:
    bench.sender.before_send = lambda: setattr(bench, "stops", True)
    result = bench.run()
    assert (result.trouble, result.more, result.done) == (None, True, ChunkDone(key(3), 3, settled=True))


def test_a_chunk_ends_after_the_page_in_which_its_time_is_over_so_that_changes_do_not_wait_for_ever(
    bench: Bench,
) -> None:
    bench.todo = replace(bench.todo, seconds=1.5)
    bench.sender.before_send = lambda: setattr(bench, "steady", bench.steady + 1)
    result = bench.run()
    assert result.done == ChunkDone(key(6), 6, complete=False, settled=True)
    assert result.trouble is None


def test_a_chunk_that_holds_its_rows_back_waits_for_capture_and_not_for_its_time(bench: Bench) -> None:
    bench.todo = replace(bench.todo, seconds=1.5)
    bench.rows.changed = [None] * 20 + [frozenset()]
    assert done(bench.run(exact=True)).complete


def test_a_snapshot_that_ends_with_a_full_chunk_has_a_last_row_too(bench: Bench) -> None:
    result = bench.run(rows=10, last=True)
    assert done(result).ended
    assert bench.last() == [False] * 9 + [True]
    grown = bench.run(rows=9, last=True)
    assert not done(grown).ended
    assert not any(bench.last()[10:])


@pytest.mark.parametrize(
    ("error", "settled", "trouble"),
    [
        (SendInterrupted("the connection broke"), False, Trouble.TRANSIENT),
        (SendInterrupted("the entity is disabled", disabled=True), False, Trouble.QUEUE),
        (TransientError("nobody knows"), False, Trouble.TRANSIENT),
        (EntityUnavailable("there is no such queue"), True, Trouble.QUEUE),
    ],
)
def test_a_chunk_is_settled_only_if_each_send_was_answered(
    bench: Bench, error: Exception, settled: bool, trouble: Trouble
) -> None:
    bench.sender.refuses = [error]
    result = bench.run()
    assert (result.trouble, done(result)) == (trouble, ChunkDone(settled=settled))


def test_a_read_that_fails_ends_a_chunk_that_is_settled(bench: Bench) -> None:
    def locked(query: RowsQuery) -> None:
        if query.after:
            raise TransientError("reading dbo.Persons: another session holds it")

    bench.rows.before_page = locked
    result = bench.run()
    assert (result.trouble, done(result)) == (Trouble.TRANSIENT, ChunkDone(key(3), 3, settled=True))


def test_a_namespace_that_throttles_slows_a_chunk_and_the_fence_is_held_meanwhile(bench: Bench) -> None:
    bench.sender.refuses = [SendInterrupted("server busy", throttled=True) for _ in range(4)]
    result = bench.run()
    assert (bench.sent(), done(result).complete, done(result).settled) == (list(range(1, 11)), True, True)
    assert (result.refusals, result.throttled) == (4, "server busy")


def test_a_namespace_that_only_refuses_ends_a_chunk_that_is_settled(bench: Bench) -> None:
    bench.sender.refuses = [SendInterrupted("server busy", throttled=True) for _ in range(200)]
    result = bench.run()
    assert (bench.sent(), result.trouble, done(result)) == ([], Trouble.TRANSIENT, ChunkDone(settled=True))
    assert len(bench.fence.held) > 1


@dataclass(frozen=True)
class FailsOn:
    """A filter that fails on the row with this number."""

    number: int
    name: str = "filter"

    def __call__(self, change: Change) -> Change | None:
        return replace(change, set_aside="the filter fails") if change.data["ID"] == self.number else change


def test_a_row_that_is_too_large_is_replaced_by_a_stand_in(bench: Bench) -> None:
    bench.keep(stand_ins=True)
    bench.sender.limit = 900

    def wide(query: RowsQuery) -> None:
        bench.rows.width = 600 if query.after == key(3) else 1

    bench.rows.before_page = wide
    result = bench.run(upto=key(6))
    assert (done(result).complete, len(result.set_aside)) == (True, 3)
    body = json.loads(bench.sender.sent[3].body)
    assert body["data"] == {"ID": 4}
    assert (body["metadata"]["OperationType"], "Oversize" in body["metadata"], "Snapshot" in body["metadata"]) == (
        "Read",
        True,
        True,
    )


def test_a_row_on_which_the_filter_fails_is_set_aside_in_its_place(bench: Bench) -> None:
    bench.keep(transforms=(FailsOn(4),))
    result = bench.run(upto=key(6))
    assert (done(result).complete, result.changes, result.dropped) == (True, 6, 0)
    assert ["set_aside" in message.application_properties for message in bench.sender.sent] == [
        number == 4 for number in range(1, 7)
    ]
    assert result.filter_failed is not None
    assert (result.filter_failed.count, result.filter_failed.why) == (1, "the filter fails")


def test_a_row_that_is_too_large_stops_the_snapshot_and_says_that_the_changes_go_on(bench: Bench) -> None:
    def wide(query: RowsQuery) -> None:
        bench.rows.width = 600 if query.after == key(3) else 1

    bench.rows.before_page, bench.sender.limit = wide, 900
    result = bench.run()
    assert (result.trouble, done(result)) == (Trouble.PERMANENT, ChunkDone(key(3), 3, settled=True))
    assert result.message.startswith(f"reading chunk 4 of snapshot {SNAPSHOT}: ")
    assert 'the row with key {"ID":4}' in result.message
    assert "The snapshot stops here, the table's changes go on" in (result.hint or "")
    assert (result.hint or "").endswith(f". dstream snapshot resume {SNAPSHOT} goes on where it stopped")


def test_a_condition_that_the_server_cannot_compute_needs_another_snapshot(bench: Bench) -> None:
    """The condition of this one never changes: resumed, it would fail again."""

    def computes(query: RowsQuery) -> None:
        raise refused("dbo.Persons", "the server cannot compute it for a row: error 8134")

    bench.rows.before_page = computes
    result = bench.run()
    assert result.trouble is Trouble.PERMANENT
    assert "resume" not in (result.hint or "")
    assert "another condition: dstream snapshot start dbo.Persons --where" in (result.hint or "")


class Odd:
    """Drops the rows with an odd ID, and fails at one."""

    name = "odd"

    def __init__(self, fails: int | None = None) -> None:
        self.fails = fails

    def __call__(self, change: Change) -> Change | None:
        number = change.data["ID"]
        assert isinstance(number, int)
        if number == self.fails:
            raise ValueError("secret")
        return None if number % 2 else change


def test_rows_go_through_the_transforms_of_changes(bench: Bench) -> None:
    bench.keep(transforms=(Odd(),))
    result = bench.run()
    assert (bench.sent(), result.changes, result.dropped) == ([2, 4, 6, 8, 10], 5, 5)
    assert result.done == ChunkDone(key(10), 10, complete=True, ended=True, settled=True)


def test_a_transform_that_fails_stops_the_snapshot_behind_what_was_sent(bench: Bench) -> None:
    bench.keep(transforms=(Odd(fails=5),))
    result = bench.run()
    assert (bench.sent(), result.trouble, done(result)) == (
        [2, 4],
        Trouble.PERMANENT,
        ChunkDone(key(4), 4, settled=True),
    )
    assert "secret" not in f"{result.message} {result.hint}"


def test_rows_for_another_topic_go_there_in_a_session_of_their_own(bench: Bench) -> None:
    bench.run(topic="again")
    [message] = {(m.session_id, m.application_properties["destination"]) for m in bench.sender.sent}
    assert message == ("server.database.persons.events@again", "again")


def test_the_condition_and_the_bounds_are_asked_of_the_table(bench: Bench) -> None:
    bench.run(after=key(2), upto=key(7), where="Name LIKE 'x%'")
    assert [(query.after, query.upto, query.where) for query in bench.rows.asked] == [
        (key(after), key(7), "Name LIKE 'x%'") for after in (2, 5)
    ]
    bench.rows.asked.clear()
    bench.run(rows=4)
    assert [query.rows for query in bench.rows.asked] == [3, 1]


def test_the_next_page_is_read_while_one_is_sent(bench: Bench) -> None:
    asked = list[int]()

    def note() -> None:
        bench.reader._thread.submit(lambda: None).result()
        asked.append(len(bench.rows.asked))

    bench.sender.before_send = note
    bench.run()
    assert asked == [2, 3, 4, 4]


def test_pages_hold_four_mebibytes_at_most(bench: Bench) -> None:
    bench.todo = replace(bench.todo, rows=5000, row_bytes=1024.0 * 1024)
    bench.sender.limit = 100 * 1024 * 1024
    bench.run()
    assert bench.rows.asked[0].rows == 4


def test_a_table_without_an_order_is_read_in_one_pass_and_its_rows_are_told_apart_by_number(bench: Bench) -> None:
    bench.rows.ids = [7] * 10
    heap = BaseTable(instance(), (), 10)
    result = bench.run(table=heap, last=True, attempt=1)
    assert result.done == ChunkDone(None, 10, complete=True, ended=True, settled=True)
    assert len({message.message_id for message in bench.sender.sent}) == 10
    assert bench.last() == [False] * 9 + [True]
    bench.run(table=heap, last=True, attempt=1)
    assert len({message.message_id for message in bench.sender.sent}) == 10
    bench.run(table=heap, last=True, attempt=2)
    assert len({message.message_id for message in bench.sender.sent}) == 20
    bench.reader._thread.submit(lambda: None).result()
    assert bench.rows.passes == ["begun", "left"] * 3


def test_a_pass_that_ends_early_is_left(bench: Bench) -> None:
    bench.sender.before_send = lambda: setattr(bench, "stops", True)
    result = bench.run(table=BaseTable(instance(), (), 10), last=True)
    assert result.done == ChunkDone(None, 2, settled=True)
    bench.reader._thread.submit(lambda: None).result()
    assert bench.rows.passes == ["begun", "left"]


def test_an_exact_chunk_leaves_the_rows_that_changed_to_their_changes(bench: Bench) -> None:
    bench.rows.changed = [None, None, frozenset({(2,), (5,), (10,)})]
    result = bench.run(exact=True, last=True)
    assert bench.sent() == [1, 3, 4, 6, 7, 8, 9]
    assert bench.last() == [False] * 6 + [True]
    assert bench.waited == [1.0, 1.0]
    assert set(bench.rows.moments) == {"moment 4"}
    assert result.done == ChunkDone(key(10), 10, complete=True, ended=True, settled=True)
    assert (result.changes, result.dropped) == (7, 0)


def test_an_exact_chunk_of_which_every_row_changed_is_done(bench: Bench) -> None:
    bench.rows.changed = [frozenset((number,) for number in range(1, 11))]
    result = bench.run(exact=True, last=True)
    assert (bench.sent(), done(result)) == ([], ChunkDone(key(10), 10, complete=True, ended=True, settled=True))


def test_an_exact_chunk_sends_nothing_before_capture_has_passed_it_and_holds_the_fence_meanwhile(bench: Bench) -> None:
    bench.rows.changed = [None]
    result = bench.run(exact=True)
    assert (bench.sent(), result.trouble, done(result)) == ([], Trouble.TRANSIENT, ChunkDone(settled=True))
    assert "capture has not passed" in result.message
    assert sum(bench.waited) == 120
    assert len(bench.fence.held) >= 120 / 20


def test_a_stop_ends_the_wait_of_an_exact_chunk(bench: Bench) -> None:
    bench.rows.changed = [None]
    bench.keep(stopping=lambda: len(bench.waited) == 2)
    result = bench.run(exact=True)
    assert (result.trouble, done(result), len(bench.waited)) == (None, ChunkDone(settled=True), 2)


def test_an_exact_chunk_that_is_too_large_to_hold_back_ends_with_what_fits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingester.task.read_chunk.EXACT_BYTES", 8 * len(b'{"ID":1,"Name":"x"}'))
    result = bench.run(exact=True, last=True, upto=key(9))
    assert (bench.sent(), done(result)) == ([1, 2, 3, 4, 5, 6], ChunkDone(key(6), 6, settled=True))
    assert not any(bench.last())


def test_a_table_without_a_key_cannot_be_exact(bench: Bench) -> None:
    result = bench.run(exact=True, table=BaseTable(instance(), (), 10))
    assert (result.trouble, bench.sent()) == (Trouble.PERMANENT, [])
    assert "snapshot.exact = false" in (result.hint or "")


def test_an_error_of_a_right_stops_the_snapshot_and_names_it(bench: Bench) -> None:
    def refuse(query: RowsQuery) -> None:
        raise PermanentError("reading dbo.Persons: the right is missing", hint="GRANT SELECT")

    bench.rows.before_page = refuse
    result = bench.run()
    assert result.trouble is Trouble.PERMANENT
    assert result.message == f"reading chunk 4 of snapshot {SNAPSHOT}: reading dbo.Persons: the right is missing"
    assert (result.hint or "").startswith("GRANT SELECT. The snapshot stops here")


def test_the_connection_of_the_reader_is_closed_with_it(bench: Bench) -> None:
    bench.reader.close()
    bench.reader._thread.shutdown()
    assert bench.rows.closed == 1
    bench.reader = ChunkReader(bench.rows)


@pytest.mark.parametrize(
    "topic",
    [
        "server.database.persons.events",
        "server.database.sales.orders.events",
        "Server.Database.Orders.Events",
        "ingest-queue",
        "a/b",
        "",
        "audit ",
    ],
)
def test_a_stored_topic_that_is_no_side_topic_ends_the_snapshot_before_a_row_is_read(bench: Bench, topic: str) -> None:
    result = bench.run(topic=topic)
    assert (result.trouble, bench.sender.sent, bench.fence.held) == (Trouble.PERMANENT, [], [])
    assert result.message.startswith(f"reading chunk 4 of snapshot {SNAPSHOT}: topic {topic!r}: ")
    assert done(result) == ChunkDone(settled=True)


HEAP = BaseTable(instance(), (), 10)


def test_a_pass_keeps_to_its_rate_and_has_no_page_that_is_larger(bench: Bench) -> None:
    begun, at = bench.steady, list[float]()
    bench.sender.after_send = lambda: at.append(bench.steady)
    result = bench.run(table=HEAP, last=True, rate=2)
    assert done(result) == ChunkDone(None, 10, complete=True, ended=True, settled=True)
    assert {query.rows for query in bench.rows.asked} == {2}
    assert at[-1] - begun == pytest.approx(
        (10 - 3) / 2
    )  # all but the last page, and the row before it that was held back
    assert max(bench.waited) <= 1.0


def test_time_in_which_nothing_could_be_sent_is_not_made_up_for(bench: Bench) -> None:
    slow = [10.0]
    bench.sender.before_send = lambda: setattr(bench, "steady", bench.steady + (slow.pop() if slow else 0.0))
    bench.run(table=HEAP, last=True, rate=2)
    assert sum(bench.waited) == pytest.approx((10 - 3 - 1) / 2)


def test_the_fence_is_held_while_a_pass_waits_for_its_rate(bench: Bench) -> None:
    bench.rows.ids = list(range(40))
    bench.todo = replace(bench.todo, seconds=1000.0)
    assert done(bench.run(table=HEAP, last=True, rate=1)).complete
    assert len(bench.sender.sent) == 40
    assert len(bench.fence.held) >= 38 / 20


@pytest.mark.parametrize("ends", ["stop", "time"])
def test_a_stop_or_the_end_of_its_time_ends_the_wait_for_the_rate(bench: Bench, ends: str) -> None:
    def waits(seconds: float) -> None:
        bench.wait(seconds)
        bench.stops = ends == "stop" and len(bench.waited) == 3

    bench.keep(wait=waits)
    bench.todo = replace(bench.todo, seconds=60.0 if ends == "stop" else 3.0)
    result = bench.run(table=HEAP, last=True, rate=1)
    assert (result.trouble, result.more, done(result).complete, done(result).settled) == (None, True, False, True)
    assert sum(bench.waited) == 3.0


def test_a_chunk_without_a_rate_waits_for_nothing(bench: Bench) -> None:
    bench.run(table=HEAP, last=True)
    assert bench.waited == []


def test_the_ids_of_rows_whose_key_is_hashed_cannot_be_computed_without_the_salt(bench: Bench) -> None:
    bench.run()
    plain = {message.message_id for message in bench.sender.sent}
    bench.sender.sent.clear()
    bench.todo = replace(bench.todo, shape=TableShape(masks=(("ID", mask_of("hash:SHA-256:sesame")),)))
    for _ in range(2):
        assert bench.run().trouble is None
    ids = [message.message_id for message in bench.sender.sent]
    assert ids[:10] == ids[10:], "the same row has the same id"
    assert len(set(ids)) == 10
    assert not plain & set(ids)


def test_a_chunk_in_the_order_of_a_column_that_is_hidden_without_a_salt_is_not_sent(bench: Bench) -> None:
    bench.todo = replace(bench.todo, shape=TableShape(excluded=("Name",)))
    result = bench.run(table=BaseTable(instance(), ("Name",), 10))
    assert result.trouble is Trouble.PERMANENT
    assert 'in the order of "Name"' in result.message
    assert "hash:SHA-256:SALT" in (result.hint or "")
    assert bench.sender.sent == []


def test_rows_that_the_filter_leaves_out_are_counted_and_the_snapshot_goes_past_them(bench: Bench) -> None:
    bench.todo = replace(bench.todo, shape=TableShape(filter="data.ID % 2 == 0", skip_unchanged=True))
    result = bench.run()
    assert (bench.sent(), result.changes, result.dropped) == ([2, 4, 6, 8, 10], 5, 5)
    assert done(result).complete


def test_nothing_of_a_pass_whose_round_is_over_is_sent_after_its_time(bench: Bench) -> None:
    """As when the shape of its table was changed: what the pass began with must not hold for hours."""
    bench.rows.ids = list(range(1000))
    bench.todo = replace(bench.todo, seconds=86_400.0)
    at = list[float]()

    def sent() -> None:
        at.append(bench.steady)
        if len(at) == 3:
            bench.fence.fail = LeaseLost("its round is over")

    bench.sender.after_send = sent
    result = bench.run(table=HEAP, last=True, rate=1)
    assert (result.trouble, done(result).settled) == (Trouble.LEASE_LOST, True)
    assert at[-1] - at[2] <= SEND_SECONDS


def test_a_chunk_whose_round_is_over_says_nothing_of_the_shape_that_it_would_begin_with(bench: Bench) -> None:
    """A mistake in the configuration stops the table until it is corrected, and must not end the snapshot."""
    bench.fence.fail = LeaseLost("its round is over")
    bench.todo = replace(bench.todo, shape=TableShape(excluded=("Name",)))
    assert bench.run(table=BaseTable(instance(), ("Name",), 10)).trouble is Trouble.LEASE_LOST
