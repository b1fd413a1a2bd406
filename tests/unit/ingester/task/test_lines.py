"""A drain that writes lines: each is committed before the next begins, and what was written is not written again while the process lives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from common.clock import SteadyTime, UnixTime
from common.errors import TransientError
from common.names import Origin, TableName
from ingester.change import Change, Operation
from ingester.position import Position
from ingester.slices import Expired, Slice, SliceResult, Trouble, in_trouble
from ingester.sqlserver.position import LogPosition
from ingester.stdio.executor import ThreadExecutor
from ingester.stdio.output import Output
from ingester.task.drain import Drain
from ingester.task.lines import LineEncoder, Lines
from tests.fakes.ingester import PERSONS, FakeOffsets, FakeSource, instance, lsn, position

ROWS = [position(n, seq=s) for n in (1, 2, 3) for s in (1, 2, 3, 4)]
ORIGIN = Origin("server", "database")


@dataclass
class FakeOutput:
    """`stored`: each line, and the offsets that were committed before it. `fail`: raised by the line of that number, before it is written."""

    offsets: FakeOffsets
    unsaved: dict[TableName, tuple[Position | None, Position]] = field(default_factory=dict)
    written: list[tuple[bytes, int]] = field(default_factory=list)
    fail: tuple[int, Exception] | None = None
    during: Callable[[], None] = lambda: None

    def claim(self, table: TableName) -> object:
        return object()

    @contextmanager
    def turn(self, table: TableName, token: object | None) -> Iterator[Callable[[bytes], None]]:
        if self.fail is not None and self.fail[0] == len(self.written):
            error, self.fail = self.fail[1], None
            raise error
        yield self._write

    def _write(self, line: bytes) -> None:
        self.written.append((line, len(self.offsets.commits)))
        self.during()

    def ids(self) -> list[str]:
        return [change["event_id"] for line, _ in self.written for change in json.loads(line)["changes"]]


class Bench:
    def __init__(self, *, longest: int = 700) -> None:
        self.steady, self.clock = 5.0, 1_000.0
        self.offsets = FakeOffsets()
        self.offsets.claim(PERSONS, 7)
        self.output = FakeOutput(self.offsets)
        self.lines = Lines(
            self.offsets,
            self.output,
            server_name="server",
            poll_interval=lambda table: "5s",
            longest=longest,
            clock=lambda: SteadyTime(self.steady),
        )
        self.drain = Drain(
            FakeSource(rows={"dbo_Persons": list(ROWS)}, max_lsn=lsn(3)),
            self.lines,
            self.lines,
            LineEncoder(ORIGIN),
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

    def run(self) -> SliceResult:
        return self.drain.run(self.todo)


EXPECTED = [f"database.dbo.Persons:{p.lsn.hex}-{p.command_id}-{p.seqval.hex()}-{p.operation}" for p in ROWS]


@pytest.mark.parametrize("longest", [1, 500, 700, 1_200, 100_000])
def test_every_length_of_a_line_writes_every_change_once_in_order_and_commits_before_the_next_line(
    longest: int,
) -> None:
    bench = Bench(longest=longest)
    result = bench.run()
    assert bench.output.ids() == EXPECTED
    assert (result.changes, result.position, result.trouble) == (12, ROWS[-1], None)
    assert [commits for _, commits in bench.output.written] == list(range(len(bench.output.written)))
    whole = [line for line, _ in bench.output.written]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in whole)
    assert all(len(line) <= longest or json.loads(line)["metadata"]["batch_size"] == 1 for line in whole)


def test_a_line_has_the_form_that_is_documented() -> None:
    bench = Bench(longest=100_000)
    bench.run()
    envelope = json.loads(bench.output.written[0][0])
    assert (envelope["table_name"], envelope["server_name"]) == ("dbo.Persons", "server")
    assert envelope["metadata"] == {"batch_size": 5, "poll_interval": "5s"}
    first = envelope["changes"][0]
    assert list(first) == ["table_name", "change_type", "data", "timestamp", "lsn", "event_id"]
    assert (first["change_type"], first["lsn"]) == ("insert", "00000000:00000000:0001")


def test_a_stop_between_two_lines_of_a_page_keeps_what_was_written() -> None:
    bench = Bench(longest=1)
    bench.output.fail = 2, Expired("writing a line: the provider stops")
    result = bench.run()
    assert (result.trouble, result.more, result.changes, result.position) == (None, True, 2, ROWS[1])
    assert bench.offsets.stored[PERSONS] == ROWS[1]
    assert bench.run().trouble is None
    assert bench.output.ids() == EXPECTED


def test_a_line_whose_offset_could_not_be_moved_is_not_written_again() -> None:
    bench = Bench(longest=1)

    def breaks() -> None:
        if len(bench.output.written) == 3:
            bench.offsets.refused[PERSONS] = TransientError("committing: the connection broke")

    bench.output.during = breaks
    assert bench.run().trouble is Trouble.TRANSIENT
    assert bench.offsets.stored[PERSONS] == ROWS[1]
    assert bench.run().trouble is Trouble.TRANSIENT
    assert len(bench.output.written) == 3, "its table wrote on while its offset could not be moved"
    del bench.offsets.refused[PERSONS]
    bench.output.during = lambda: None
    assert bench.run().trouble is None
    assert bench.output.ids() == EXPECTED
    assert bench.output.unsaved == {}


def test_a_commit_that_works_the_second_time_goes_on() -> None:
    bench = Bench(longest=1)
    bench.offsets.fail = TransientError("committing: the answer was lost")
    first = bench.run()
    assert (first.trouble, first.position, first.more) == (None, ROWS[0], True)
    bench.run()
    assert bench.output.ids() == EXPECTED


def test_a_line_of_an_owner_that_was_superseded_meanwhile_is_left_to_the_newer_one() -> None:
    bench = Bench(longest=1)
    bench.output.during = lambda: bench.offsets.epochs.update({PERSONS: 8})
    assert bench.run().trouble is Trouble.LEASE_LOST
    assert bench.offsets.stored[PERSONS] is None
    bench.offsets.stored[PERSONS] = ROWS[4]  # the newer one has moved it
    bench.output.during = lambda: None
    bench.todo = replace(bench.todo, epoch=9)
    bench.offsets.epochs[PERSONS] = 9
    assert bench.run().trouble is None
    assert bench.output.ids() == [EXPECTED[0], *EXPECTED[5:]]


def test_nothing_is_written_once_the_lease_may_have_ended() -> None:
    bench = Bench(longest=1)
    bench.todo = replace(bench.todo, lease_seconds=20.0)

    def passes() -> None:
        bench.steady += 9.0

    bench.output.during = passes
    result = bench.run()
    assert len(bench.output.written) == 3
    assert (result.trouble, result.position, result.more) == (None, ROWS[2], True)


def test_a_slow_reader_ends_the_slice_between_two_lines() -> None:
    bench = Bench(longest=1)

    def passes() -> None:
        bench.steady += 31.0

    bench.output.during = passes
    result = bench.run()
    assert (result.trouble, result.position, result.more, len(bench.output.written)) == (None, ROWS[0], True, 1)


def test_rows_of_a_snapshot_move_no_offset() -> None:
    bench = Bench()
    message = LineEncoder(ORIGIN).message(Change(PERSONS, "dbo_Persons", ROWS[0], Operation.READ, {"ID": 1}))
    assert message.position is None
    bench.lines.send([message])
    assert (len(bench.output.written), bench.offsets.commits) == (1, [])


def test_an_event_says_in_its_data_what_it_is_about_and_moves_no_offset() -> None:
    lost = Change(PERSONS, "dbo_Persons", ROWS[0], Operation.GAP, {}, history={"Gap": {"From": "01", "To": "02"}})
    message = LineEncoder(ORIGIN).message(lost)
    told = json.loads(message.body)
    assert (told["change_type"], told["data"]["Gap"]) == ("gap", {"From": "01", "To": "02"})
    assert not {"IngestQueue", "Destination"} & told["data"].keys()
    assert message.position is None


class SlowOutput(Output):
    """Of which a test decides whether its reader is slow."""

    late = False

    def __init__(self) -> None:
        super().__init__(1, lambda: None)

    @property
    def slow(self) -> bool:
        return self.late


def test_a_slice_whose_time_ended_while_the_reader_was_slow_has_not_failed() -> None:
    todo, output = Bench().todo, SlowOutput()
    expired = in_trouble(SliceResult(PERSONS, None), Expired("too late"))
    executor = ThreadExecutor(lambda bundle, begun, early: [expired], output)

    def run() -> SliceResult:
        [result] = executor.run([todo], number=1, early=lambda result: None, begins=lambda: [todo])
        return result

    assert run().trouble is Trouble.EXPIRED
    output._slow_at = float("inf")
    assert (run().trouble, run().more) == (None, True)


def test_bundles_wait_with_the_line_that_waits_for_its_reader_and_are_not_late_but_a_stop_does_not_wait() -> None:
    output = SlowOutput()
    executor = ThreadExecutor(lambda bundle, begun, early: [], output)
    assert not executor.waits(3)
    output.late = True
    assert executor.waits(3)
    output.finish()
    assert not executor.waits(3)
    [result] = executor.run([Bench().todo], number=4, early=lambda result: None, begins=lambda: None)
    assert (result.changes, result.more, result.trouble) == (0, True, None)
