from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.bus.ports import OutOfTime, SendInterrupted, TimeLeft
from common.clock import SteadyTime, UnixTime
from common.errors import DStreamError, EntityUnavailable, PermanentError, TransientError
from common.message import Message
from ingester.slices import Slice, Trouble
from ingester.source import Part
from ingester.sqlserver.position import LogPosition
from ingester.task.drain import Drain
from tests.fakes.ingester import (
    PERSONS,
    FakeOffsets,
    FakeSender,
    FakeSource,
    encoder,
    instance,
    lsn,
    position,
)

ROWS = [position(n, seq=s) for n in (1, 2, 3) for s in (1, 2, 3, 4)]


class Bench:
    """A drain over 12 changes in 3 transactions, with a clock that a test moves."""

    def __init__(self) -> None:
        self.clock, self.steady = 1000.0, 5.0
        self.source = FakeSource(rows={"dbo_Persons": list(ROWS)}, max_lsn=lsn(3))
        self.offsets = FakeOffsets()
        self.offsets.claim(PERSONS, 7)
        self.sender = FakeSender()
        self.drain = Drain(
            self.source,
            self.offsets,
            self.sender,
            encoder(),
            lambda: UnixTime(self.clock),
            lambda: SteadyTime(self.steady),
        )
        self.todo = Slice(
            table=PERSONS,
            instance=instance(),
            start=LogPosition.before(lsn(1)),
            upto=LogPosition.end_of(lsn(3)),
            epoch=7,
            rows=5,
            seconds=10,
        )

    def sent(self) -> list[str]:
        return [str(m.message_id) for m in self.sender.sent]


EXPECTED = [
    str(m) for m in (f"database.dbo.Persons:{p.lsn.hex}-{p.command_id}-{p.seqval.hex()}-{p.operation}" for p in ROWS)
]


def test_every_page_size_reads_every_change_once_in_order() -> None:
    for rows in range(2, 14):
        bench = Bench()
        result = bench.drain.run(replace(bench.todo, rows=rows))
        assert bench.sent() == EXPECTED, rows
        assert (result.changes, result.position, result.trouble) == (12, ROWS[-1], None)


def test_the_offset_is_committed_after_each_page_to_the_pages_last_position() -> None:
    bench = Bench()
    bench.drain.run(bench.todo)
    assert bench.offsets.commits == [ROWS[4], ROWS[9], ROWS[11]]


def test_nothing_is_committed_when_the_send_fails_and_a_second_run_begins_at_the_stored_offset() -> None:
    bench = Bench()
    bench.sender.fail_after = 3
    first = bench.drain.run(bench.todo)
    assert (first.trouble, first.changes, bench.offsets.stored[PERSONS]) == (Trouble.TRANSIENT, 0, None)
    bench.drain.run(bench.todo)
    assert bench.sent() == EXPECTED[:3] + EXPECTED


def test_a_commit_that_fails_stops_the_slice_before_the_next_page() -> None:
    bench = Bench()
    bench.offsets.fail = TransientError("committing: the connection broke")
    result = bench.drain.run(bench.todo)
    assert result.trouble is Trouble.TRANSIENT
    assert bench.source.pages == 1
    assert bench.sent() == EXPECTED[:5]


def test_an_owner_that_was_superseded_sends_nothing() -> None:
    bench = Bench()
    bench.offsets.claim(PERSONS, 8)
    assert bench.drain.run(bench.todo).trouble is Trouble.LEASE_LOST
    assert bench.sent() == []


def test_an_owner_that_is_superseded_between_send_and_commit_cannot_commit() -> None:
    bench = Bench()
    bench.source.after_page = lambda: bench.offsets.epochs.update({PERSONS: 8})
    assert bench.drain.run(bench.todo).trouble is Trouble.LEASE_LOST
    assert bench.offsets.stored[PERSONS] is None


def test_nothing_is_sent_after_the_lease_may_have_run_out() -> None:
    bench = Bench()
    bench.source.after_page = lambda: setattr(bench, "clock", 1060.0)
    result = bench.drain.run(replace(bench.todo, send_before=UnixTime(1060.0)))
    assert result.trouble is Trouble.EXPIRED
    assert "dbo.Persons" in result.message
    assert bench.sent() == []


def test_a_clock_that_is_set_back_does_not_lengthen_a_lease() -> None:
    bench = Bench()

    def a_minute_passes_while_the_clock_is_set_back() -> None:
        bench.clock -= 3600
        bench.steady += 60

    bench.source.after_page = a_minute_passes_while_the_clock_is_set_back
    result = bench.drain.run(replace(bench.todo, send_before=UnixTime(1050.0), lease_seconds=50.0))
    assert result.trouble is Trouble.EXPIRED
    assert bench.sent() == []


def test_no_page_is_begun_after_the_lease_and_what_was_sent_before_is_committed() -> None:
    bench = Bench()
    send = bench.sender.send

    def send_slowly(messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        send(messages)
        bench.clock += 60

    bench.sender.send = send_slowly  # type: ignore[method-assign]  # the lease runs out while it sends
    result = bench.drain.run(replace(bench.todo, send_before=UnixTime(1050.0), seconds=1000))
    assert (result.trouble, result.more, result.position) == (None, True, ROWS[4])
    assert bench.offsets.commits == [ROWS[4]]
    assert bench.source.pages == 1


class Batches(FakeSender):
    """Sends `size` changes at a time, each of which takes 20 s of the bench's clocks, and looks at the time before each."""

    def __init__(self, bench: Bench, size: int) -> None:
        super().__init__()
        self._bench, self._size = bench, size

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        assert left is not None
        for at in range(0, len(messages), self._size):
            if left() <= 0:
                raise OutOfTime("sending to ingest-queue: nothing more may be sent", accepted=range(at))
            super().send(messages[at : at + self._size])
            self._bench.clock += 20
            self._bench.steady += 20


@pytest.mark.parametrize(
    "lease", [{"send_before": 1030.0}, {"lease_seconds": 30.0}, {"send_before": 1030.0, "lease_seconds": 500.0}]
)
def test_no_batch_of_a_page_is_sent_after_the_lease_and_what_was_taken_is_committed(lease: dict[str, float]) -> None:
    bench = Bench()
    sender = Batches(bench, 2)
    bench.drain = replace(bench.drain, sender=sender)
    result = bench.drain.run(replace(bench.todo, rows=10, seconds=1000, **lease))  # type: ignore[arg-type]
    assert [str(message.message_id) for message in sender.sent] == EXPECTED[:4]
    assert bench.offsets.commits == [ROWS[3]]
    assert (result.trouble, result.more, result.changes) == (None, True, 4)


def test_a_lease_that_ends_before_the_first_batch_or_in_a_part_is_told() -> None:
    bench = Bench()
    bench.drain = replace(bench.drain, sender=Batches(bench, 2))
    bench.offsets.stored[PERSONS] = bench.todo.start
    result = bench.drain.run(replace(bench.todo, rows=10, send_before=UnixTime(1030.0), part=Part(1, 0, 1, (), 12)))
    assert (result.trouble, bench.offsets.commits) == (Trouble.EXPIRED, [])


def test_a_slice_ends_after_its_seconds_and_says_that_there_is_more() -> None:
    bench = Bench()
    bench.source.after_page = lambda: setattr(bench, "steady", bench.steady + 6)
    result = bench.drain.run(bench.todo)
    assert (result.more, result.pages) == (True, 2)


def test_once_a_stop_was_asked_for_no_further_page_is_begun_and_the_one_in_flight_is_committed() -> None:
    bench = Bench()
    stop: list[bool] = []
    bench.source.after_page = lambda: stop.append(True)
    result = replace(bench.drain, stopping=lambda: bool(stop)).run(bench.todo)
    assert (result.trouble, result.more, result.position) == (None, True, ROWS[4])
    assert bench.sent() == EXPECTED[:5]
    again = replace(bench.drain, stopping=lambda: True).run(bench.todo)
    assert (again.trouble, again.more, again.position, again.pages) == (None, True, ROWS[4], 0)
    assert bench.source.pages == 1


def test_rows_purged_while_they_were_read_are_passed_over_where_gaps_are() -> None:
    bench = Bench()
    bench.offsets.stored[PERSONS] = ROWS[1]
    bench.source.after_page = lambda: bench.source.low.update({"dbo_Persons": lsn(3)})
    result = bench.drain.run(replace(bench.todo, rows=2, skip_gaps=True))
    assert result.trouble is None
    assert bench.sent() == EXPECTED[2:4] + EXPECTED[8:]


def test_rows_purged_while_they_were_read_are_a_gap_and_are_not_skipped_over() -> None:
    bench = Bench()
    bench.offsets.stored[PERSONS] = ROWS[1]
    bench.source.after_page = lambda: bench.source.low.update({"dbo_Persons": lsn(3)})
    result = bench.drain.run(bench.todo)
    assert result.trouble is Trouble.PERMANENT
    assert "dbo.Persons" in result.message
    assert ROWS[1].lsn.hex in result.message
    assert lsn(3).hex in result.message
    assert 'dstream offsets set dbo.Persons --earliest --skip (with locks of type "local" --take, too)' in (
        result.hint or ""
    )
    assert bench.sent() == []


def test_a_change_beyond_the_windows_end_waits_for_the_next_window() -> None:
    bench = Bench()
    result = bench.drain.run(replace(bench.todo, upto=LogPosition.end_of(lsn(2))))
    assert bench.sent() == EXPECTED[:8]
    assert result.more is False


@pytest.mark.parametrize(
    "error",
    [
        EntityUnavailable("sending to ingest-queue: Status 401", hint="check the key"),
        SendInterrupted("sending to ingest-queue: it is disabled", hint="enable it", disabled=True),
    ],
)
def test_a_queue_that_is_refused_or_switched_off_is_no_trouble_of_the_table(error: DStreamError) -> None:
    bench = Bench()
    bench.sender.fail = error
    result = bench.drain.run(bench.todo)
    assert (result.trouble, result.message, result.hint) == (Trouble.QUEUE, error.message, error.hint)


def test_a_permanent_error_comes_back_as_a_value_with_its_remedy() -> None:
    bench = Bench()
    bench.source.fail = PermanentError("reading: permission denied", hint="grant SELECT")
    result = bench.drain.run(bench.todo)
    assert (result.trouble, result.message, result.hint) == (
        Trouble.PERMANENT,
        "reading: permission denied",
        "grant SELECT",
    )


def of_gap(bench: Bench) -> Slice:
    return replace(bench.todo, gap=True, start=ROWS[1], upto=LogPosition.before(lsn(3)))


def test_a_gap_is_told_before_the_offset_moves_behind_it() -> None:
    bench = Bench()
    bench.offsets.stored[PERSONS] = ROWS[1]
    result = bench.drain.run(of_gap(bench))
    [message] = bench.sender.sent
    body = json.loads(message.body)
    assert (body["data"], body["metadata"]["OperationType"], body["metadata"]["OperationID"]) == ({}, "Gap", -1)
    assert body["metadata"]["Gap"] == {"From": lsn(1).hex, "To": lsn(3).hex}
    assert message.session_id == "server.database.persons.events"
    assert bench.offsets.commits == [LogPosition.before(lsn(3))]
    assert (result.position, result.pages, result.changes, result.more) == (LogPosition.before(lsn(3)), 1, 1, True)
    assert bench.source.pages == 0


def test_a_gap_whose_event_was_not_sent_is_told_again_as_the_same_message() -> None:
    bench = Bench()
    bench.offsets.stored[PERSONS] = ROWS[1]
    bench.offsets.fail = TransientError("committing: the connection broke")
    assert bench.drain.run(of_gap(bench)).trouble is Trouble.TRANSIENT
    assert bench.offsets.stored[PERSONS] == ROWS[1]
    bench.drain.run(of_gap(bench))
    first, again = bench.sender.sent
    assert first.message_id == again.message_id
    bench.sender.fail = TransientError("sending: the connection broke")
    bench.offsets.stored[PERSONS] = ROWS[1]
    assert bench.drain.run(of_gap(bench)).trouble is Trouble.TRANSIENT
    assert bench.offsets.stored[PERSONS] == ROWS[1]


def test_a_gap_that_the_offset_has_left_is_not_told() -> None:
    bench = Bench()
    bench.offsets.stored[PERSONS] = ROWS[5]
    result = bench.drain.run(of_gap(bench))
    assert (result.trouble, bench.sent(), bench.offsets.commits) == (Trouble.TRANSIENT, [], [])
    assert "a gap of dbo.Persons: the offset has moved to" in result.message
