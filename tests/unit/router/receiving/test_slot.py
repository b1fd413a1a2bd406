"""The loop of a slot on the fake broker: what is settled, what comes again, and who waits for whom."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.errors import PermanentError, Stopped, TransientError
from common.message import Message
from common.retry import Backoff
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.receiving.gate import Gate
from router.receiving.interruption import SETTLED, Interruption
from router.receiving.pace import Pace
from router.receiving.parking import Parking
from router.receiving.slot import Forwarder
from router.settings import OnPoison
from router.tally import Tally
from tests.fakes.bus import FakeBroker, FakeEntity, FakeReceiver, FakeReceivers, Held

QUICK = Backoff(first=0.001, longest=0.001)
PACE = Pace(batch=10, accept_wait=0.01, poll=0.005, idle=0.01, turn=5.0)


class Bench:
    """A queue with sessions, two topics, and a slot that stops by itself when `done` says so."""

    def __init__(
        self,
        *,
        sessions: bool = True,
        pace: Pace = PACE,
        destination_backoff: Backoff = QUICK,
        on_poison: OnPoison = "dead_letter",
        further: Callable[[str, Message], Publisher] | None = None,
        chance: Callable[[], float] = lambda: 1.0,
        grace: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.broker = FakeBroker()
        self.queue = self.broker.create("ingest", sessions=sessions)
        self.topics = {name: self.broker.create(name) for name in ("persons", "orders")}
        self.stop = threading.Event()
        self.tally = Tally()
        self.receivers: FakeReceivers = self.broker.receivers("ingest", sessions=sessions)
        self.publishers = publishers = Publishers(
            (
                Publisher(name, self.broker.sender(name), backoff=destination_backoff, chance=chance)
                for name in self.topics
            ),
            further=further,
            grace=grace,
            clock=clock,
            tally=self.tally,
        )
        self.parking = Parking(self.stop, room=2)
        self.slot = Forwarder(
            self.receivers,
            publishers,
            self.stop,
            sessions,
            pace,
            Gate(),
            self.tally,
            Backoff(0.001, 1.0, 0.001),
            parking=self.parking,
            on_poison=on_poison,
        )

    def put(self, topic: str, *numbers: int, session: str | None = None) -> None:
        for number in numbers:
            body, properties = f"{topic}-{number}".encode(), {"destination": topic}
            message = Message(body, f"{topic}-{number}", session or topic, application_properties=properties)
            self.queue.held.append(Held(message))

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Run the slot until `until` holds (by default: the queue is empty), at most ten seconds."""
        done = until or (lambda: not self.queue.held)
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.slot.run()
            except BaseException as error:
                failed.append(error)
                self.stop.set()

        thread = threading.Thread(target=work)
        thread.start()
        waiting = threading.Event()
        for _ in range(5_000):
            if done() or self.stop.is_set():
                break
            waiting.wait(0.002)
        reached = done()
        self.stop.set()
        thread.join(10)
        self.parking.close()
        if failed:
            raise failed[0]
        assert reached
        assert not thread.is_alive()


def bodies(entity: FakeEntity) -> list[str]:
    return [body.decode() for body in entity.bodies]


@pytest.mark.parametrize("sessions", [True, False])
def test_everything_reaches_its_topic_in_order_and_leaves_the_queue(sessions: bool) -> None:
    bench = Bench(sessions=sessions)
    for number in range(25):
        bench.put("persons", number)
        bench.put("orders", number)
    bench.run()
    assert bodies(bench.topics["persons"]) == [f"persons-{number}" for number in range(25)]
    assert bodies(bench.topics["orders"]) == [f"orders-{number}" for number in range(25)]
    assert bench.tally.routed == {"persons": 25, "orders": 25}


def test_messages_are_sent_in_batches_not_one_by_one() -> None:
    bench = Bench()
    bench.put("persons", *range(30))
    bench.run()
    assert [len(batch) for batch in bench.topics["persons"].sends] == [10, 10, 10]


class Sends(list[list[Message]]):
    """A topic's accepted sends; tells `accepted` when one comes."""

    def __init__(self, accepted: Callable[[int], None]) -> None:
        super().__init__()
        self._accepted = accepted

    def append(self, batch: list[Message]) -> None:
        super().append(batch)
        self._accepted(len(self))


def test_nothing_is_completed_before_its_topic_accepted_it() -> None:
    bench = Bench()
    bench.put("persons", 0, 1)
    persons = bench.topics["persons"]
    persons.faults.extend(TransientError("away") for _ in range(3))
    uncompleted: list[int] = []
    persons.sends = Sends(lambda number: uncompleted.append(len(bench.queue.held)))
    bench.run()
    assert uncompleted == [2]
    assert bodies(persons) == ["persons-0", "persons-1"]
    assert bench.tally.retries == {"persons": 3}


def test_poison_is_dead_lettered_with_its_reason_and_the_rest_goes_on() -> None:
    bench = Bench()
    bench.put("persons", 0)
    bench.queue.held.append(Held(Message(b"{", "bad", "persons")))
    bench.put("invoices", 1, session="persons")
    bench.put("persons", 2)
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-2"]
    assert [(message.message_id, reason) for message, reason, _ in bench.queue.dead] == [
        ("bad", "MalformedMessage"),
        ("invoices-1", "UnknownDestination"),
    ]
    assert bench.tally.dead_lettered == {"MalformedMessage": 1, "UnknownDestination": 1}


def test_a_destination_that_is_away_holds_up_no_other_in_the_same_batch() -> None:
    bench = Bench(
        sessions=False, destination_backoff=Backoff(first=60.0, longest=60.0), pace=Pace(turn=0.0, poll=0.005)
    )
    bench.put("persons", 0)
    bench.put("orders", 1)
    bench.put("persons", 2)
    bench.topics["persons"].faults.append(TransientError("away"))
    bench.run(until=lambda: bodies(bench.topics["orders"]) == ["orders-1"] and len(bench.queue.held) == 2)
    assert bodies(bench.topics["persons"]) == []
    assert [held.count for held in bench.queue.held] == [0, 0]


def test_an_outage_longer_than_a_turn_gives_the_session_to_others_and_keeps_its_order() -> None:
    bench = Bench(
        destination_backoff=Backoff(first=0.01, longest=0.01), pace=Pace(accept_wait=0.01, poll=0.005, turn=0.0)
    )
    bench.put("persons", *range(3))
    bench.put("orders", 0)
    bench.topics["persons"].faults.extend(TransientError("away") for _ in range(4))
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1", "persons-2"]
    assert bodies(bench.topics["orders"]) == ["orders-0"]
    assert bench.receivers.opened.count("persons") > 1


def test_a_lost_session_lock_ends_the_session_and_its_messages_come_again() -> None:
    bench = Bench()
    bench.put("persons", 0, 1)
    persons = bench.topics["persons"]

    def expire_once(number: int) -> None:
        for held in bench.queue.held if number == 1 else ():
            held.holder = None

    persons.sends = Sends(expire_once)
    bench.run()
    assert bodies(persons) == ["persons-0", "persons-1"] * 2
    assert bench.tally.lost_locks == 2
    assert bench.receivers.opened == ["persons", "persons"]


def test_a_failed_settlement_loses_nothing() -> None:
    bench = Bench()
    bench.put("persons", 0)
    opened = bench.receivers.open

    def faulty(**how: Any) -> object:
        receiver = opened(**how)
        if receiver is not None and len(bench.receivers.opened) == 1:
            receiver.settle_faults.append(TransientError("no answer"))
        return receiver

    bench.receivers.open = faulty  # type: ignore[method-assign, assignment]  # one receiver of the fake is to fail
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-0"]


def test_a_message_larger_than_its_topic_takes_is_dead_lettered_and_nothing_is_sent_twice() -> None:
    bench = Bench()
    bench.topics["persons"].limit = 12
    bench.put("persons", 0, 1, 123_456_789, 2, 3)
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1", "persons-2", "persons-3"]
    assert [(message.message_id, reason) for message, reason, _ in bench.queue.dead] == [
        ("persons-123456789", "MessageTooLarge")
    ]


def test_a_broken_source_is_tried_again() -> None:
    bench = Bench()
    bench.put("persons", 0)
    bench.broker.open_faults.extend(TransientError("connection refused") for _ in range(3))
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0"]


def test_each_interruption_is_told_once_and_the_pauses_after_it_grow_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The back-off decides each pause by chance; what it is asked for is how many failures there were in a row."""
    asked: list[int] = []

    def delay(self: Backoff, attempt: int, chance: object = None) -> float:
        asked.append(attempt)
        return 0.0

    monkeypatch.setattr(Backoff, "delay", delay)
    bench, now = Bench(), [0.0]
    bench.slot.interruption = Interruption(lambda: now[0])
    bench.put("persons", 0)
    bench.broker.open_faults.extend(TransientError("connection refused") for _ in range(3))

    def twice() -> bool:
        if bench.queue.held or bench.broker.open_faults:
            return False
        now[0] += SETTLED
        ends = [entry["event"] for entry in logs].count("receiving again")
        if ends == 1 and not bench.topics["orders"].bodies:
            bench.broker.open_faults.extend(TransientError("connection refused") for _ in range(2))
            bench.put("orders", 0)
        return ends == 2

    with capture_logs() as logs:
        bench.run(until=twice)
    assert asked == [1, 2, 3, 1, 2]
    lines = [entry["event"] for entry in logs if entry["log_level"] in ("warning", "info")]
    assert [line for line in lines if line.startswith("receiving")] == ["receiving interrupted", "receiving again"] * 2


def test_a_session_that_fails_again_and_again_holds_up_no_other_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, now, broken = Bench(), [0.0], [True]
    backoff = Backoff(first=0.001, factor=1e6, longest=1_000.0)
    bench.slot = replace(bench.slot, clock=lambda: now[0], backoff=backoff)
    bench.put("persons", 0, session="bad")
    bench.put("orders", 0, 1, session="good")
    real = FakeReceiver.receive

    def receive(self: FakeReceiver, *, max_count: int, max_wait: float) -> Any:
        if broken[0] and self.session_id == "bad":
            raise TransientError("this session cannot be read")
        now[0] += 0.02  # an empty session is given up after a while
        return real(self, max_count=max_count, max_wait=max_wait)

    monkeypatch.setattr(FakeReceiver, "receive", receive)

    def both() -> bool:
        if broken[0] and len(bench.topics["orders"].bodies) == 2:
            broken[0] = False
            now[0] += 1_000.0
        return bool(bench.topics["persons"].bodies)

    with capture_logs() as logs:
        bench.run(until=both)
    told = [entry for entry in logs if entry["event"] == "session fails again and again"]
    assert [entry["session"] for entry in told] == ["bad"]
    ended = [entry for entry in logs if entry["event"] == "session works again"]
    assert [entry["session"] for entry in ended] == ["bad"]


def test_a_missing_queue_ends_the_slot_with_a_permanent_error() -> None:
    bench = Bench()
    del bench.broker.entities_by_name["ingest"]
    with pytest.raises(PermanentError, match="ingest"):
        bench.run(until=lambda: False)


def test_a_stop_gives_back_what_waits_for_its_destination() -> None:
    bench = Bench(destination_backoff=Backoff(first=30.0, longest=30.0), pace=Pace(turn=1_000.0, poll=0.005))
    bench.put("persons", 0, 1)
    bench.topics["persons"].faults.append(TransientError("away"))
    bench.run(until=lambda: bench.tally.retries["persons"] == 1)
    assert [(held.holder, held.count) for held in bench.queue.held] == [(None, 0), (None, 0)]
    assert bench.broker.open_receivers == []


def test_a_send_that_a_stop_ended_is_not_tried_until_the_process_is_killed() -> None:
    """Such an end is no fault of the topic's, so there is no pause in which the stop would be seen."""

    class Endless(deque[Exception]):
        def popleft(self) -> Exception:
            return Stopped("making the topic: the router stops")

    bench = Bench()
    bench.put("persons", 0, 1)
    bench.topics["persons"].faults = Endless([TransientError("one")])
    bench.run(until=lambda: bench.tally.retries["persons"] >= 1)
    assert [(held.holder, held.count) for held in bench.queue.held] == [(None, 0), (None, 0)]


def test_locks_are_renewed_while_a_destination_is_waited_for() -> None:
    bench = Bench(destination_backoff=Backoff(first=0.05, longest=0.05))
    bench.put("persons", 0)
    bench.topics["persons"].faults.extend(TransientError("away") for _ in range(3))
    renewed: list[int] = []

    def done() -> bool:
        if bench.queue.held:
            renewed.extend(each.renewals for each in list(bench.broker.open_receivers))
        return not bench.queue.held

    bench.run(until=done)
    assert max(renewed) >= 1


def test_more_sessions_than_slots_are_all_served() -> None:
    bench = Bench()
    for number in range(12):
        bench.put("persons", number, session=f"lane-{number}")
    bench.run()
    assert len(bench.topics["persons"].held) == 12
    assert len(set(bench.receivers.opened)) == 12


def test_an_empty_session_is_left_for_the_next_as_soon_as_waiting_costs_more_than_opening_that() -> None:
    bench = Bench(pace=Pace(batch=10, accept_wait=0.01, poll=60.0, idle=60.0))
    bench.put("persons", 0, session="one")
    bench.put("persons", 1, session="two")
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1"]
