"""A slot and a topic that takes its time: in parts, under locks that last, and after its turn only what is still its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from common.bus.ports import Delivery
from common.errors import TransientError
from common.message import Message, weight
from router.publishing.publisher import Publisher
from router.publishing.turns import Turns
from tests.fakes.bus import FakeReceiver, Held
from tests.unit.router.receiving.test_slot import Bench, bodies

_LONG = 30.0


def persons(bench: Bench) -> Publisher:
    found = bench.slot.publishers["persons"]
    assert isinstance(found, Publisher)
    return found


def ten(bench: Bench) -> None:
    bench.put("persons", *range(10))


def test_a_group_goes_in_chunks_and_each_is_settled_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    ten(bench)
    bench.topics["persons"].limit = 3 * weight(bench.queue.held[0].message)
    events: list[str] = []
    settle, renew = FakeReceiver.settle_many, FakeReceiver.renew

    def settled(self: FakeReceiver, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        events.append(f"settled {len(deliveries)}, sent {len(bench.topics['persons'].held)}")
        return settle(self, deliveries)

    def renewed(self: FakeReceiver, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            events.append(f"renewed {len(deliveries)}")
        renew(self, deliveries)

    monkeypatch.setattr(FakeReceiver, "settle_many", settled)
    monkeypatch.setattr(FakeReceiver, "renew", renewed)
    persons(bench).open()
    bench.run()
    assert events == [
        *("renewed 10", "settled 3, sent 3", "renewed 7", "settled 3, sent 6"),
        *("renewed 4", "settled 3, sent 9", "renewed 1", "settled 1, sent 10"),
    ]
    assert bodies(bench.topics["persons"]) == [f"persons-{number}" for number in range(10)]


class Shared:
    """A bench whose topic somebody else is sending to until `finish`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = Bench()
        self.renewing = threading.Event()
        self._done, self._has_it = threading.Event(), threading.Event()
        self.renewals = 0
        self.on_renewal: Callable[[FakeReceiver], None] = lambda receiver: None
        monkeypatch.setitem(Turns.mine.__wrapped__.__kwdefaults__, "every", 0.001)  # type: ignore[attr-defined]
        renew = FakeReceiver.renew

        def renewed(receiver: FakeReceiver, deliveries: Sequence[Delivery]) -> None:
            renew(receiver, deliveries)
            if deliveries:
                self.renewals += 1
                self.on_renewal(receiver)
                if self.renewals >= 5:
                    self.renewing.set()

        monkeypatch.setattr(FakeReceiver, "renew", renewed)
        self._other = threading.Thread(target=self._send, daemon=True)
        self._other.start()
        assert self._has_it.wait(_LONG)

    def _send(self) -> None:
        with persons(self.bench)._turns.mine():
            self._has_it.set()
            self._done.wait(_LONG)

    def finish(self) -> None:
        self._done.set()
        self._other.join(_LONG)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Shared:
    return Shared(monkeypatch)


def test_a_slot_that_waits_for_a_shared_sender_keeps_renewing(shared: Shared) -> None:
    ten(shared.bench)

    def until() -> bool:
        if shared.renewing.is_set():
            shared.finish()
        return not shared.bench.queue.held

    shared.bench.run(until)
    assert len(shared.bench.topics["persons"].sends) == 1


def test_a_topic_that_failed_while_a_slot_waited_is_left_alone(shared: Shared) -> None:
    ten(shared.bench)
    publisher = persons(shared.bench)

    def until() -> bool:
        if shared.renewing.is_set() and publisher.pause() == 0:
            publisher._not_before = publisher._clock() + 3600
            shared.finish()
        return publisher.pause() > 0 and not shared._other.is_alive()

    shared.bench.run(until)
    assert shared.bench.topics["persons"].sends == []
    assert [held.holder for held in shared.bench.queue.held] == [None] * 10


@pytest.mark.parametrize("own", [True, False])
def test_nothing_is_sent_under_a_lock_that_may_be_over_until_the_service_renews_it(shared: Shared, own: bool) -> None:
    """As in a process that was frozen while it waited: it wakes with a lock that somebody else may have had since."""
    ten(shared.bench)

    def fall_asleep(receiver: FakeReceiver) -> None:
        if shared.renewals == 5:
            receiver.lock_lasts = -100.0
        if shared.renewals > 5:  # it asks when it has woken
            assert not shared.bench.topics["persons"].sends
            receiver.lock_lasts = 60.0
            if not own:
                shared.bench.stop.set()
                raise TransientError("the session lock is lost")

    shared.on_renewal = fall_asleep

    def until() -> bool:
        if shared.renewing.is_set():
            shared.finish()
        return shared.bench.stop.is_set() or not shared.bench.queue.held

    shared.bench.run(until)
    assert len(shared.bench.topics["persons"].sends) == (1 if own else 0)


def test_what_waits_for_a_shared_sender_is_given_back_at_a_stop(shared: Shared) -> None:
    ten(shared.bench)
    shared.bench.run(shared.renewing.is_set)
    shared.finish()
    assert shared.bench.topics["persons"].sends == []
    assert [(held.holder, held.count) for held in shared.bench.queue.held] == [(None, 0)] * 10


def test_a_message_weighs_what_it_takes_on_the_wire() -> None:
    held = Held(Message(b"x" * 1_000, "id", "session", application_properties={"destination": "orders", "n": 1}))
    assert 1_000 < weight(held.message) < 1_250
