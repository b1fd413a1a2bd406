"""What stops a session and what does not, and topics that turn up while the router runs, on the fake broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest
from structlog.testing import capture_logs

from common.bus.ports import Delivery
from common.errors import TransientError
from common.message import Message
from common.retry import Backoff
from router.counting import ObservedReceivers
from router.publishing.awaited import NotATopic
from router.publishing.publisher import Publisher
from router.receiving.pace import Pace
from router.tally import Tally
from tests.fakes.bus import FakeReceiver, Held
from tests.unit.router.receiving.test_slot import Bench, bodies

PARK_AT_ONCE = Pace(batch=10, accept_wait=0.01, poll=0.005, idle=0.01, turn=60.0, linger=0.0)


def put_raw(bench: Bench, body: bytes, message_id: str, session: str) -> None:
    bench.queue.held.append(Held(Message(body, message_id, session)))


def test_stop_delivers_what_came_before_and_keeps_the_rest_in_order() -> None:
    bench = Bench(on_poison="stop")
    bench.put("persons", 0, 1)
    put_raw(bench, b"{", "bad", "persons")
    bench.put("persons", 2, 3)
    bench.run(until=lambda: bench.parking.stopped == 1)
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1"]
    assert [held.message.message_id for held in bench.queue.held] == ["bad", "persons-2", "persons-3"]
    assert [(held.holder, held.count) for held in bench.queue.held] == [(None, 0)] * 3
    assert bench.queue.dead == []
    assert bench.tally.dead_lettered == {}


def test_a_stopped_session_holds_up_no_other_and_stays_locked() -> None:
    bench = Bench(on_poison="stop")
    put_raw(bench, b"{", "bad", "persons")
    bench.put("persons", 0)
    bench.put("orders", *range(15))
    bench.run(until=lambda: len(bench.queue.held) == 2 and bench.parking.stopped == 1)
    assert bodies(bench.topics["orders"]) == [f"orders-{number}" for number in range(15)]
    assert bench.receivers.opened.count("persons") == 1


def test_stop_is_told_with_session_message_reason_and_remedy() -> None:
    bench = Bench(on_poison="stop")
    bench.put("invoices", 7, session="persons")
    with capture_logs() as logs:
        bench.run(until=lambda: bench.parking.stopped == 1)
    said = str([entry for entry in logs if entry["log_level"] == "error"])
    for part in ("session stopped", "persons", "invoices-7", "UnknownDestination", "on_poison"):
        assert part in said


def test_stop_lets_nothing_overtake_across_destinations_of_one_session() -> None:
    bench = Bench(on_poison="stop")
    bench.topics["persons"].limit = 10
    bench.put("persons", 0, session="mixed")
    bench.put("orders", 1, session="mixed")
    bench.put("persons", 1_000_000, session="mixed")
    bench.put("orders", 2, session="mixed")
    bench.run(until=lambda: bench.parking.stopped == 1)
    assert bodies(bench.topics["orders"]) == ["orders-1"]
    assert bodies(bench.topics["persons"]) == ["persons-0"]
    assert [held.message.message_id for held in bench.queue.held] == ["persons-1000000", "orders-2"]


def test_a_stand_in_for_what_fits_no_message_stops_nothing() -> None:
    bench = Bench(on_poison="stop")
    stand_in = Message(b"{}", "large", "persons", application_properties={"destination": "persons", "oversize": True})
    bench.queue.held.append(Held(stand_in))
    bench.put("persons", 1)
    bench.run()
    assert [reason for _, reason, _ in bench.queue.dead] == ["Oversize"]
    assert bodies(bench.topics["persons"]) == ["persons-1"]


def test_a_change_that_is_set_aside_stops_nothing_and_is_never_delivered() -> None:
    bench = Bench(on_poison="stop")
    bench.put("persons", 1)
    properties = {"destination": "persons", "set_aside": "the filter fails"}
    bench.queue.held.append(Held(Message(b"{}", "aside", "persons", application_properties=properties)))
    bench.put("persons", 2)
    bench.run()
    assert [reason for _, reason, _ in bench.queue.dead] == ["FilterFailed"]
    assert bodies(bench.topics["persons"]) == ["persons-1", "persons-2"]


def test_without_sessions_there_is_nothing_to_stop_and_poison_is_dead_lettered() -> None:
    bench = Bench(sessions=False, on_poison="stop")
    put_raw(bench, b"{", "bad", "persons")
    bench.put("persons", 1)
    bench.run()
    assert [reason for _, reason, _ in bench.queue.dead] == ["MalformedMessage"]


class Steps:
    """A clock that goes on by `seconds` each time it is read."""

    def __init__(self, seconds: float) -> None:
        self._readings = count(1)
        self._seconds = seconds

    def __call__(self) -> float:
        return next(self._readings) * self._seconds


class Further:
    """Makes topics on a bench's broker as they are asked for; `fault` is what the next attempt meets."""

    def __init__(self) -> None:
        self.bench = Bench(further=self, clock=Steps(0.5))
        self.fault: Exception | None = None
        self.made: list[str] = []

    def __call__(self, topic: str, message: Message) -> Publisher:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.made.append(topic)
        self.bench.topics[topic] = self.bench.broker.create(topic)
        return Publisher(topic, self.bench.broker.sender(topic))


def test_an_unknown_destination_gets_its_topic_once_and_its_messages_in_order() -> None:
    further = Further()
    further.bench.put("invoices", *range(15))
    further.bench.run()
    assert further.made == ["invoices"]
    assert bodies(further.bench.topics["invoices"]) == [f"invoices-{number}" for number in range(15)]
    assert further.bench.queue.dead == []


@pytest.mark.parametrize("name", ["a b", "-a", "a/b", "a$", "x" * 261, "été"])
def test_a_destination_that_is_no_topics_name_is_dead_lettered_and_says_so(name: str) -> None:
    further = Further()
    further.bench.put(name, 1)
    further.bench.run()
    [(_, reason, description)] = further.bench.queue.dead
    assert reason == "UnknownDestination"
    assert description.endswith("it is not a valid topic name")
    assert "unknown_destination" not in description, "advice that would not help"
    assert further.made == []


def test_a_topic_that_may_not_be_made_is_dead_lettered_with_the_reason() -> None:
    further = Further()
    further.fault = NotATopic("it is not under srv.db.")
    further.bench.put("invoices", 1)
    further.bench.run()
    [(_, reason, description)] = further.bench.queue.dead
    assert reason == "UnknownDestination"
    assert "it is not under srv.db." in description


def test_a_topic_that_cannot_be_made_just_now_is_tried_again() -> None:
    further = Further()
    further.fault = TransientError("the management API does not answer")
    further.bench.put("invoices", 1)
    further.bench.run()
    assert bodies(further.bench.topics["invoices"]) == ["invoices-1"]
    assert further.bench.queue.dead == []


def test_slots_that_meet_a_new_topic_together_make_it_once() -> None:
    further = Further()
    publishers, barrier = further.bench.slot.publishers, threading.Barrier(4)

    def ask(number: int) -> None:
        barrier.wait()
        publishers.admit(["invoices"])
        publishers["invoices"].send([Message(b"{}", str(number))])

    threads = [threading.Thread(target=ask, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert further.made == ["invoices"]
    assert len(further.bench.topics["invoices"].held) == 4


def test_nothing_goes_past_a_poisoned_message_after_what_came_before_it_was_waited_with() -> None:
    """A session is not parked with a part of what was received of it: what comes next would be sent before the rest."""
    bench = Bench(on_poison="stop", pace=PARK_AT_ONCE, destination_backoff=Backoff(first=0.02, longest=0.02))
    bench.topics["persons"].faults.extend(TransientError("throttled") for _ in range(3))
    bench.put("persons", 0, 1)
    put_raw(bench, b"{", "bad", "persons")
    bench.put("persons", *range(2, 30))
    bench.run(until=lambda: bench.parking.stopped == 1)
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1"]
    assert [held.message.message_id for held in bench.queue.held][:2] == ["bad", "persons-2"]


@pytest.mark.parametrize("sessions", [True, False])
@pytest.mark.parametrize("kind", ["no destination", "refused"])
def test_a_stop_waits_for_no_more_than_one_poisoned_message(
    monkeypatch: pytest.MonkeyPatch, kind: str, sessions: bool
) -> None:
    bench = Bench(sessions=sessions)
    bench.put("persons" if kind == "refused" else "nowhere", *range(8), session="s")
    bench.topics["persons"].refuses = [f"persons-{number}" for number in range(8)]
    locks = watched(monkeypatch, lambda dead: bench.stop.set() if dead == 3 else None)
    bench.run(until=bench.stop.is_set)
    assert len(bench.queue.dead) == 3
    assert [held.holder for held in bench.queue.held] == [None] * 5
    assert all(renewed > 0 for renewed in locks)


def watched(monkeypatch: pytest.MonkeyPatch, then: Callable[[int], None]) -> list[int]:
    """How often a lock was renewed before each message that was dead-lettered, since the one before; `then` learns how many those are."""
    dead_letter, renewals = FakeReceiver.dead_letter, list[int]()

    def told(self: FakeReceiver, delivery: Delivery, *, reason: str, description: str) -> None:
        renewals.append(self.renewals - sum(renewals))
        dead_letter(self, delivery, reason=reason, description=description)
        then(len(renewals))

    monkeypatch.setattr(FakeReceiver, "dead_letter", told)
    return renewals


def test_a_slot_has_its_turn_with_each_poisoned_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a slot that sets aside a pack of 500 would be taken for one that is stuck."""
    bench, turns = Bench(), list[Tally]()
    bench.put("nowhere", *range(8))
    monkeypatch.setattr(Tally, "turn", lambda self: turns.append(self))
    opened = ObservedReceivers(bench.receivers, bench.tally).open(max_wait=0)
    assert opened is not None
    (first, *_) = opened.receive(max_count=8, max_wait=0)
    turns.clear()
    opened.dead_letter(first, reason="UnknownDestination", description="")
    assert turns == [bench.tally]
    opened.close()
