"""Lanes, watermarks and what is logged of outputs that are behind: pure steps, without threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from common.bus.ports import MessageRefused, OutOfTime, SendInterrupted
from common.errors import TransientError
from common.message import Message, Property
from router.receiving.fan_out import lanes, session
from router.receiving.fan_out.behind import FORGOTTEN, Behind
from router.receiving.fan_out.courier import AGAIN, PATIENCE, REST, Attempts, Courier, EventBell
from router.receiving.fan_out.lanes import Entry, Lane, entry_of
from router.receiving.fan_out.progress import MOST_KINDS, REMEMBERED, Kinds, Remembered, Rereads, read, written
from router.receiving.fan_out.routing import note_kind
from router.routes import Poison
from router.tally import Tally
from tests.fakes.bus import FakeDelivery, Held
from tests.unit.router.receiving.test_fan_out import AWAY, Bench, ids


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Topic:
    """A `TopicSender` that does what `answers` say, in turn."""

    chunk_bytes = 10_000

    def __init__(self, topic: str, clock: Clock) -> None:
        self.topic, self._clock = topic, clock
        self.paused_until = 0.0
        self.sent: list[list[str | None]] = []
        self.answers: list[Exception] = []

    def pause(self) -> float:
        return max(0.0, self.paused_until - self._clock.now)

    def send(self, messages: Sequence[Message], **_: object) -> bool:
        self.sent.append([message.message_id for message in messages])
        if self.answers:
            raise self.answers.pop(0)
        return True


class Topics(dict[str, Topic]):
    @property
    def topics(self) -> Sequence[str]:
        return list(self)

    def label(self, topic: str) -> str:
        return topic

    def admit(self, topics: object) -> dict[str, str]:
        return {}


class Line:
    """A lane, its topics, and messages with rising positions."""

    def __init__(self, *, strict: bool = False) -> None:
        self.clock = Clock()
        self.topics = Topics(t=Topic("t", self.clock), u=Topic("u", self.clock))
        self.lane = Lane("a", self.topics, threading.Lock(), self.clock, strict=strict)
        self.entries: list[Entry] = []
        self.finished: list[Entry] = []
        self.attempts = Attempts()

    def put(self, *topics: str) -> None:
        for topic in topics:
            number = len(self.entries)
            delivery = FakeDelivery(Held(Message(b"12345", str(number), "s"), number=number))
            entry = entry_of(delivery)
            self.entries.append(entry)
            if topic:
                self.lane.put(entry, topic)
            self.lane.passed(delivery.position)

    def carry(self) -> None:
        self.lane.busy = True
        Courier(self.clock, lambda: 1e9, self.finished.extend, EventBell(), Tally(), self.attempts).job(self.lane)()

    def done(self) -> list[str | None]:
        return [entry.delivery.message.message_id for entry in self.finished]


def test_a_courier_sends_topic_by_topic_and_the_watermark_follows_the_first_that_is_missing() -> None:
    line = Line()
    line.put("t", "u", "t", "", "u")
    line.topics["t"].answers = [SendInterrupted("away", accepted=[0])]
    line.carry()
    assert line.topics["t"].sent == [["0", "2"]]
    assert (line.done(), line.lane.accepted) == (["0"], (1 - 1, 0))
    line.topics["t"].paused_until = line.clock.now + 1
    assert line.lane.sendable()  # the other topic can be tried
    line.carry()
    assert (line.done(), line.lane.accepted) == (["0", "1", "4"], (1, 0))
    assert not line.lane.sendable()
    line.clock.now += 2
    line.carry()
    assert (line.done(), line.lane.accepted) == (["0", "1", "4", "2"], (4, 0))
    assert line.lane.level


def test_what_a_lane_misses_while_it_is_behind_is_not_settled_and_stops_the_watermark() -> None:
    line = Line()
    line.put("t", "t")
    line.lane.behind = True
    line.put("", "t", "t")
    line.carry()
    assert line.done() == ["0", "1"]
    assert (line.lane.skipped, line.lane.accepted, line.lane.caught_up()) == (2, (2, 0), True)
    assert [entry.finished for entry in line.entries] == [True, True, True, False, False]


def test_a_refused_message_holds_the_watermark_until_it_is_a_dead_letter() -> None:
    line = Line()
    line.put("t", "t", "t")
    line.topics["t"].answers = [MessageRefused("t", Message(b"", "1"), "was refused", at=1, accepted=[0])]
    line.carry()
    assert (line.done(), line.lane.accepted) == (["0", "1", "2"], (0, 0))
    assert [entry.poison is None for entry in line.entries] == [True, False, True]
    line.lane.unpin((1, 0))
    assert line.lane.accepted == (2, 0)


def test_with_stop_nothing_passes_a_refused_message() -> None:
    line = Line(strict=True)
    line.put("t", "u", "t")
    line.topics["u"].answers = [MessageRefused("u", Message(b"", "1"), "was refused", at=0)]
    line.carry()
    assert line.topics["t"].sent == [["0"]]
    assert (line.lane.refused, line.lane.sendable(), line.lane.accepted) == (True, False, (0, 0))
    assert isinstance(line.entries[1].poison, tuple)
    assert isinstance(line.entries[1].poison[0], Poison)


def test_a_lane_sheds_all_but_what_a_courier_carries() -> None:
    line = Line()
    line.put("t", "t", "t")
    line.lane.shed()
    assert [item.entry.delivery.message.message_id for item in line.lane.undone] == ["0"]
    assert (line.lane.skipped, line.lane.behind) == (2, True)
    line.carry()
    assert (line.done(), line.lane.accepted) == (["0"], (0, 0))


def test_a_courier_does_not_queue_for_ever_behind_another() -> None:
    line = Line()
    line.put("t")

    def taken(messages: Sequence[Message], **given: object) -> bool:
        line.clock.now += PATIENCE + 1
        meanwhile = given["meanwhile"]
        assert callable(meanwhile)
        meanwhile()
        raise AssertionError("it goes on waiting")

    line.topics["t"].send = taken  # type: ignore[method-assign]
    line.carry()
    assert not line.lane.busy
    assert not line.lane.sendable()
    line.clock.now += REST
    assert line.lane.sendable()


def test_one_courier_tries_a_topic_that_failed_and_the_others_keep_no_thread_waiting() -> None:
    line = Line()
    line.put("t", "t")
    line.topics["t"].answers = [SendInterrupted("away")]
    line.carry()
    assert line.attempts.begin("a", "t")  # another courier
    line.carry()
    assert len(line.topics["t"].sent) == 1
    assert not line.lane.sendable()
    line.attempts.end("a", "t", failed=False)
    line.clock.now += AGAIN
    line.carry()
    assert line.done() == ["0", "1"]


def test_a_lock_that_ends_is_no_failure_of_the_output() -> None:
    line = Line()
    line.put("t")
    tally = Tally()
    line.topics["t"].answers = [OutOfTime("the lock ends")]
    Courier(line.clock, lambda: 0.0, line.finished.extend, EventBell(), tally, line.attempts).job(line.lane)()
    assert (line.done(), tally.retries) == ([], {})


@pytest.mark.parametrize(
    "state",
    [
        None,
        b"",
        b"foreign",
        b"[]",
        b'{"v":2,"routes":"r","accepted":{"a":[1,0]}}',
        b'{"v":1,"routes":"other","accepted":{"a":[1,0]}}',
        b'{"v":1,"routes":"r","accepted":{"a":1}}',
        b'{"v":1,"routes":"r","accepted":[]}',
        b'{"v":1,"routes":"r"}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_state_that_cannot_be_believed_is_none(state: bytes | None) -> None:
    assert read(state, "r", ["a"])[0] == {}


def test_a_state_is_read_as_it_was_written_without_outputs_that_are_gone() -> None:
    assert read(written({"a": (7, 2), "gone": (9, 0)}, "r"), "r", ["a", "b"])[0] == {"a": (7, 2)}


def test_what_is_remembered_without_sessions_is_bounded() -> None:
    remembered = Remembered(most=2)
    for number in range(3):
        remembered.note((number, 0), "m", {"a": "so"})
    assert [remembered.take((number, 0), "m", lambda _: "so") for number in range(3)] == [frozenset(), {"a"}, {"a"}]


def test_what_an_output_has_by_another_way_is_sent_again() -> None:
    remembered, successor = Remembered(), Remembered()
    remembered.note((1, 0), "m", {"a": "here", "b": "here"})
    successor.learn(remembered.told())
    assert successor.take((1, 0), "m", {"a": "here", "b": "there"}.__getitem__) == {"a"}
    assert successor.take((1, 0), "m", lambda _: "here") == frozenset()


@pytest.mark.parametrize("new", ["n", None])
def test_another_message_with_the_same_number_is_sent(new: str | None) -> None:
    """Of another queue with the same name, which counts from 1 again."""
    remembered = Remembered()
    remembered.note((1, 0), "m", {"a": "so"})
    assert remembered.take((1, 0), new, lambda _: "so") == frozenset()


def test_what_never_comes_again_is_forgotten_here_and_in_the_parent() -> None:
    clock = Clock()
    remembered, parent = Remembered(clock=clock), Remembered(clock=clock)
    remembered.note((1, 0), "m", {"a": "so"})
    parent.learn(remembered.told())
    clock.now += REMEMBERED
    assert remembered.take((1, 0), "m", lambda _: "so") == frozenset()
    assert parent.told() == []


def test_a_successor_reads_no_session_again_that_was_just_read() -> None:
    rereads, successor = Rereads(), Rereads()
    rereads.begin("s", 100.0)
    successor.begin("t", 100.0)
    successor.learn(rereads.told())
    assert not successor.due("s", 105.0)
    assert not successor.due("t", 105.0)
    assert successor.due("s", 111.0)


def test_an_output_that_an_edit_has_changed_waits_for_no_pause() -> None:
    rereads, successor = Rereads(), Rereads()
    for _ in range(5):
        rereads.begin("s", 100.0, "a", {"a": "wrong", "b": "same"})
    successor.learn(rereads.told())
    assert successor.due("s", 101.0, "a", {"a": "right", "b": "same"})
    assert not successor.due("s", 101.0, "b", {"a": "right", "b": "same"})
    successor.begin("s", 101.0, "a", {"a": "right", "b": "same"})
    assert not successor.due("s", 105.0, "a", {"a": "right", "b": "same"})
    assert successor.due("s", 112.0, "a", {"a": "right", "b": "same"})


def test_one_line_says_that_an_output_is_behind_and_one_that_it_is_level() -> None:
    clock = Clock()
    behind = Behind(clock)
    with capture_logs() as logs:
        behind.fell("a", "s1", "it is slow")
        behind.fell("a", "s2", "it is slow")
        assert behind.sessions() == {"a": 2}
        behind.level("s1", "a", "b")
        behind.closed("s2")  # it is read again
        behind.fell("a", "s2", "it is slow")
        behind.level("s2", "a")
    assert [line["event"] for line in logs] == ["output behind; the others go on", "output level again"]
    behind.fell("a", "s3", "it is slow")
    behind.closed("s3")
    clock.now += FORGOTTEN + 1  # another router has it
    behind.look()
    assert behind.sessions() == {}


def test_a_session_waits_for_an_output_that_has_missed_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "ROOM_MESSAGES", 10)
    monkeypatch.setattr("router.receiving.fan_out.handover.MOST_SKIPPED", 30)
    monkeypatch.setattr(session, "MOST_SKIPPED", 30)
    bench = Bench("a", "b", backoff=AWAY)
    bench.put(200)
    bench.outputs["b"].faults.append(TransientError("away"))
    with capture_logs() as logs:
        bench.run(until=lambda: any(line["event"] == "session waits for an output" for line in logs))
    assert 40 <= len(ids(bench.outputs["a"])) < 100
    [line] = [line for line in logs if line["event"] == "session waits for an output"]
    assert (line["output"], line["log_level"]) == ("b", "warning")


def test_the_kinds_of_a_session_are_noted_whatever_came_before() -> None:
    def said(table: str, **more: bool) -> FakeDelivery:
        told: dict[str, str | bool] = {
            Property.DESTINATION: "T.One",
            Property.SCHEMA: "dbo",
            Property.TABLE: table,
            **more,
        }
        return FakeDelivery(Held(Message(b"{}", "m", application_properties=told)))

    kinds = Kinds()
    for each in (said("A", oversize=True), said("A"), said("A"), said("B"), said("A")):
        note_kind(kinds, each)
    assert kinds.known == {("t.one", "dbo", "A"), ("t.one", "dbo", "B")}
    for number in range(MOST_KINDS):
        note_kind(kinds, said(f"T{number}"))
    assert kinds.known is None
