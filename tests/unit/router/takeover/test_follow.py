"""Edits of the file, one after the other: the newest wins, one that cannot be used changes nothing and is tried again, and each is told once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from common.config.settings import Remark
from common.errors import ConfigurationError, DStreamError, PermanentError, Stopped, TransientError
from common.retry import Backoff
from router.settings import RouterSettings
from router.takeover.follow import Follower
from router.takeover.succession import Succession, passed_on
from router.tally import Tally
from tests.unit.router.test_restarts import SETTINGS


@dataclass
class Opening:
    """A candidate. `faults`: what the next of them raise in turn; `held`: it opens until this is set, or until it is abandoned."""

    world: World
    settings: RouterSettings
    gone: threading.Event = field(default_factory=threading.Event)

    def open(self, changed: Collection[str]) -> None:
        self.world.tries += 1
        self.world.seen.append(self.world.tally.not_in_force)
        while self.world.held.is_set() and not self.gone.is_set():
            time.sleep(0.005)
        if self.gone.is_set():
            raise Stopped("abandoned")
        if self.world.faults:
            raise self.world.faults.popleft()

    def abandon(self) -> None:
        self.gone.set()

    def close(self) -> None:
        self.world.closed.append(self.settings.batch)


@dataclass
class World:
    faults: deque[Exception] = field(default_factory=deque)
    held: threading.Event = field(default_factory=threading.Event)
    adopted: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    tries: int = 0
    seen: list[str | None] = field(default_factory=list)
    """What health said at each of them."""
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.follower = Follower(
            batch(1),
            lambda chosen: Opening(self, chosen),
            self._adopt,
            self.tally,
            again=Backoff(first=0.01, longest=0.02),
        )

    def _adopt(self, opened: Opening) -> bool:
        self.adopted.append(opened.settings.batch)
        return True


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.follower:
        yield made


def batch(number: int, **more: Any) -> RouterSettings:
    return SETTINGS.model_copy(update={"batch": number, **more})


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_edit_is_taken_over_and_told(world: World) -> None:
    with capture_logs() as logs:
        world.follower.edited(batch(2))
        eventually(lambda: any(line["event"] == "configuration reloaded" for line in logs))
    assert world.adopted == [2]
    assert world.tally.not_in_force is None


@pytest.mark.parametrize(("kind", "level"), [(TransientError, "warning"), (PermanentError, "error")])
def test_what_cannot_be_opened_changes_nothing_is_told_once_and_tried_again(
    world: World, kind: type[DStreamError], level: str
) -> None:
    world.faults.extend([kind("no right to x", hint="grant it")] * 5)
    with capture_logs() as logs:
        world.follower.edited(batch(2))
        eventually(lambda: bool(world.adopted))
        eventually(lambda: world.tally.not_in_force is None)
    told = [line for line in logs if "cannot be taken over" in line["event"]]
    assert [(line["log_level"], line["error"], line["hint"]) for line in told] == [(level, "no right to x", "grant it")]
    assert world.seen == [None, *["the changed configuration cannot be taken over: no right to x (grant it)"] * 5]
    assert world.closed == [2] * 5


def test_an_error_that_nobody_foresaw_does_not_end_it(world: World) -> None:
    world.faults.append(ValueError("secret"))
    with capture_logs() as logs:
        world.follower.edited(batch(2))
        eventually(lambda: world.adopted == [2])
    assert [line["error"].startswith("ValueError") for line in logs if "error" in line] == [True]
    assert "secret" not in str(logs)


def test_the_newest_edit_wins_over_one_that_is_being_opened(world: World) -> None:
    world.held.set()
    world.follower.edited(batch(2))
    eventually(lambda: world.tries == 1)
    world.follower.edited(batch(3))
    eventually(lambda: world.tries == 2)
    world.held.clear()
    eventually(lambda: world.adopted == [3])
    assert world.closed == [2]


def test_a_file_that_flips_back_ends_the_attempts(world: World) -> None:
    world.faults.extend([TransientError("away")] * 10_000)
    world.follower.edited(batch(2))
    eventually(lambda: world.tries > 2)
    world.follower.edited(batch(1))
    eventually(lambda: world.tally.not_in_force is None)
    tries = world.tries
    time.sleep(0.1)
    assert world.tries == tries
    assert world.adopted == []


def test_a_file_that_cannot_be_used_is_known_to_health_until_it_can(world: World) -> None:
    world.faults.extend([TransientError("away")] * 10_000)
    world.follower.edited(batch(2))
    world.follower.refused(ConfigurationError(["dstream.hcl:3: this", "that"]))
    eventually(lambda: "dstream.hcl:3: this" in (world.tally.not_in_force or ""))
    tries = world.tries
    time.sleep(0.1)
    assert world.tries == tries  # nothing of the edit before is tried any more
    world.follower.edited(batch(1))
    eventually(lambda: world.tally.not_in_force is None)


def test_settings_that_need_a_restart_are_named_once_for_each_edit(world: World) -> None:
    with capture_logs() as logs:
        world.follower.edited(batch(1, queue_name="other"))
        eventually(lambda: any(line["event"] == "changed settings need a restart" for line in logs))
        world.follower.edited(batch(2, workers=3))
        eventually(lambda: world.adopted == [2])
    told = [(line["settings"], line["effect"]) for line in logs if "restart" in line["event"]]
    assert told == [
        (["ingester.queue.name"], "nothing of this edit is in force before that"),
        (["router.workers"], None),
    ]


def test_remarks_on_the_new_file_are_told_once(world: World) -> None:
    with capture_logs() as logs:
        world.follower.edited(batch(2).with_remarks([Remark(4, "setting has a new name", "a.b", "write a.c")]))
        eventually(lambda: any(line["event"] == "configuration reloaded" for line in logs))
    assert [(line["setting"], line["hint"]) for line in logs if line["event"] == "setting has a new name"] == [
        ("a.b", "write a.c")
    ]


@pytest.mark.timeout(60)
def test_a_stop_ends_what_is_being_opened() -> None:
    world = World()
    world.held.set()
    with world.follower:
        world.follower.edited(batch(2))
        eventually(lambda: world.tries == 1)
    eventually(lambda: world.closed == [2])
    assert world.adopted == []


class Routes:
    """A `Routing` that ends as it is told to."""

    def __init__(self, diary: list[str], name: str, *, status: int = 0) -> None:
        self.over, self._diary, self._name, self._status = threading.Event(), diary, name, status

    def run(self) -> int:
        self._diary.append(f"{self._name} begins")
        self.over.wait(60)
        self._diary.append(f"{self._name} ends")
        return self._status

    def hand_over(self) -> None:
        self.over.set()

    def cut(self) -> None:
        self._diary.append(f"{self._name} cut")

    def close(self) -> None: ...


def test_one_routes_only_after_the_other_has_ended() -> None:
    diary, stop, ended = list[str](), threading.Event(), list[int]()
    succession = Succession(Routes(diary, "one"), stop)
    with passed_on(stop, succession.end):
        routing = threading.Thread(target=lambda: ended.append(succession.run()))
        routing.start()
        assert succession.succeed(Routes(diary, "two"))
        assert succession.succeed(Routes(diary, "three"))
        stop.set()
        routing.join(60)
    assert diary == [
        *(f"{name} {what}" for name in ("one", "two") for what in ("begins", "ends", "cut")),
        "three begins",
        "three ends",
    ]
    assert ended == [0]
    assert not succession.succeed(Routes(diary, "late"))


def test_slots_that_do_not_end_in_time_end_the_process_and_the_other_does_not_begin() -> None:
    diary, stop = list[str](), threading.Event()
    succession, raised = Succession(Routes(diary, "one", status=1), stop), list[BaseException]()

    def run() -> None:
        with pytest.raises(TransientError, match="did not end in time") as caught:
            succession.run()
        raised.append(caught.value)

    routing = threading.Thread(target=run)
    routing.start()
    assert not succession.succeed(Routes(diary, "two"))
    routing.join(60)
    assert raised
    assert stop.is_set()
    assert diary == ["one begins", "one ends"]
