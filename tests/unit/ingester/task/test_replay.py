"""The loop of a replay: everything once and in order, nothing skipped, and no trouble waited out without an end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import orjson
import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted, TimeLeft
from common.clock import SteadyTime
from common.errors import ConnectionLost, EntityUnavailable, PermanentError, Stopped, TransientError
from common.message import Message
from common.names import Origin
from ingester.change import Change
from ingester.history.replay import CleanedUp, Replay
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import TableShape
from ingester.source import CaptureInstance
from ingester.sqlserver.position import LogPosition
from ingester.task.replay import PATIENCE, ReplayEncoder, Replayer
from tests.fakes.ingester import PERSONS, FakeSource, instance, lsn, position

ROWS = [position(n, seq=s) for n in (1, 2, 3, 4, 5) for s in (1, 2, 3, 4)]
ORIGIN = Origin("server", "database")
REPLAY = Replay("0123456789ab", PERSONS, "copy", LogPosition.before(lsn(2)), LogPosition.end_of(lsn(4)))
IN_RANGE = [p for p in ROWS if 2 <= int(p.lsn.hex, 16) <= 4]


def event_id(at: LogPosition) -> str:
    return f"database.dbo.Persons:{at.lsn.hex}-{at.command_id}-{at.seqval.hex()}-{at.operation}"


@dataclass(frozen=True)
class Named:
    """A transform of a function."""

    make: Callable[[Change], Change | None]
    name: str = "filter"

    def __call__(self, change: Change) -> Change | None:
        return self.make(change)


class Topic:
    """A Sender. `faults`: raised by the next sends, in turn; an int: so many are accepted first."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.faults: list[Exception | int] = []
        self.after_send: Callable[[], object] = lambda: None

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, int):
                self.sent += messages[:fault]
                raise SendInterrupted("the link broke", accepted=range(fault))
            raise fault
        self.sent += messages
        self.after_send()

    def close(self) -> None: ...


class Bench:
    def __init__(self, rows: int = 5, rate: int | None = None) -> None:
        self.clock = 0.0
        self.waits: list[float] = []
        self.source = FakeSource(instances={PERSONS: (instance(),)}, rows={"dbo_Persons": list(ROWS)}, max_lsn=lsn(5))
        self.topic = Topic()
        self.stop = threading.Event()
        self.replayer = Replayer(
            self.source,
            self.topic,
            ReplayEncoder(ORIGIN, "ingest-queue", REPLAY),
            self._instances,
            self.stop,
            most_rows=rows,
            most_rate=rate,
            clock=lambda: SteadyTime(self.clock),
            wait=self._wait,
            chance=lambda: 1.0,
        )

    def _instances(self) -> tuple[CaptureInstance, ...]:
        return self.source.states([PERSONS])[PERSONS].instances

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock += seconds

    def originals(self) -> list[str]:
        return [orjson.loads(message.body)["metadata"]["Replay"]["EventID"] for message in self.topic.sent]


EXPECTED = [event_id(p) for p in IN_RANGE]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 12, 100])
def test_whole_transactions_of_the_range_are_sent_once_and_in_order(rows: int) -> None:
    bench = Bench(rows)
    bench.replayer.run()
    assert bench.originals() == EXPECTED
    assert bench.replayer.progress.sent == 12


def test_a_change_that_is_set_aside_is_left_out_and_told_and_the_others_go_on() -> None:
    """A replay goes past the router, which would keep it from the subscribers."""

    def fails(change: Change) -> Change | None:
        return replace(change, set_aside="the filter fails") if change.position in aside else change

    aside = {IN_RANGE[2], IN_RANGE[3]}
    bench = Bench(4)
    bench.replayer.transforms = (Named(fails),)
    with capture_logs() as lines:
        bench.replayer.run()
    assert bench.originals() == [event_id(p) for p in IN_RANGE if p not in aside]
    assert bench.replayer.progress.sent == 10
    (line,) = [line for line in lines if line["event"] == "filter failed on changes; the replay leaves them out"]
    assert (line["changes"], line["error"]) == (2, "the filter fails")


def test_a_message_says_which_replay_it_is_of_and_has_the_tables_session() -> None:
    bench = Bench()
    bench.replayer.run()
    first = bench.topic.sent[0]
    metadata = orjson.loads(first.body)["metadata"]
    assert metadata["Replay"] == {"Id": "0123456789ab", "EventID": EXPECTED[0]}
    assert metadata["EventID"] == first.message_id == f"{EXPECTED[0]}:0123456789ab"
    assert metadata["Destination"] == first.application_properties["destination"] == "copy"
    assert first.session_id == "server.database.persons.events"


def test_where_a_newer_instance_takes_over_nothing_is_missing_or_doubled() -> None:
    bench = Bench()
    bench.source.instances = {PERSONS: (instance(), instance(start=3, name="dbo_Persons_2"))}
    bench.source.rows["dbo_Persons_2"] = [p for p in ROWS if p.lsn >= lsn(3)]
    bench.replayer.run()
    assert bench.originals() == EXPECTED
    used = Counter(orjson.loads(message.body)["metadata"]["CaptureInstance"] for message in bench.topic.sent)
    assert used == {"dbo_Persons": 4, "dbo_Persons_2": 8}


def test_cleanup_that_passes_the_replay_ends_it_and_nothing_behind_the_hole_is_sent() -> None:
    bench = Bench(rows=4)
    bench.topic.after_send = lambda: bench.source.low.update(dbo_Persons=lsn(4))
    with pytest.raises(CleanedUp, match=f"changes after {IN_RANGE[3]}.* the low watermark is") as ended:
        bench.replayer.run()
    assert "--from 0x00000000000000000004" in str(ended.value)
    assert bench.originals() == EXPECTED[:4]
    assert bench.replayer.progress.goes_on_from(REPLAY) == "0x00000000000000000002"


def test_after_a_fault_the_rest_is_sent_and_what_was_accepted_is_not() -> None:
    bench = Bench()
    bench.topic.faults = [2, ConnectionLost("the namespace is busy"), 0]
    with capture_logs() as logs:
        bench.replayer.run()
    assert bench.originals() == EXPECTED
    assert [entry["event"] for entry in logs] == ["replay interrupted; trying again", "replay goes on"]


def test_a_server_that_is_away_for_a_while_is_asked_again() -> None:
    bench = Bench()
    bench.source.fail = ConnectionLost("the server is failing over")
    bench.replayer.run()
    assert bench.originals() == EXPECTED


@pytest.mark.parametrize("away", ["source", "topic"])
def test_a_trouble_that_does_not_end_ends_the_replay(away: str) -> None:
    bench = Bench()
    if away == "source":
        bench.source.away = TransientError("it is away")
    else:
        bench.topic.faults = [SendInterrupted("it is away") for _ in range(1_000)]
    with pytest.raises(TransientError, match="it is away"):
        bench.replayer.run()
    assert PATIENCE <= bench.clock < 2 * PATIENCE
    assert bench.replayer.progress.goes_on_from(REPLAY) == "0x00000000000000000002"


def test_a_namespace_that_throttles_is_not_a_warning_the_first_time() -> None:
    bench = Bench()
    bench.topic.faults = [SendInterrupted("no credits", throttled=True)]
    with capture_logs() as logs:
        bench.replayer.run()
    assert bench.originals() == EXPECTED
    assert logs == []


def test_a_topic_that_is_deleted_ends_it_at_once() -> None:
    bench = Bench()
    bench.topic.faults = [EntityUnavailable("it does not exist")]
    with pytest.raises(PermanentError, match="does not exist"):
        bench.replayer.run()
    assert bench.waits == []


def test_an_error_that_nobody_foresaw_ends_it_and_its_text_is_not_shown() -> None:
    """It may quote a value of a row."""
    bench = Bench()
    bench.topic.faults = [ValueError("ada@example.org")]
    with pytest.raises(PermanentError) as raised:
        bench.replayer.run()
    assert raised.value.message.startswith("replaying dbo.Persons: ValueError, raised in ")
    assert "ada" not in str(raised.value)
    assert "defect of DStream" in (raised.value.hint or "")


def test_a_stop_ends_it_before_the_next_send() -> None:
    bench = Bench(rows=4)
    bench.topic.after_send = bench.stop.set
    with pytest.raises(Stopped):
        bench.replayer.run()
    assert bench.originals() == EXPECTED[:4]


def test_no_more_than_the_rate_is_sent_in_a_second() -> None:
    bench = Bench(rows=100, rate=3)
    bench.replayer.run()
    assert bench.originals() == EXPECTED
    assert sum(bench.waits) == pytest.approx(12 / 3, abs=1.01)


def test_a_slow_rate_is_no_trouble_that_lasts() -> None:
    bench = Bench(rows=1, rate=1)
    bench.clock = 10 * PATIENCE
    bench.replayer.run()
    bench.source.fail = ConnectionLost("the server is failing over")
    bench.replayer.run()
    assert len(bench.topic.sent) == 24


def test_a_replay_sends_changes_in_the_tables_present_shape() -> None:
    bench = Bench()
    mask = mask_of("hash:SHA-256:salt")
    bench.replayer.shape = TableShape(masks=(("id", mask),), filter="metadata.OperationType == 'Insert'")
    bench.replayer.run()
    assert bench.topic.sent
    for message in bench.topic.sent:
        body = orjson.loads(message.body)
        assert len(body["data"]["ID"]) == 64
        assert body["metadata"]["OperationType"] == "Insert"


def test_a_replay_ends_where_a_newer_instance_has_another_column_in_place_of_a_masked_one() -> None:
    bench = Bench()
    newer = instance(start=3, name="dbo_Persons_2")
    newer = replace(newer, columns=(newer.columns[0], replace(newer.columns[1], name="Label")))
    bench.source.instances = {PERSONS: (instance(), newer)}
    bench.source.rows["dbo_Persons_2"] = [p for p in ROWS if p.lsn >= lsn(3)]
    bench.replayer.shape = TableShape(masks=(("Name", mask_of("null")),), shared=frozenset({"Name"}))
    with pytest.raises(PermanentError, match="what hides Name of dbo_Persons finds no column in dbo_Persons_2"):
        bench.replayer.run()
    assert len(bench.topic.sent) == 4
