"""Sessions parked while their destination is away: the slot goes on, locks are kept, and order holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from common.bus.ports import Delivery
from common.errors import TransientError
from common.message import Message
from common.retry import Backoff
from router.receiving.pace import Pace
from router.receiving.parking import CLOSING_HANDS, HANDS, Parked, Parking
from router.routes import Group
from tests.fakes.bus import FakeBroker, FakeDelivery, FakeReceiver, Held
from tests.unit.router.receiving.test_slot import Bench, bodies

PARK_AT_ONCE = Pace(batch=10, accept_wait=0.01, poll=0.005, idle=0.01, turn=60.0, linger=0.0)


def receiver(session: str = "persons") -> FakeReceiver:
    broker = FakeBroker()
    queue = broker.create("ingest", sessions=True)
    queue.held.append(Held(Message(b"", "1", session)))
    opened = broker.receivers("ingest", sessions=True).open(max_wait=0)
    assert opened is not None
    opened.receive(max_count=1, max_wait=0)
    return opened


def until(condition: Callable[[], bool]) -> None:
    for _ in range(5_000):
        if condition():
            return
        threading.Event().wait(0.002)
    raise AssertionError("it did not come to that")


def test_one_slot_serves_others_while_a_destination_is_away() -> None:
    bench = Bench(pace=PARK_AT_ONCE, destination_backoff=Backoff(first=3600.0, longest=3600.0))
    bench.put("persons", *range(3))
    bench.put("orders", *range(25))
    bench.topics["persons"].faults.append(TransientError("throttled"))
    bench.run(until=lambda: len(bench.topics["orders"].held) == 25)
    assert bodies(bench.topics["orders"]) == [f"orders-{number}" for number in range(25)]
    assert [held.message.message_id for held in bench.queue.held] == ["persons-0", "persons-1", "persons-2"]
    assert bench.receivers.opened.count("persons") == 1
    assert [(held.holder, held.count) for held in bench.queue.held] == [(None, 0)] * 3


def test_a_parked_session_goes_on_where_it_stood_when_its_destination_is_back() -> None:
    bench = Bench(pace=PARK_AT_ONCE, destination_backoff=Backoff(first=0.02, longest=0.02))
    bench.put("persons", *range(25))
    bench.topics["persons"].faults.extend(TransientError("throttled") for _ in range(3))
    bench.run()
    assert bodies(bench.topics["persons"]) == [f"persons-{number}" for number in range(25)]
    assert bench.receivers.opened == ["persons"]


def test_a_parked_session_goes_on_at_once_although_its_slot_waits_for_another() -> None:
    """For a minute, if nobody told it."""
    pace = replace(PARK_AT_ONCE, accept_wait=60.0, longest_wait=60.0)
    bench = Bench(pace=pace, destination_backoff=Backoff(first=0.02, longest=0.02))
    bench.put("persons", 0, 1)
    bench.topics["persons"].faults.append(TransientError("throttled"))
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1"]


def test_where_there_is_no_room_a_slot_waits_with_its_session() -> None:
    bench = Bench(pace=PARK_AT_ONCE, destination_backoff=Backoff(first=0.02, longest=0.02))
    bench.slot = replace(bench.slot, parking=Parking(bench.stop, room=0))
    bench.put("persons", 0, 1)
    bench.topics["persons"].faults.append(TransientError("throttled"))
    bench.run()
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1"]


def test_a_session_whose_lock_is_lost_while_it_is_parked_is_let_go() -> None:
    parking = Parking(threading.Event(), room=2)
    waiting, stopped = receiver("persons"), receiver("orders")
    assert parking.park(Parked(waiting, (), ready=lambda: True))
    assert parking.hold(stopped)
    parking.look()
    until(lambda: (waiting.renewals, stopped.renewals) == (1, 1) and not parking._renewing)
    waiting.lock_lost = stopped.lock_lost = True
    parking.look()
    until(lambda: parking.stopped == 0 and not parking._renewing)
    assert parking.take_ready() is None


def test_locks_are_renewed_again_once_a_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    parking, parked = Parking(threading.Event(), room=2), receiver()
    assert parking.park(Parked(parked, (), ready=lambda: False))
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            parking.look()
    parking.look()
    until(lambda: parked.renewals == 1)


def test_connections_that_hang_cost_no_other_session_its_lock() -> None:
    """As many as there are hands but one: the lock of the last is renewed all the same, again and again."""
    parking, hang = Parking(threading.Event(), room=HANDS), threading.Event()

    class Hanging(FakeReceiver):
        def renew(self, deliveries: Sequence[Delivery]) -> None:
            hang.wait(30)
            super().renew(deliveries)

    broker = FakeBroker()
    entity = broker.create("ingest", sessions=True)
    hanging = [Hanging(broker, entity, f"s{number}") for number in range(HANDS - 1)]
    well = receiver("persons")
    for each in (*hanging, well):
        assert parking.park(Parked(each, (), ready=lambda: False))
    for count in range(1, 4):
        parking.look()
        until(lambda: well.renewals == count and parking._renewing.isdisjoint(parking._waiting))  # noqa: B023
    assert not parking.park(Parked(receiver("more"), (), ready=lambda: False))  # those that are renewed have their room
    hang.set()
    until(lambda: not parking._renewing)
    assert [each.renewals for each in hanging] == [1] * len(hanging)


def test_a_session_whose_messages_are_too_much_is_closed_and_parked_unread_when_it_comes_again() -> None:
    bench = Bench(pace=PARK_AT_ONCE, destination_backoff=Backoff(first=3600.0, longest=3600.0))
    bench.parking = Parking(bench.stop, room=2, memory=100)
    bench.slot = replace(bench.slot, parking=bench.parking)
    bench.put("persons", *range(3))
    bench.put("orders", *range(25))
    bench.topics["persons"].faults.append(TransientError("throttled"))
    bench.run(until=lambda: len(bench.topics["orders"].held) == 25 and bench.receivers.opened.count("persons") == 2)
    assert bench.receivers.opened.count("persons") == 2
    assert [(held.holder, held.count) for held in bench.queue.held] == [(None, 0)] * 3


def test_a_session_that_was_given_back_goes_on_in_order_when_its_destination_is_back() -> None:
    bench = Bench(pace=PARK_AT_ONCE, destination_backoff=Backoff(first=0.02, longest=0.02))
    bench.parking = Parking(bench.stop, room=2, memory=100)
    bench.slot = replace(bench.slot, parking=bench.parking)
    bench.put("persons", *range(25))
    bench.topics["persons"].faults.extend(TransientError("throttled") for _ in range(3))
    bench.run()
    assert bodies(bench.topics["persons"]) == [f"persons-{number}" for number in range(25)]


def test_what_is_parked_stays_within_its_memory_and_what_is_taken_out_makes_room() -> None:
    away = [True]
    parking = Parking(threading.Event(), room=9, memory=3_000, ahead=lambda: 500.0)
    held = Group("persons", (FakeDelivery(Held(Message(b"x" * 1_000, "1", "persons"))),))

    def ready() -> bool:
        return not away[0]

    first, second, unread = (Parked(receiver(), groups, ready) for groups in ((held,), (held,), ()))
    assert parking.park(first)
    assert not parking.park(second)
    assert parking.park(unread)
    away[0] = False
    assert parking.take_ready() is first
    assert parking.park(second)


def test_the_end_gives_everything_back_and_takes_nothing_more() -> None:
    stop = threading.Event()
    parking = Parking(stop, room=2)
    waiting, late = receiver("persons"), receiver("orders")
    parking.park(Parked(waiting, (), ready=lambda: False))
    stop.set()
    parking.keep()
    assert not parking.park(Parked(late, (), ready=lambda: False))
    assert not parking.hold(late)
    assert waiting._broker.open_receivers == []


def test_stopped_sessions_are_given_back_once_the_configuration_names_other_topics() -> None:
    names = {"persons"}
    parking = Parking(threading.Event(), room=2, news=lambda: frozenset(names))
    stopped = receiver("orders")
    assert parking.hold(stopped)
    parking.look()
    until(lambda: parking.held().stopped == 1 and not parking._renewing)
    names.add("orders")
    parking.look()
    until(lambda: parking.held().stopped == 0 and not parking._renewing)
    until(lambda: stopped._broker.open_receivers == [])
    assert parking.hold(receiver("orders"))
    parking.look()
    until(lambda: parking.held().stopped == 1 and not parking._renewing)


def test_where_too_many_sessions_are_stopped_a_slot_keeps_the_next_one_and_its_turn() -> None:
    stop, turned = threading.Event(), threading.Event()
    parking = Parking(stop, room=1, turn=turned.set)
    assert parking.hold(receiver("persons"))
    further, answers = receiver("orders"), list[bool]()
    slot = threading.Thread(target=lambda: answers.append(parking.hold(further)))
    slot.start()
    assert turned.wait(10)
    until(lambda: parking.held().stopped == 1 and not parking._renewing)
    stop.set()
    slot.join(10)
    assert answers == [False]
    assert further.renewals > 0


class Closing(FakeReceiver):
    """One whose close does what it is told to, instead of speaking to a broker."""

    def __init__(self, work: Callable[[], object]) -> None:
        broker = FakeBroker()
        super().__init__(broker, broker.create("ingest", sessions=True), "persons")
        self._work = work

    def close(self) -> None:
        self._work()


def full(closing: Callable[[], object], sessions: int) -> Parking:
    made = Parking(threading.Event(), room=sessions)
    for number in range(sessions):
        held = Closing(closing)
        assert made.hold(held) if number % 2 else made.park(Parked(held, (), ready=lambda: False))
    return made


def test_the_end_gives_many_sessions_back_side_by_side() -> None:
    together = threading.Barrier(CLOSING_HANDS)
    with capture_logs() as logs:
        full(lambda: together.wait(60), 4 * CLOSING_HANDS).close()
    assert logs == []


def test_the_end_does_not_wait_for_sessions_that_cannot_be_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.receiving.parking.CLOSED_WITHIN", 0.1)
    over = threading.Event()
    with capture_logs() as logs:
        full(lambda: over.wait(60), 1_000).close()
    over.set()
    assert [(line["event"], line["sessions"]) for line in logs] == [("parked sessions not given back in time", 1_000)]


def test_a_defect_in_a_look_does_not_end_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.receiving.parking.LOOK", 0.0)
    stop, looks = threading.Event(), list[None]()

    def news() -> object:
        looks.append(None)
        if len(looks) > 3:
            stop.set()
        if len(looks) > 1:
            raise ValueError("a defect")
        return None

    held = receiver("persons")
    made = Parking(stop, room=1, news=news)
    made.park(Parked(held, (), ready=lambda: False))
    with capture_logs() as logs:
        made.keep()
    assert len(looks) == 4
    assert {(line["event"], line["of"]) for line in logs} == {("periodic check failed", "parked sessions")}
    assert held._broker.open_receivers == []


def test_slots_that_wait_with_stopped_sessions_are_one_line_and_its_end_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.receiving.parking.LOOK", 0.01)
    names, turned = {"persons"}, threading.Semaphore(0)
    made = Parking(threading.Event(), room=1, news=lambda: frozenset(names), turn=turned.release)
    with capture_logs() as logs:
        assert made.hold(receiver("persons"))
        slots = [threading.Thread(target=made.hold, args=[receiver(each)]) for each in ("orders", "invoices")]
        for slot in slots:
            slot.start()
        until(lambda: made._queueing == 2)
        for _ in range(4):
            assert turned.acquire(timeout=10)
        for news, left in (("orders", 1), ("invoices", 0)):
            names.add(news)
            made.look()
            until(lambda left=left: sum(slot.is_alive() for slot in slots) == left)  # type: ignore[misc]
    waits = "too many sessions stopped at poisoned messages; slots wait with further ones"
    told = [line["event"] for line in logs if not line["event"].startswith("the configuration")]
    assert told == [waits, "no slot waits with a stopped session any more"]
