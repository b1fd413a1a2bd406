"""The router's configuration edited under traffic, on emulated namespaces through the unmodified SDK: nothing is lost, doubled or out of order."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient
from pydantic import SecretStr

from common.message import Message
from common.servicebus.namespace import ServiceBus
from emulators.servicebus.description import SubscriptionDescription
from emulators.servicebus.faults.catalogue import SendsRefused
from emulators.servicebus.server import ServiceBusEmulator
from router.app import run
from router.publishing.publisher import REFUSED_IN_A_ROW
from router.routing.settings import RouteBlock
from router.settings import RouterSettings
from router.takeover.follow import Refuse, Take
from router.tally import Tally
from tests.contracts.bus.test_fan_out import to_both
from tests.contracts.bus.test_router import PERSONS, QUICK, change, left, put, settings
from tests.contracts.bus.test_router_faults import waited_for
from tests.contracts.bus.test_workers import Router, eventually

LANES = 6


@pytest.fixture
def far() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        yield running


class File:
    """A `router.takeover.follow.Watch`, edited by hand."""

    take: Take

    def __call__(self, take: Take, refused: Refuse) -> AbstractContextManager[object]:
        self.take = take
        return nullcontext()


class Traffic:
    """Messages of several sessions, sent to the ingest queue until it is stopped. `ahead`: none are while so many wait there."""

    def __init__(self, emulator: ServiceBusEmulator, topic: str = PERSONS, *, ahead: int = 5_000) -> None:
        self._emulator, self._topic, self._ahead = emulator, topic, ahead
        self.count = 0
        self._over, self._held = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        put(self._emulator, [self._next() for _ in range(20)])
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _next(self) -> Message:
        number, self.count = self.count, self.count + 1
        return change(self._topic, number, f"lane/{number % LANES}")

    def _run(self) -> None:
        with closing(
            ServiceBus.from_connection_string(self._emulator.connection_string).sender("ingest-queue")
        ) as sender:
            while not self._over.wait(0.02):
                if not self._held.is_set() and left(self._emulator)[0] < self._ahead:
                    sender.send([self._next() for _ in range(10)])

    def moved(self) -> None:
        """Go on for a while, then wait until all that was sent has been routed, and go on again."""
        self._goes_on(50)
        self._held.set()
        waited_for(lambda: left(self._emulator)[0] == 0, seconds=60)
        self._held.clear()
        self._goes_on(50)

    def _goes_on(self, count: int) -> None:
        wanted = self.count + count
        waited_for(lambda: self.count >= wanted, seconds=60)


@contextmanager
def routing(chosen: RouterSettings) -> Iterator[tuple[File, Tally]]:
    """A router in this process; it ends cleanly."""
    stop, tally, file, ended = threading.Event(), Tally(), File(), list[int]()
    thread = threading.Thread(target=lambda: ended.append(run(chosen, stop, pace=QUICK, tally=tally, watched=file)))
    thread.start()
    try:
        waited_for(lambda: hasattr(file, "take") and tally.figures().receives)
        yield file, tally
    finally:
        stop.set()
        thread.join(30)
    assert ended == [0]


def numbers(emulator: ServiceBusEmulator, topic: str) -> dict[str, list[int]]:
    """What arrived, by session."""
    count, found = emulator.admin.get(f"{topic}/Subscriptions/sub1").counts.active, dict[str, list[int]]()
    with (
        ServiceBusClient.from_connection_string(emulator.connection_string) as client,
        client.get_subscription_receiver(topic, "sub1", receive_mode="receiveanddelete", prefetch_count=500) as reader,
    ):
        while count > 0:
            more = reader.receive_messages(500, max_wait_time=30)
            assert more, f"{count} do not come"
            count -= len(more)
            for each in more:
                found.setdefault(each.session_id or "", []).append(int((each.message_id or "").rpartition("-")[2]))
    return found


def in_order(found: dict[str, list[int]]) -> bool:
    return all(one < other for lane in found.values() for one, other in pairwise(lane))


def all_of(found: dict[str, list[int]]) -> list[int]:
    return sorted(number for lane in found.values() for number in lane)


def reloaded(tally: Tally, chosen: RouterSettings) -> Callable[[], bool]:
    return lambda: tally.slots == chosen.slots


def test_an_output_that_is_added_gets_changes_from_then_on_and_one_that_is_removed_none(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator
) -> None:
    alone, both = settings(emulator, ordering="key", slots=7), to_both(emulator, far, ordering="key", slots=8)
    with Traffic(emulator, ahead=100) as traffic, routing(alone) as (file, tally):
        waited_for(lambda: tally.routed.total() > 100)
        before = traffic.count
        file.take(both)
        waited_for(lambda: tally.slots == 8)
        waited_for(lambda: any(topic.startswith("stream") or "stream" in topic for topic in tally.routed))
        between = traffic.count
        traffic.moved()
        file.take(alone)
        waited_for(lambda: tally.slots == 7)
        after = traffic.count
        traffic.moved()
        traffic.__exit__()
        waited_for(lambda: left(emulator) == (0, 0))
    near, added = numbers(emulator, PERSONS), numbers(far, PERSONS)
    assert in_order(near)
    assert in_order(added)
    assert all_of(near) == list(range(traffic.count))
    assert tally.routed[PERSONS] == traffic.count  # and so nothing twice
    got = all_of(added)
    assert set(range(between, between + 20)) <= set(got)
    assert min(got) > before - 200
    assert max(got) <= after + 200


def test_edits_leave_no_threads_behind(emulator: ServiceBusEmulator, far: ServiceBusEmulator) -> None:
    both = to_both(emulator, far, ordering="key", slots=2)
    put(emulator, [change(PERSONS, number, f"lane/{number % LANES}") for number in range(50)])
    with routing(both) as (file, tally):
        waited_for(lambda: left(emulator) == (0, 0))
        for number in range(13):
            edited = both.model_copy(update={"slots": 2 + (number + 1) % 2})
            file.take(edited)
            waited_for(reloaded(tally, edited))
            put(emulator, [change(PERSONS, 100 + number, "lane/0")])
            waited_for(lambda: left(emulator) == (0, 0))
        waited_for(lambda: couriers() <= 2 * 2 * 2 * 3)


def couriers() -> int:
    """Threads that send; those of an output that is given up end a moment later."""
    return sum(thread.name.startswith("courier-") for thread in threading.enumerate())


def test_an_edit_that_only_a_worker_can_refuse_leaves_the_previous_one_in_force(
    tmp_path: Path, emulator: ServiceBusEmulator
) -> None:
    with routing(settings(emulator, ordering="key")) as (_, tally):
        waited_for(lambda: tally.figures().ready() is None)
    router = Router(tmp_path, emulator, provision="none")
    file = tmp_path / "dstream.hcl"
    good = file.read_text()
    head, source, tail = good.partition("source {")
    try:
        eventually(lambda: router.said.count("router started") == 2, router)
        first = set(router.workers())
        file.write_text(head + source + re.sub('SharedAccessKey=[^;"]*', "SharedAccessKey=d3Jvbmc=", tail, count=1))
        eventually(lambda: "the previous one stays in force" in router.said, router)
        assert set(router.workers()) == first
        file.write_text(good.replace("sessions = 2", "sessions = 3"))
        eventually(lambda: "configuration reloaded" in router.said, router)
        router.process.terminate()
        assert router.wait() == 0
    finally:
        router.process.kill()
        router.process.wait()


@pytest.mark.parametrize("edits", [30])
def test_edits_in_quick_succession_under_load_lose_nothing(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator, edits: int
) -> None:
    alone, both = settings(emulator, ordering="key", slots=7), to_both(emulator, far, ordering="key", slots=8)
    with Traffic(emulator) as traffic, routing(alone) as (file, tally):
        for number in range(edits):
            file.take(both if number % 2 == 0 else alone)
            time.sleep((0.0, 0.05, 0.6)[number % 3])
        file.take(both)
        waited_for(lambda: tally.slots == 8, seconds=60)
        traffic.__exit__()
        waited_for(lambda: left(emulator) == (0, 0), seconds=60)
    near, there = numbers(emulator, PERSONS), numbers(far, PERSONS)
    assert in_order(near)
    assert in_order(there)
    assert all_of(near) == list(range(traffic.count))
    assert tally.routed[PERSONS] == traffic.count


def test_an_output_that_is_removed_while_it_is_away_frees_the_queue(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator
) -> None:
    alone, both = settings(emulator, ordering="key", slots=7), to_both(emulator, far, ordering="key", slots=8)
    with routing(both) as (file, tally), Traffic(emulator) as traffic:
        waited_for(lambda: tally.routed.total() > 100)
        with far.inject(SendsRefused(PERSONS, "amqp:internal-error")):
            waited_for(lambda: bool(tally.retries) and left(emulator)[0] > 300)
            file.take(alone)
            waited_for(lambda: tally.slots == 7, seconds=30)
            traffic.__exit__()
            waited_for(lambda: left(emulator) == (0, 0), seconds=60)
        assert tally.figures().ready() is None
        assert tally.behind() == {}
    near = numbers(emulator, PERSONS)
    assert in_order(near)
    assert all_of(near) == list(range(traffic.count))


def test_an_output_gets_nothing_again_for_an_edit_that_is_not_about_its_changes(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator
) -> None:
    both = to_both(emulator, far, ordering="key", slots=8)
    nobodys = RouteBlock.model_validate({"from": ("sales.*",), "to": ("default",)})
    more = both.model_copy(update={"slots": 7, "route": (*both.route, nobodys)})
    renamed = both.model_copy(
        update={
            "slots": 6,
            "outputs": (both.outputs[0].model_copy(update={"name": "river"}),),
            "route": (RouteBlock.model_validate({"from": ("*",), "to": ("default", "river")}),),
        }
    )
    alone = settings(emulator, ordering="key", slots=5)
    put(emulator, [change(PERSONS, number, f"lane/{number % LANES}") for number in range(300)])
    with far.inject(SendsRefused(PERSONS, "amqp:internal-error")), routing(both) as (file, tally):
        for edited in (more, both, more, renamed, alone):
            waited_for(lambda: tally.routed[PERSONS] >= 300 and bool(tally.retries))
            file.take(edited)
            waited_for(reloaded(tally, edited))
            time.sleep(0.5)
            assert tally.routed[PERSONS] == 300, edited.slots
        waited_for(lambda: left(emulator) == (0, 0), seconds=60)
        assert tally.routed[PERSONS] == 300
    assert all_of(numbers(emulator, PERSONS)) == list(range(300))


def test_an_edit_sends_nothing_again_from_a_queue_without_sessions(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator
) -> None:
    both = to_both(emulator, far, ordering="none", slots=2)
    renamed = {"outputs": (both.outputs[0].model_copy(update={"name": "river"}),)}
    river = (RouteBlock.model_validate({"from": ("*",), "to": ("default", "river")}),)
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(10)], sessions=False)
    with far.inject(SendsRefused(PERSONS, "amqp:internal-error")), routing(both) as (file, tally):
        waited_for(lambda: tally.routed[PERSONS] >= 10 and bool(tally.retries))
        for update in ({"slots": 3}, {"slots": 4, "route": river, **renamed}, {"slots": 5, "route": ()}):
            edited = both.model_copy(update=update)
            file.take(edited)
            waited_for(reloaded(tally, edited))
            time.sleep(0.5)
            assert tally.routed[PERSONS] == 10, edited.slots
        waited_for(lambda: left(emulator) == (0, 0))
        assert tally.routed[PERSONS] == 10
    assert all_of(numbers(emulator, PERSONS)) == list(range(10))


def test_an_output_that_cannot_be_opened_leaves_the_old_configuration_in_force(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator
) -> None:
    wrong = to_both(emulator, far, ordering="key", slots=8)
    stream = wrong.outputs[0].model_copy(update={"connection_string": _with_another_key(wrong.outputs[0])})
    wrong = wrong.model_copy(update={"outputs": (stream,)})
    alone = settings(emulator, ordering="key", slots=7)
    with routing(alone) as (file, tally), Traffic(emulator) as traffic:
        file.take(wrong)
        waited_for(lambda: tally.not_in_force is not None)
        assert "output stream" in (tally.figures().ready() or "")
        count = tally.routed.total()
        waited_for(lambda: tally.routed.total() > count)
        assert tally.slots == 7
        file.take(alone)
        waited_for(lambda: tally.figures().ready() is None)
        traffic.__exit__()
        waited_for(lambda: left(emulator) == (0, 0))
    assert all_of(numbers(emulator, PERSONS)) == list(range(traffic.count))


def _with_another_key(output: Any) -> SecretStr:
    return SecretStr(
        re.sub("SharedAccessKey=[^;]*", "SharedAccessKey=d3Jvbmc=", output.connection_string.get_secret_value())
    )


def test_a_route_that_changes_holds_from_then_on(emulator: ServiceBusEmulator, far: ServiceBusEmulator) -> None:
    both = to_both(emulator, far, ordering="key", slots=8)
    only_far = both.model_copy(
        update={"slots": 2, "route": (RouteBlock.model_validate({"from": ("*",), "to": ("stream",)}),)}
    )
    with routing(both) as (file, tally), Traffic(emulator) as traffic:
        waited_for(lambda: tally.routed.total() > 200)
        file.take(only_far)
        waited_for(lambda: tally.slots == 2)
        at = tally.routed[PERSONS]
        traffic.moved()
        traffic.__exit__()
        waited_for(lambda: left(emulator) == (0, 0))
        assert tally.routed[PERSONS] == at
    there = numbers(far, PERSONS)
    assert in_order(there)
    assert all_of(there) == list(range(traffic.count))


def test_workers_are_replaced_one_after_the_other_and_a_stop_meanwhile_is_clean(
    tmp_path: Path, emulator: ServiceBusEmulator
) -> None:
    router = Router(tmp_path, emulator)
    file = tmp_path / "dstream.hcl"
    try:
        with Traffic(emulator) as traffic:
            eventually(lambda: router.said.count("router started") == 2, router)
            first = set(router.workers())
            file.write_text(file.read_text().replace("sessions = 2", "sessions = 3\n  nonsense = 1"))
            eventually(lambda: "the previous one stays in force" in router.said, router)
            assert set(router.workers()) == first
            file.write_text(file.read_text().replace("\n  nonsense = 1", ""))
            eventually(lambda: "configuration reloaded" in router.said, router)
            assert not set(router.workers()) & first
            assert len(router.workers()) == 2
            assert "worker died" not in router.said
            file.write_text(file.read_text().replace("sessions = 3", "sessions = 4"))
            eventually(lambda: router.said.count("router stopped") == 3, router)  # the first of the workers has left
            began = time.monotonic()
            router.process.terminate()
            assert router.wait() == 0
            assert time.monotonic() - began < 20
        unusable = ("the previous one stays in force", "the configuration cannot be used")  # a worker may look as well
        errors = [line for line in router.said.splitlines() if "[error" in line]
        assert [line for line in errors if not any(text in line for text in unusable)] == []
    finally:
        router.process.kill()
        router.process.wait()
    with routing(settings(emulator, ordering="key")):
        waited_for(lambda: left(emulator) == (0, 0), seconds=60)
    found = numbers(emulator, PERSONS)
    assert in_order(found)
    assert all_of(found) == list(range(traffic.count))


def test_a_topic_that_an_edit_creates_again_is_a_warning_that_names_what_is_lost(
    emulator: ServiceBusEmulator, capsys: pytest.CaptureFixture[str]
) -> None:
    first = settings(emulator, ordering="key", slots=2, provision="create", subscriptions=("sub1",))
    second, third = first.model_copy(update={"slots": 3}), first.model_copy(update={"slots": 4})
    with routing(first) as (file, tally):
        emulator.admin.create(f"{PERSONS}/Subscriptions/billing", SubscriptionDescription())
        emulator.admin.delete(f"{PERSONS}/Subscriptions/sub1")
        file.take(second)
        waited_for(reloaded(tally, second))
        emulator.admin.delete(PERSONS)
        file.take(third)
        waited_for(reloaded(tally, third))
        put(emulator, [change(PERSONS, 0, "lane/0")])
        waited_for(lambda: left(emulator) == (0, 0))
    assert all_of(numbers(emulator, PERSONS)) == [0]
    told = [line for line in capsys.readouterr().out.splitlines() if "[warning" in line and "is created again" in line]
    assert len(told) == 2, told
    assert "subscription=sub1" in told[0]
    assert f"topic={PERSONS}" in told[1]
    assert "subscriptions=sub1" in told[1]
    assert "lost_subscriptions=billing" in told[1]
    assert "offsets set" in told[1]


def more_retries(tally: Tally, than: int) -> bool:
    return tally.retries.total() > than


def test_an_edit_gives_messages_that_a_topic_refuses_no_fresh_attempts(emulator: ServiceBusEmulator) -> None:
    first = settings(emulator, ordering="key", slots=2)
    put(emulator, [change(PERSONS, number, f"lane/{number % LANES}") for number in range(60)])
    with emulator.inject(SendsRefused(PERSONS, "amqp:not-allowed")), routing(first) as (file, tally):
        # The last of them may still be on its way to the dead letters when another slot has met one refusal more.
        waited_for(lambda: bool(tally.retries) and tally.dead_lettered.total() >= REFUSED_IN_A_ROW)
        assert tally.dead_lettered.total() == REFUSED_IN_A_ROW
        for slots in (3, 4):
            edited = first.model_copy(update={"slots": slots})
            file.take(edited)
            waited_for(reloaded(tally, edited))
            waited_for(partial(more_retries, tally, tally.retries.total()))
        assert tally.dead_lettered.total() == REFUSED_IN_A_ROW


def settled(count: Callable[[], int]) -> int:
    """Once nothing is on its way any more: what it counts for a second."""
    now, before = count(), -1
    while now != before:
        time.sleep(1)
        now, before = count(), now
    return now


def test_workers_that_are_replaced_leave_what_they_know_to_the_next(
    tmp_path: Path, emulator: ServiceBusEmulator
) -> None:
    router, file = Router(tmp_path, emulator), tmp_path / "dstream.hcl"
    try:
        eventually(lambda: router.said.count("router started") == 2, router)
        put(emulator, [change(PERSONS, number, f"lane/{number % LANES}") for number in range(90)])
        with emulator.inject(SendsRefused(PERSONS, "amqp:not-allowed")):
            eventually(lambda: router.said.count("topic unavailable") >= 2, router)
            dead = settled(lambda: left(emulator)[1])
            assert dead <= 2 * REFUSED_IN_A_ROW
            file.write_text(file.read_text().replace("sessions = 2", "sessions = 3"))
            eventually(lambda: "configuration reloaded" in router.said, router)
            eventually(lambda: router.said.count("topic unavailable") >= 3, router)
            assert left(emulator)[1] == dead
        router.process.terminate()
        assert router.wait() == 0
    finally:
        router.process.kill()
        router.process.wait()
