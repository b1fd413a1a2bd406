"""What the router tells of itself: batches counted at the port, workers as one router, and the endpoint over real HTTP."""

from __future__ import annotations

import http.client
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from common.bus.ports import Delivery, Receiver
from common.errors import LockLost, TransientError, Unanswered
from common.observability.health_settings import HealthSettings
from common.observability.metrics import Distribution, Metric
from router.counting import ObservedReceivers
from router.health import SILENT_SECONDS, TELL_SECONDS, Reports, endpoint
from router.metrics import (
    BEHIND,
    BUSY,
    DEAD_LETTERED,
    FILTERED,
    MEMORY,
    METRICS,
    PARKED,
    READY,
    REPLACED,
    ROUTED,
    SLOTS,
    STOPPED,
    THROTTLED,
    UP,
    WAITING,
    samples,
)
from router.receiving.interruption import TRIED_AGAIN
from router.receiving.parking import Parked, Parking
from router.routes import REASONS
from router.spots import spot
from router.tally import (
    AWAY_SECONDS,
    BLINK,
    HUNG_SECONDS,
    START_STUCK_SECONDS,
    STARTING,
    STUCK_HINT,
    STUCK_SECONDS,
    Figures,
    Held,
    Tally,
)
from tests.worlds.ports import free_port


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float, look: Callable[[], Figures]) -> None:
        """In a process that runs, and so looks at its figures every few seconds."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + TELL_SECONDS)
            look()


@dataclass
class Queue:
    """Receivers, and the one receiver of them. `comes`: how many deliveries the next receive has."""

    comes: list[int] = field(default_factory=list)
    fail: Exception | None = None
    calls: list[str] = field(default_factory=list)
    session_id: str | None = "dbo.Persons"

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Receiver | None:
        if self.fail is not None:
            raise self.fail
        return self

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        return [_DELIVERY] * (self.comes.pop(0) if self.comes else 0)

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        return deliveries[:1]

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        self.calls.append(reason)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        self.calls.append("release")

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        self.calls.append("renew")

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return 60.0

    def state(self) -> bytes | None:
        return None

    def set_state(self, state: bytes | None) -> None: ...

    def close(self) -> None:
        self.calls.append("close")


class _Delivery:
    message = None
    delivery_count = 0
    fault = None
    position = (1, 0)


_DELIVERY: Delivery = _Delivery()  # type: ignore[assignment]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tally(clock: Clock) -> Tally:
    return Tally(clock=clock)


def opened(queue: Queue, tally: Tally) -> Receiver:
    found = ObservedReceivers(queue, tally).open(max_wait=1)
    assert found is not None
    return found


def bounds(found: Distribution) -> list[float]:
    """Under which bound each value fell."""
    return [bound for bound, count in zip(found.bounds, found.counts, strict=False) for _ in range(count)]


def test_batches_are_measured_from_receiving_to_settling(clock: Clock, tally: Tally) -> None:
    receiver = opened(Queue([3, 150]), tally)
    for seconds in (0.2, 0.7):
        batch = receiver.receive(max_count=200, max_wait=1)
        clock.now += seconds
        assert receiver.settle_many(batch) == batch[:1]
    assert receiver.receive(max_count=200, max_wait=1) == []
    figures = tally.figures()
    assert (bounds(figures.batches), bounds(figures.seconds)) == ([5.0, 200.0], [0.25, 1.0])


def test_everything_else_goes_through_as_it_is(tally: Tally) -> None:
    queue = Queue()
    receiver = opened(queue, tally)
    assert receiver.session_id == "dbo.Persons"
    receiver.dead_letter(_DELIVERY, reason="Oversize", description="")
    receiver.release([])
    receiver.renew([])
    receiver.close()
    assert queue.calls == ["Oversize", "release", "renew", "close"]


def test_a_slot_that_waits_for_a_destination_has_its_turn(clock: Clock, tally: Tally) -> None:
    receiver = opened(Queue(), tally)
    clock.passes(HUNG_SECONDS + 1, tally.figures)
    receiver.renew([_DELIVERY])
    assert tally.figures().alive() is None


@pytest.mark.parametrize("stopped", [True, False])
def test_sessions_that_are_kept_while_all_slots_hang_do_not_hide_it(clock: Clock, tally: Tally, stopped: bool) -> None:
    queue, parking = Queue(), Parking(threading.Event(), room=1)
    receiver = opened(queue, tally)
    assert parking.hold(receiver) if stopped else parking.park(Parked(receiver, (), ready=lambda: False))
    for _ in range(3):
        clock.passes(HUNG_SECONDS / 2, tally.figures)
        parking.look()
        while parking._renewing:
            threading.Event().wait(0.002)
    assert queue.calls == ["renew"] * 3
    assert tally.figures().alive() == "MainThread has not turned for 450 s"


def test_a_router_is_ready_when_it_receives_and_not_while_the_queue_is_away(tally: Tally) -> None:
    assert tally.figures().ready() == f"starting: {STARTING}"
    queue = Queue()
    opened(queue, tally)
    assert tally.figures().ready() is None
    queue.fail = TransientError("no route to host")
    with pytest.raises(TransientError):
        opened(queue, tally)
    assert tally.figures().ready() == f"the ingest queue cannot be received from: no route to host ({TRIED_AGAIN})"
    queue.fail = TransientError("no route to host", hint="open port 5671")
    with pytest.raises(TransientError):
        opened(queue, tally)
    assert tally.figures().ready() == "the ingest queue cannot be received from: no route to host (open port 5671)"
    queue.fail = None
    opened(queue, tally)
    assert tally.figures().ready() is None


def test_a_topic_that_takes_nothing_is_named_until_it_does_or_nobody_sends_to_it(clock: Clock, tally: Tally) -> None:
    tally.turned()
    tally.topic_failed("orders", "it was deleted")
    assert tally.figures().ready() is None
    clock.now += AWAY_SECONDS
    tally.topic_failed("orders", "it was deleted")
    tally.topic_failed("persons", "it is full")
    assert tally.figures().ready() == "topic orders is unavailable: it was deleted"
    clock.now += AWAY_SECONDS
    tally.topics = frozenset({"persons"})
    expected = ["topic persons is unavailable: it is full", "topic orders is unavailable: it was deleted"]
    assert (tally.figures().ready() or "").splitlines() == expected, "those of tables first"
    tally.topic_works("orders")
    assert tally.figures().ready() == "topic persons is unavailable: it is full"
    clock.now += 600
    tally.turned()
    assert tally.figures().ready() is None
    tally.topic_failed("persons", "it is full")
    assert tally.figures().ready() is None


def test_slots_that_have_no_turn_for_long_are_hung(clock: Clock, tally: Tally) -> None:
    clock.passes(2 * HUNG_SECONDS, tally.figures)
    assert tally.figures().alive() is None  # it has not begun yet: entities are seen to with limits of their own
    opened(Queue(), tally)
    clock.passes(STUCK_SECONDS, tally.figures)
    assert tally.figures().ready() is None
    clock.now += 1
    assert tally.figures().ready() == f"MainThread has not turned for 241 s; {STUCK_HINT}"
    assert tally.figures().alive() is None
    clock.passes(HUNG_SECONDS - STUCK_SECONDS, tally.figures)
    assert tally.figures().alive() == "MainThread has not turned for 301 s"


def in_slot(name: str, work: Callable[[], object]) -> None:
    slot = threading.Thread(target=work, name=name)
    slot.start()
    slot.join()


def test_one_slot_that_stands_still_is_named_whatever_the_others_do(clock: Clock, tally: Tally) -> None:
    in_slot("slot-3", tally.turned)
    for _ in range(3):
        clock.passes(STUCK_SECONDS / 2, tally.figures)
        in_slot("slot-1", tally.turned)
        in_slot("slot-2", tally.turn)
    still = tally.figures().still
    assert (still.stuck, str(still)) == (True, "slot-3 has not turned for 360 s")
    assert tally.figures().ready() == f"slot-3 has not turned for 360 s; {STUCK_HINT}"


def test_a_slot_turns_when_it_settles_and_with_every_round_of_its_loop(clock: Clock, tally: Tally) -> None:
    receiver = opened(Queue([1]), tally)
    batch = receiver.receive(max_count=1, max_wait=1)
    clock.now += 5
    receiver.settle_many(batch)
    assert tally.figures().still.seconds == 0
    clock.now += 5
    tally.turn()
    assert tally.figures().still.seconds == 0


def test_a_start_that_opens_no_link_any_more_is_stuck(clock: Clock, tally: Tally) -> None:
    tally.opening()
    for _ in range(3):
        clock.passes(START_STUCK_SECONDS, tally.figures)
        assert not tally.figures().still.stuck
        tally.opening()
    clock.passes(START_STUCK_SECONDS + 1, tally.figures)
    assert tally.figures().still.stuck
    assert tally.figures().ready() == f"starting: the start has opened no link for 121 s; {STUCK_HINT}"
    opened(Queue(), tally)
    assert tally.figures().ready() is None


FROZEN = 3600.0
"""Seconds for which the whole machine stood still."""


def test_slots_of_a_process_that_was_frozen_do_not_stand_still(clock: Clock, tally: Tally) -> None:
    for slot in ("slot-1", "slot-2"):
        in_slot(slot, tally.turned)
    clock.passes(20, tally.figures)
    clock.now += FROZEN
    assert (tally.figures().still.stuck, tally.figures().alive(), tally.figures().ready()) == (False, None, None)
    clock.passes(20, tally.figures)
    assert tally.figures().still.seconds <= 40 + BLINK


def test_a_slot_that_stands_still_is_found_although_the_machine_is_frozen_now_and_then(
    clock: Clock, tally: Tally
) -> None:
    in_slot("slot-1", tally.turned)
    for _ in range(4):
        clock.passes(STUCK_SECONDS / 4, tally.figures)
        clock.now += FROZEN
    assert tally.figures().still.stuck


def test_a_start_of_a_process_that_was_frozen_is_not_stuck(clock: Clock, tally: Tally) -> None:
    tally.opening()
    clock.now += FROZEN
    assert not tally.figures().still.stuck
    clock.passes(START_STUCK_SECONDS, tally.figures)
    assert tally.figures().still.stuck


def test_workers_that_were_frozen_with_their_parent_are_not_silent(clock: Clock) -> None:
    reports = Reports(clock)
    reports.told(1, worked(clock, 1))
    clock.passes(TELL_SECONDS, reports.figures)
    clock.now += FROZEN
    assert (reports.figures().alive(), reports.figures().ready()) == (None, None)
    clock.passes(SILENT_SECONDS, reports.figures)
    assert "worker 1 has reported nothing" in (reports.figures().ready() or "")


def worked(clock: Clock, routed: int, **more: int) -> Figures:
    made = Tally(clock=clock)
    made.turned()
    made.count_routed("server-database-dbo-persons", routed, lost=more.get("lost", 0))
    made.count_batch(routed)
    return made.figures()


def test_workers_add_up_to_one_router(clock: Clock) -> None:
    reports = Reports(clock)
    assert reports.figures().ready() == f"starting: {STARTING}"
    reports.told(1, worked(clock, 5))
    reports.told(2, worked(clock, 7, lost=2))
    reports.told(1, worked(clock, 6))
    figures = reports.figures()
    assert (figures.routed.total(), figures.lost_locks, figures.ready()) == (11, 2, None)
    assert sum(figures.batches.counts) == 2


def test_a_counter_does_not_fall_when_a_worker_dies(clock: Clock) -> None:
    reports = Reports(clock)
    reports.told(1, worked(clock, 5))
    reports.died(1)
    assert (reports.figures().routed.total(), reports.figures().receiving) == (5, False)
    reports.died(1)
    reports.told(1, worked(clock, 1))
    assert reports.figures().routed.total() == 6


def test_a_worker_that_tells_nothing_any_more_is_hung_whoever_else_is_well(clock: Clock) -> None:
    reports = Reports(clock)
    reports.told(1, worked(clock, 1))
    clock.now += TELL_SECONDS
    assert (reports.figures().ready(), reports.figures().still.stuck) == (None, False)
    clock.passes(SILENT_SECONDS, reports.figures)
    reports.told(2, worked(clock, 1))
    assert reports.figures().ready() == f"worker 1 has reported nothing for 20 s; {STUCK_HINT}"
    clock.passes(HUNG_SECONDS, reports.figures)
    reports.told(2, worked(clock, 1))
    assert reports.figures().alive() == "worker 1 has reported nothing for 320 s"
    reports.died(1)
    assert (reports.figures().alive(), reports.figures().ready()) == (None, None)


def test_a_slot_that_stands_still_is_named_with_its_worker(clock: Clock) -> None:
    reports, made = Reports(clock), Tally(clock=clock)
    in_slot("slot-5", made.turned)
    clock.passes(STUCK_SECONDS + 1, made.figures)
    reports.told(1, worked(clock, 1))
    reports.told(2, made.figures())
    assert reports.figures().ready() == f"worker 2: slot-5 has not turned for 241 s; {STUCK_HINT}"


def test_figures_cross_a_process_boundary(clock: Clock) -> None:
    figures = worked(clock, 3)
    assert pickle.loads(pickle.dumps(figures)) == figures


def test_every_metric_that_is_told_is_declared(tally: Tally) -> None:
    tally.count_routed("t", 1, lost=0)
    tally.count_dead_letter("Oversize")
    tally.count_retry("t")
    tally.topics = frozenset({"t"})
    tally.filled({"queue q": 0.5}, {"active": 7, "dead_letter": 1})
    tally.behind = lambda: {"stream": 1}
    assert {s.metric.name for s in samples(tally.figures())} == {m.name for m in METRICS}


def test_sessions_that_are_lost_are_counted_by_what_was_lost(tally: Tally) -> None:
    @dataclass
    class Losing(Queue):
        lost: Exception | None = None

        def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
            raise Unanswered("the link closed before the settlement was answered")

        def renew(self, deliveries: Sequence[Delivery]) -> None:
            raise LockLost("the session's lock is gone")

    receiver = opened(Losing(), tally)
    with pytest.raises(Unanswered):
        receiver.settle_many([_DELIVERY])
    for _ in range(2):
        with pytest.raises(LockLost):
            receiver.renew([])
    assert tally.figures().sessions_lost == {"unanswered": 1, "lock_lost": 2}


def told(figures: Figures, metric: Metric) -> dict[tuple[str, ...], float | Distribution]:
    return {sample.labels: sample.value for sample in samples(figures) if sample.metric is metric}


def test_each_destination_is_up_or_not(clock: Clock, tally: Tally) -> None:
    tally.topics = frozenset({"persons", "orders"})
    tally.topic_failed("orders", "it is full")
    clock.now += AWAY_SECONDS
    assert told(tally.figures(), UP) == {("default", "orders"): 0, ("default", "persons"): 1}
    tally.topic_works("orders")
    assert told(tally.figures(), UP) == {("default", "orders"): 1, ("default", "persons"): 1}


def test_a_topic_of_another_output_has_its_name_in_metrics_and_health(clock: Clock, tally: Tally) -> None:
    tally.turned()
    tally.topics = frozenset({spot("persons"), spot("persons", "stream")})
    tally.count_routed(spot("persons", "stream"), 2, lost=0)
    for name in (spot("persons", "stream"), spot("", "archive")):
        tally.topic_failed(name, "it is full")
        clock.now += AWAY_SECONDS
        tally.topic_failed(name, "it is full")
    figures = tally.figures()
    assert told(figures, UP) == {("default", "persons"): 1, ("stream", "persons"): 0, ("archive", ""): 0}
    assert told(figures, ROUTED) == {("stream", "persons"): 2}
    assert (figures.ready() or "").splitlines() == [
        "topic persons of output stream is unavailable: it is full",
        "output archive is unavailable: it is full",
    ]


def test_outputs_that_are_behind_are_counted_over_all_workers(tally: Tally) -> None:
    tally.behind = lambda: {"stream": 2}
    tally.count_filtered(3)
    both = tally.figures() + tally.figures()
    assert told(both, BEHIND) == {("stream",): 4}
    assert told(both, FILTERED) == {(): 6}


def test_a_reason_for_dead_letters_is_counted_from_zero(tally: Tally) -> None:
    """A counter that begins at 1 has not increased for Prometheus."""
    assert told(tally.figures(), DEAD_LETTERED) == {(reason,): 0 for reason in REASONS}


def test_readiness_is_a_metric_too(tally: Tally) -> None:
    tally.turned()
    assert told(tally.figures(), READY) == {(): 1}
    tally.turned(away="the queue is gone")
    assert told(tally.figures(), READY) == {(): 0}


def test_slots_refusals_and_waiting_messages_are_those_of_all_workers(clock: Clock) -> None:
    reports = Reports(clock)
    for worker in (1, 2):
        tally = Tally(worker=worker, clock=clock, slots=4)
        tally.count_throttled()
        with tally.working():
            reports.told(worker, tally.figures())
    reports.start.filled({}, {"active": 7, "dead_letter": 1})
    figures = reports.figures()
    assert told(figures, WAITING) == {("active",): 7, ("dead_letter",): 1}
    assert [told(figures, metric)[()] for metric in (SLOTS, BUSY, THROTTLED)] == [8, 2, 2]
    reports.died(1)
    assert [told(reports.figures(), metric)[()] for metric in (SLOTS, BUSY, THROTTLED)] == [4, 1, 2]


def test_sessions_that_are_held_are_told_and_those_at_poison_make_it_unready(tally: Tally) -> None:
    parking, queue = Parking(threading.Event(), room=1), Queue()
    tally.held = parking.held
    tally.turned()
    parking.park(Parked(queue, (), ready=lambda: False))
    assert (told(tally.figures(), PARKED), told(tally.figures(), STOPPED)) == ({(): 1}, {(): 0})
    assert tally.figures().ready() is None
    parking.hold(Queue())
    assert told(tally.figures(), STOPPED) == {(): 1}
    assert "1 sessions have stopped at a poison message" in (tally.figures().ready() or "")


def test_a_session_that_fails_again_and_again_makes_it_unready(tally: Tally) -> None:
    tally.turned()
    tally.held = lambda: Held(failing=2)
    assert (tally.figures().ready() or "").startswith("2 sessions fail again and again: `session fails")
    assert (tally.figures() + tally.figures()).failing == 4
    assert tally.figures().ended().failing == 0


def test_receiving_that_is_interrupted_for_long_makes_it_unready_although_links_can_be_opened(tally: Tally) -> None:
    opened(Queue(), tally)
    tally.interrupted = lambda: "the link broke"
    assert tally.figures().ready() == "the ingest queue cannot be received from: the link broke"


def test_each_workers_memory_is_told_while_it_lives(clock: Clock) -> None:
    reports = Reports(clock)
    for number in (1, 2):
        reports.told(number, replace(worked(clock, 1), memory={number: number * 1_000_000}))
    assert told(reports.figures(), MEMORY) == {("1",): 1_000_000, ("2",): 2_000_000}
    reports.died(1)
    reports.replaced("hung")
    assert told(reports.figures(), MEMORY) == {("2",): 2_000_000}
    assert told(reports.figures(), REPLACED) == {("died",): 0, ("hung",): 1}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_process_tells_its_own_memory() -> None:
    assert Tally(worker=3).figures().memory[3] > 1_000_000


def test_the_endpoint_tells_all_three(tally: Tally) -> None:
    port = free_port()
    tally.count_dead_letter("UnknownDestination")

    def ask(path: str) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("GET", path)
        answer = client.getresponse()
        told = answer.status, answer.read().decode()
        client.close()
        return told

    with endpoint(HealthSettings(port=port, host="127.0.0.1"), tally.figures):
        assert ask("/healthz") == (200, "ok\n")
        assert ask("/readyz") == (503, f"starting: {STARTING}\n")
        tally.turned()
        assert ask("/readyz") == (200, "ok\n")
        told = ask("/metrics")[1]
    assert 'dstream_router_messages_dead_lettered_total{reason="UnknownDestination"} 1.0' in told


def test_without_a_block_no_port_is_opened(tally: Tally) -> None:
    with endpoint(None, tally.figures) as opened_port:
        assert opened_port is None


def test_a_topic_that_is_away_at_the_start_has_its_name_before_a_worker_has_told_anything() -> None:
    now = [0.0]
    reports = Reports(clock=lambda: now[0])
    reports.start.topics = frozenset({"persons"})
    reports.start.topic_failed("persons", "it is disabled")
    now[0] = 20.0
    told = {sample.labels for sample in samples(reports.figures()) if sample.metric.name.endswith("destination_up")}
    assert told == {("default", "persons")}
