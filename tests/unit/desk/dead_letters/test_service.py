"""The console's operations on dead letters: in the background, one of an entity at a time, followed, stopped and kept for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import PermanentError
from common.unread import Unread
from desk.dead_letters import service as module
from desk.dead_letters.account import Account
from desk.dead_letters.engine import Kind, Watch
from desk.dead_letters.service import DeadLetterDesk
from desk.desk import Actor, Conflict, NotFound
from desk.documents.messages import DeadLetterCount, DeadLetterOrder, DeadLetterResult, Operation

ADA = Actor("ada", "page", "r1")


class Working:
    """An engine that works until it is let go or stopped."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.error: Exception | None = None
        self.did = 0
        self.held = False
        self.planned: list[float | None] = []

    def place(self, entity: str) -> Any:
        if entity == "nowhere":
            raise NotFound("looking for nowhere: the configuration sends to no entity of this name")
        return SimpleNamespace(entity=entity.lower())

    def is_free(self, entity: str) -> None:
        if self.held:
            raise Conflict("another process of this machine replays them now")

    def finish(
        self, order: DeadLetterOrder, kind: Kind, actor: Actor, watch: Watch, target: str, **details: Any
    ) -> DeadLetterResult:
        watch.examined, watch.done = 7, 3
        if self.did:
            watch.account = Account(target, kind, done=self.did)
        while not (self.free.is_set() or watch.stop.is_set()):
            time.sleep(0.005)
        if self.error is not None:
            raise self.error
        return DeadLetterResult(entity=order.entity, dry_run=False, matched=7, replayed=3, complete=self.free.is_set())

    def plan(self, order: DeadLetterOrder, kind: Kind, watch: Watch, *, until: float | None = None) -> DeadLetterResult:
        self.planned.append(until)
        return DeadLetterResult(entity=order.entity, dry_run=True, matched=7, replayed=7, complete=True)


@pytest.fixture
def working() -> Working:
    return Working()


@pytest.fixture
def desk(working: Working) -> Iterator[DeadLetterDesk]:
    made = DeadLetterDesk(working, lambda unread, stop: [])  # type: ignore[arg-type]
    yield made
    made.close()


def order(entity: str = "queue", **told: Any) -> DeadLetterOrder:
    return DeadLetterOrder(**{"entity": entity, "dry_run": False, **told})


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def ended(desk: DeadLetterDesk, begun: Operation) -> Operation:
    until(lambda: desk.operation(begun.id).state != "running")
    return desk.operation(begun.id)


def test_an_operation_is_followed_from_its_beginning_to_its_result(desk: DeadLetterDesk, working: Working) -> None:
    begun = desk.replay(order(), ADA)
    assert (begun.state, begun.kind, begun.entity, begun.result) == ("running", "replay", "queue", None)
    until(lambda: desk.operation(begun.id).done == 3)
    assert desk.operation(begun.id).examined == 7
    working.free.set()
    found = ended(desk, begun)
    assert (found.state, found.result and found.result.replayed, found.error) == ("done", 3, None)
    assert found.ended_at is not None
    assert [each.id for each in desk.operations()] == [begun.id]


def test_one_of_an_entity_at_a_time(desk: DeadLetterDesk, working: Working) -> None:
    first = desk.replay(order(), ADA)
    with pytest.raises(Conflict, match=first.id):
        desk.purge(order("QUEUE"), ADA)
    other = desk.purge(order("topic/t/s"), ADA)
    working.free.set()
    assert {ended(desk, each).state for each in (first, other)} == {"done"}
    assert ended(desk, desk.purge(order(), ADA)).state == "done"


def test_a_replay_that_another_process_makes_is_refused_before_it_begins(
    desk: DeadLetterDesk, working: Working
) -> None:
    working.held = True
    with pytest.raises(Conflict, match="another process"):
        desk.replay(order(), ADA)
    assert list(desk.operations()) == []


def test_it_is_stopped_and_keeps_what_it_came_to(desk: DeadLetterDesk) -> None:
    begun = desk.replay(order(), ADA)
    desk.stop(begun.id, ADA)
    found = ended(desk, begun)
    assert (found.state, found.result and found.result.replayed) == ("stopped", 3)


@pytest.mark.parametrize(
    ("error", "told", "remedy"),
    [
        (PermanentError("sending: refused", hint="grant Send"), "sending: refused", "grant Send"),
        (KeyError("row value"), "KeyError", "this is a defect of DStream: report it with this text"),
    ],
)
def test_an_error_is_told_with_its_remedy(
    desk: DeadLetterDesk, working: Working, error: Exception, told: str, remedy: str
) -> None:
    working.error = error
    working.free.set()
    found = ended(desk, desk.replay(order(), ADA))
    assert (found.state, told in str(found.error), found.remedy) == ("failed", True, remedy)


def test_what_nobody_knows_is_refused(desk: DeadLetterDesk) -> None:
    asked: list[Callable[[], object]] = [
        lambda: desk.operation("x"),
        lambda: desk.stop("x", ADA),
        lambda: desk.replay(order("nowhere"), ADA),
    ]
    for ask in asked:
        with pytest.raises(NotFound):
            ask()
    assert list(desk.operations()) == []


def test_a_plan_is_made_at_once_and_within_a_time(desk: DeadLetterDesk, working: Working) -> None:
    assert desk.plan(order()).dry_run
    assert working.planned[0] is not None
    assert working.planned[0] <= time.monotonic() + module.PLAN_SECONDS


def test_only_the_last_ones_are_kept_and_those_that_run(
    desk: DeadLetterDesk, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    running = desk.replay(order("topic/slow/s"), ADA)
    stopped = [desk.replay(order(f"topic/{number}/s"), ADA) for number in range(6)]
    for each in stopped:
        desk.stop(each.id, ADA)
        ended(desk, each)
    desk.replay(order(), ADA)
    assert desk.operation(running.id).state == "running"
    with pytest.raises(NotFound):
        desk.operation(stopped[0].id)


def test_closing_stops_what_runs_and_begins_nothing(desk: DeadLetterDesk) -> None:
    begun = desk.replay(order(), ADA)
    desk.close()
    assert desk.operation(begun.id).state == "stopped"
    with pytest.raises(Conflict, match="stopping"):
        desk.replay(order(), ADA)


def test_what_cannot_be_counted_hides_nothing_else(working: Working) -> None:
    def counted(unread: list[Unread], stop: threading.Event) -> list[Any]:
        unread.append(Unread("dead letters of topic/t/s", "it is disabled", "enable it"))
        return []

    now = [100.0]
    desk = DeadLetterDesk(working, counted, clock=lambda: now[0])  # type: ignore[arg-type]
    found = desk.counts()
    assert (found.items, [each.model_dump() for each in found.unknown]) == (
        [],
        [{"what": "dead letters of topic/t/s", "text": "it is disabled", "remedy": "enable it"}],
    )
    assert desk.counts() is found
    now[0] += module.UNKNOWN_FOR
    assert desk.counts() is not found


def test_one_counting_serves_every_page_for_a_minute_and_until_something_was_done(working: Working) -> None:
    now, countings = [100.0], list[float]()

    def counting(unread: list[Unread], stop: threading.Event) -> list[Any]:
        countings.append(now[0])
        return [DeadLetterCount(entity="queue", total=len(countings))]

    desk: Any = DeadLetterDesk(working, counting, clock=lambda: now[0])  # type: ignore[arg-type]
    pages = [threading.Thread(target=desk.counts) for _ in range(8)]
    for each in pages:
        each.start()
    for each in pages:
        each.join()
    now[0] += 59
    assert desk.counts().items[0].total == 1
    now[0] += 1
    assert desk.counts().items[0].total == 2
    working.free.set()
    ended(desk, desk.replay(DeadLetterOrder(entity="queue", dry_run=False), ADA))
    assert desk.counts().items[0].total == 3
    desk.close()


def test_an_operation_that_fails_says_what_it_did_before(desk: DeadLetterDesk, working: Working) -> None:
    working.error = PermanentError("sending: the queue is gone")
    working.did = 5
    working.free.set()
    found = ended(desk, desk.replay(DeadLetterOrder(entity="queue", dry_run=False), ADA))
    assert found.state == "failed"
    assert found.result is not None
    assert (found.result.replayed, found.result.complete) == (5, False)
