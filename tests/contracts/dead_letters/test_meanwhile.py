"""Dead letters of an operation are those that its look has met: whatever dies, fails or was noted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

from common.bus.browsing import Shelf
from common.errors import PermanentError, TransientError
from desk.dead_letters import looking
from desk.dead_letters.engine import Engine, Watch
from desk.dead_letters.journal import Journal
from desk.dead_letters.replaying import Replayer
from ingester.operating.newer import ChangeRef, Newer
from tests.contracts.dead_letters.conftest import ADA, QUEUE, Namespace, Rows, change, numbers, order


def test_a_note_of_another_dead_letter_with_the_same_number_is_not_believed(namespace: Namespace) -> None:
    """The queue was deleted and made again: numbers begin again."""
    namespace.bury([change(n) for n in (1, 2, 3)])
    first = namespace.dead[0].sequence
    with Journal(namespace.folder / "replays", f"{namespace.bus.host} {Shelf(QUEUE, dead=True)}".lower()) as journal:
        journal.intend([(first, "of another queue")], time.time() - 86_400)
        journal.sent([first])
    result = namespace.engine().run(order(), "replay", ADA, Watch())
    assert (result.replayed, result.doubtful) == (3, 0)
    assert numbers(namespace.waiting) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["replay", "purge"])
def test_what_dies_after_the_look_stays_though_its_number_is_lower(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, kind: Literal["replay", "purge"]
) -> None:
    sender = namespace.bus.sender(QUEUE)
    sender.send([change(n, session="A") for n in range(1, 31)])
    sender.close()
    namespace.bury([change(n, session="B") for n in range(101, 161)])
    original = Engine._walk

    def walk(self: Engine, *arguments: Any, **options: Any) -> Any:
        with (
            ServiceBusClient.from_connection_string(namespace.emulator.connection_string) as client,
            client.get_queue_receiver(QUEUE, session_id="A", prefetch_count=100) as receiver,
        ):
            left = 30
            while left:
                for each in receiver.receive_messages(left, max_wait_time=10):
                    receiver.dead_letter_message(each, reason="Late")
                    left -= 1
        return original(self, *arguments, **options)

    monkeypatch.setattr(Engine, "_walk", walk)
    result = namespace.engine().run(order(), kind, ADA, Watch())
    assert (result.matched, result.replayed + result.purged, result.left_count, result.complete) == (60, 60, 0, True)
    assert sorted(numbers(namespace.dead)) == list(range(1, 31))
    assert len(namespace.waiting) == result.replayed


def test_those_that_are_left_count_once_however_often_a_batch_is_given_back(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace.bury([change(n, oversize=True) for n in range(1, 41)])
    namespace.bury([change(n) for n in range(41, 121)])
    original, failed = Replayer._send, list[int]()

    def send(self: Replayer, *arguments: Any) -> None:
        if len(failed) < 3:
            failed.append(1)
            raise TransientError("the queue cannot be reached")
        original(self, *arguments)

    monkeypatch.setattr(Replayer, "_send", send)
    result = namespace.engine().run(order(), "replay", ADA, Watch())
    assert (result.matched, result.replayed, result.left_count, result.complete) == (120, 80, 40, True)
    assert numbers(namespace.waiting) == list(range(41, 121))


def test_a_deferred_one_is_left_at_once_with_its_reason(namespace: Namespace) -> None:
    namespace.bury([change(n) for n in (1, 2, 3)])
    with (
        ServiceBusClient.from_connection_string(namespace.emulator.connection_string) as client,
        client.get_queue_receiver(QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
    ):
        [first] = receiver.receive_messages(1, max_wait_time=10)
        receiver.defer_message(first)
    began = time.monotonic()
    plan = namespace.engine().plan(order(), "replay", Watch())
    result = namespace.engine().run(order(), "replay", ADA, Watch())
    assert (plan.matched, plan.replayed, plan.left_count) == (3, 2, 1)
    assert (result.matched, result.replayed, result.left_count, result.complete) == (3, 2, 1, True)
    assert "deferred" in result.left[0].why
    assert time.monotonic() - began < 20


def test_a_plan_that_has_too_little_time_says_how_many_it_judged(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Rows):
        """The first answer comes at once, the second when no time is left."""

        rounds = 0

        def newer_sent(self, changes: Sequence[ChangeRef]) -> Mapping[ChangeRef, Newer]:
            self.rounds += 1
            if self.rounds > 1:
                time.sleep(max(0.0, until - time.monotonic()))
            return super().newer_sent(changes)

    monkeypatch.setattr(looking, "PAGE", 2)
    namespace.rows = Slow()
    namespace.bury([change(n) for n in range(1, 9)])
    until = time.monotonic() + 6
    plan = namespace.engine().plan(order(), "replay", Watch(), until=until)
    assert plan.matched == 8
    assert 0 < plan.replayed < 8
    assert not plan.complete
    assert f"the first {plan.replayed} were judged" in str(plan.warnings)


def test_a_replay_that_fails_midway_says_what_it_has_sent(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace.bury([change(1, oversize=True), *(change(n) for n in (2, 3))])
    original = Replayer._complete

    def complete(self: Replayer, *arguments: Any) -> None:
        original(self, *arguments)
        raise PermanentError("the queue is gone")

    monkeypatch.setattr(Replayer, "_complete", complete)
    watch = Watch()
    with pytest.raises(PermanentError):
        namespace.engine().run(order(), "replay", ADA, watch)
    found = watch.so_far()
    assert found is not None
    assert (found.replayed, found.left_count, found.complete) == (2, 1, False)
