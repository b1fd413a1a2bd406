"""Stores by themselves, on a clock of integers: order, locks, sessions, expiry; whatever happens, nothing is lost or doubled."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.message import Message, parse_message
from emulators.servicebus.store.competing import CompetingStore
from emulators.servicebus.store.consumer import StoreSettings
from emulators.servicebus.store.deadlines import NEVER
from emulators.servicebus.store.outcomes import Outcome
from emulators.servicebus.store.ready import ReadyQueue
from emulators.servicebus.store.sessions import SessionStore
from emulators.servicebus.store.shelf import Shelf

LOCK = 1000
SETTINGS = StoreSettings(lock_duration=LOCK, max_delivery_count=3, default_ttl=None, dead_letter_expired=False)
FORGIVING = StoreSettings(lock_duration=LOCK, max_delivery_count=None, default_ttl=None, dead_letter_expired=False)
DEAD = StoreSettings(lock_duration=LOCK, max_delivery_count=None, default_ttl=None, dead_letter_expired=False)
SHELF = Shelf(Forgetful(), "q")


@dataclass(eq=False)
class Receiver:
    credit: int = 1000
    receive_and_delete: bool = False
    wanted: str | None = None
    session_id: str | None = None
    got: list[tuple[bytes, Message]] = field(default_factory=list)
    errors: list[AmqpError] = field(default_factory=list)

    def deliver(self, message: Message, token: bytes, locked_until: int | None) -> None:
        assert self.credit > 0
        self.credit -= 1
        self.got.append((token, message))

    def detach(self, failure: AmqpError) -> None:
        self.errors.append(failure)

    def granted(self, session_id: str, locked_until: int) -> None:
        self.session_id = session_id

    def denied(self, failure: AmqpError) -> None:
        self.errors.append(failure)


def message(body: str = "x", session: str | None = None, ttl: int | None = None) -> Message:
    fresh = parse_message(b"\x00\x53\x75\xa0" + bytes((len(body),)) + body.encode())
    fresh.session_id = session
    fresh.ttl = ttl
    return fresh


def competing(settings_: StoreSettings = SETTINGS) -> tuple[CompetingStore, CompetingStore]:
    dead = CompetingStore(DEAD, SHELF, None)
    return CompetingStore(settings_, SHELF, dead), dead


def ordered(settings_: StoreSettings) -> SessionStore:
    return SessionStore(settings_, SHELF, CompetingStore(DEAD, SHELF, None), lambda moment: None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["append", "pop", "back"]), max_size=40))
def test_ready_messages_leave_in_order_of_sequence(steps: list[str]) -> None:
    queue, sequence = ReadyQueue(), 0
    inside: list[int] = []
    outside: list[Message] = []
    for step in steps:
        if step == "append":
            sequence += 1
            fresh = message()
            fresh.sequence = sequence
            queue.append(fresh)
            inside.append(sequence)
        elif step == "pop" and inside:
            popped = queue.pop()
            assert popped.sequence == min(inside)
            inside.remove(popped.sequence)
            outside.append(popped)
        elif step == "back" and outside:
            back = outside.pop(0)
            queue.put_back(back)
            inside.append(back.sequence)
    assert sorted(m.sequence for m in queue) == sorted(inside)


STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2)),
    st.tuples(st.just("credit"), st.integers(0, 1)),
    st.tuples(st.sampled_from(list(Outcome)), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(1, 2 * LOCK)),
    st.tuples(st.just("deferred"), st.integers(0, 3)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_message_is_lost_or_held_twice_whatever_receivers_do(steps: list[tuple[object, int]]) -> None:
    store, dead = competing()
    receivers = [Receiver(credit=0), Receiver(credit=0)]
    now, sent, completed = 0, 0, 0
    deferred: list[int] = []
    for step, number in steps:
        if step == "send":
            for _ in range(number):
                store.enqueue(message(), now)
                sent += 1
            store.pump(now)
        elif step == "credit":
            receivers[number].credit += 2
            store.feed(receivers[number], now)
        elif step == "wait":
            now += number
            store.sweep(now)
        elif step == "deferred" and deferred:
            # Completed, or locked at the moment: then it is not found, and that is no loss.
            with contextlib.suppress(AmqpError):
                (found,) = store.take_deferred([deferred[number % len(deferred)]] * 2, now, None, False)
                receivers[0].got.append((found.lock_token or b"", found))
        elif isinstance(step, Outcome):
            got = receivers[number % 2].got
            if not got:
                continue
            token, held = got.pop(0)
            alive = store.holds(token, now)
            try:
                store.settle(token, step, now)
            except AmqpError:
                assert not alive
                continue
            assert alive
            completed += step is Outcome.COMPLETE
            if step is Outcome.DEFER:
                deferred.append(held.sequence)
            store.pump(now)
        here = [m.sequence for m in store.messages()]
        assert len(here) == len(set(here)) == len(store)
        assert len(store) + len(dead) + completed == sent
        assert store.size == sum(m.size for m in store.messages())


def test_a_token_locks_once_and_is_dead_at_the_very_end_of_its_lock() -> None:
    store, _ = competing()
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(), 0)
    store.pump(0)
    token = receiver.got[0][0]
    assert store.holds(token, LOCK - 1)
    assert not store.holds(token, LOCK)
    with pytest.raises(AmqpError, match="lock-lost"):
        store.settle(token, Outcome.COMPLETE, LOCK)
    assert receiver.got[1][0] != token
    assert receiver.got[1][1].delivery_count == 1


def test_receivers_with_credit_take_turns() -> None:
    store, _ = competing()
    first, second = Receiver(credit=5), Receiver(credit=1)
    store.feed(first, 0)
    store.feed(second, 0)
    for _ in range(4):
        store.enqueue(message(), 0)
    store.pump(0)
    assert ([m.sequence for _, m in first.got], [m.sequence for _, m in second.got]) == ([1, 3, 4], [2])


@pytest.mark.parametrize("dead_letter_expired", [True, False])
def test_a_deferred_message_outlives_its_time_until_it_is_asked_for(dead_letter_expired: bool) -> None:
    """Row 20. message-deferral."""
    store, dead = competing(replace(SETTINGS, dead_letter_expired=dead_letter_expired))
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(ttl=10), 0)
    store.pump(0)
    store.settle(receiver.got[0][0], Outcome.DEFER, 1)
    (found,) = store.take_deferred([1], 2, None, False)
    store.sweep(10)
    store.settle(found.lock_token or b"", Outcome.ABANDON, 10)
    store.sweep(20 * LOCK)
    assert (len(store), len(dead)) == (1, 0)
    with pytest.raises(AmqpError, match="message-not-found"):
        store.take_deferred([1], 20 * LOCK, None, False)
    assert (len(store), len(dead)) == (0, int(dead_letter_expired))


def test_deferring_at_the_last_delivery_makes_a_dead_letter() -> None:
    """Row 18. Azure/azure-service-bus issue 375."""
    store, dead = competing(replace(SETTINGS, max_delivery_count=1))
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(), 0)
    store.pump(0)
    store.settle(receiver.got[0][0], Outcome.DEFER, 1)
    assert (len(store), len(dead)) == (0, 1)


def test_a_dead_letter_is_not_dead_lettered_and_its_deliveries_are_not_counted() -> None:
    """Row 15. service-bus-dead-letter-queues; azure-sdk-for-js batchReceiver.spec.ts."""
    store, dead = competing(replace(SETTINGS, max_delivery_count=1))
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(), 0)
    store.pump(0)
    store.settle(receiver.got[0][0], Outcome.DEAD_LETTER, 1)
    dead.feed(receiver, 1)
    with pytest.raises(AmqpError, match="not-allowed"):
        dead.settle(receiver.got[1][0], Outcome.DEAD_LETTER, 1)
    assert dead.holds(receiver.got[1][0], 1)
    dead.settle(receiver.got[1][0], Outcome.ABANDON, 1)
    dead.pump(1)
    dead.sweep(1 + LOCK)
    assert [got.delivery_count for _, got in receiver.got[1:]] == [0, 0, 0]


def test_a_message_that_expired_under_its_lock_is_dead_when_the_lock_ends() -> None:
    """Row 16: handled normally while locked, immediate effect then. message-expiration."""
    store, dead = competing(replace(SETTINGS, dead_letter_expired=True))
    receiver = Receiver(credit=2)
    store.feed(receiver, 0)
    for _ in range(2):
        store.enqueue(message(ttl=10), 0)
    store.pump(0)
    assert store.holds(receiver.got[0][0], 20)
    store.settle(receiver.got[0][0], Outcome.RELEASE, 20)
    store.pump(20)
    assert (len(store), len(dead)) == (1, 1)
    store.sweep(LOCK)
    assert (len(store), len(dead)) == (0, 2)


def test_nothing_expires_in_a_dead_letter_queue() -> None:
    """Row 15. service-bus-dead-letter-queues."""
    store, dead = competing()
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(ttl=10), 0)
    store.pump(0)
    store.settle(receiver.got[0][0], Outcome.DEAD_LETTER, 1)
    dead.sweep(100 * LOCK)
    assert len(dead) == 1


def test_the_store_caps_a_time_to_live() -> None:
    """Row 17. message-expiration."""
    store, _ = competing(replace(SETTINGS, default_ttl=50))
    for ttl in (None, 10, 100):
        store.enqueue(message(ttl=ttl), 0)
    assert sorted(m.expires_at or 0 for m in store.messages()) == [10, 50, 50]
    assert [m.ttl for m in store.messages()] == [50, 10, 50]


def test_expired_messages_leave_from_anywhere_and_the_others_keep_their_order() -> None:
    store, _ = competing()
    for number in range(200):
        store.enqueue(message(ttl=10 + number if number % 3 else None), 0)
    store.sweep(150)
    receiver = Receiver()
    store.feed(receiver, 150)
    store.sweep(150)
    left = [number + 1 for number in range(200) if number % 3 == 0 or 10 + number > 150]
    assert [m.sequence for _, m in receiver.got] == left
    assert len(store) == len(left)


def test_an_idle_store_waits_for_nothing() -> None:
    store, _ = competing()
    receiver = Receiver()
    store.feed(receiver, 0)
    store.enqueue(message(ttl=5 * LOCK), 0)
    store.pump(0)
    assert store.due == LOCK
    store.settle(receiver.got[0][0], Outcome.COMPLETE, 1)
    store.sweep(5 * LOCK)
    assert store.due == NEVER


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["abandon", "release", "close", "expire", "complete"]), st.integers(1, 3)),
        max_size=12,
    )
)
def test_a_session_keeps_its_order_through_every_change_of_owner(steps: list[tuple[str, int]]) -> None:
    store = ordered(FORGIVING)
    now = 0
    for _ in range(8):
        store.enqueue(message(session="S"), now)
    left = list(range(1, 9))
    for step, count in steps:
        owner = Receiver(credit=count, wanted="S")
        store.request(owner, now, 0)
        store.feed(owner, now)
        assert [m.sequence for _, m in owner.got] == left[:count]
        if step == "expire":
            now += LOCK
            store.sweep(now)
            assert [e.condition for e in owner.errors] == ["com.microsoft:session-lock-lost"]
            continue
        for token, held in list(owner.got) if step != "close" else []:
            outcome = {"abandon": Outcome.ABANDON, "release": Outcome.RELEASE}.get(step, Outcome.COMPLETE)
            store.settle(token, outcome, now)
            if outcome is Outcome.COMPLETE:
                left.remove(held.sequence)
        owner.credit = 0
        store.leave(owner, now)


def test_a_receiver_that_gave_up_waiting_is_given_no_session() -> None:
    store = ordered(SETTINGS)
    gone, next_in_line = Receiver(), Receiver()
    store.request(gone, 0, 100)
    store.request(next_in_line, 0, 100)
    store.leave(gone, 1)
    store.enqueue(message(session="S"), 2)
    store.pump(2)
    assert (gone.session_id, next_in_line.session_id) == (None, "S")


def test_a_session_that_is_free_is_granted_without_waiting() -> None:
    store = ordered(SETTINGS)
    store.enqueue(message(session="S"), 0)
    eager, late = Receiver(), Receiver()
    store.request(eager, 0, 0)
    store.request(late, 0, 0)
    assert (eager.session_id, late.session_id) == ("S", None)
    assert [e.condition for e in late.errors] == ["com.microsoft:timeout"]


def test_an_empty_session_is_forgotten_and_one_with_state_is_not() -> None:
    store = ordered(SETTINGS)
    for name in ("empty", "stateful", "deferred"):
        store.enqueue(message(session=name), 0)
        owner = Receiver(wanted=name)
        store.request(owner, 0, 0)
        store.feed(owner, 0)
        store.settle(owner.got[0][0], Outcome.DEFER if name == "deferred" else Outcome.COMPLETE, 0)
        if name == "stateful":
            store.set_session_state(name, b"x", 0)
        store.leave(owner, 0)
    assert store.session_names(None) == ["deferred", "stateful"]
    assert len(store._sessions) == 2


def test_sessions_are_offered_in_the_order_they_became_free() -> None:
    store = ordered(SETTINGS)
    for name in ("b", "a", "b", "c"):
        store.enqueue(message(session=name), 0)
    receivers = [Receiver(), Receiver(), Receiver()]
    for receiver in receivers:
        store.request(receiver, 0, 100)
    assert [receiver.session_id for receiver in receivers] == ["b", "a", "c"]
