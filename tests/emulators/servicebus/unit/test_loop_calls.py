"""Calls to the broker's loop from other threads: whatever becomes of the loop, nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from emulators.servicebus.administration.loop_admin import LoopAdmin
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.loop_calls import LoopCalls, NotRunning


class Loop(asyncio.SelectorEventLoop):
    """Tells when something was scheduled from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduled = threading.Event()

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self.scheduled.set()
        return handle

    def turn(self) -> None:
        """Run what is scheduled, once."""
        self.call_soon(self.stop)
        self.run_forever()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def calls(loop: Loop) -> LoopCalls:
    calls = LoopCalls(loop)
    calls.begin()
    return calls


@pytest.fixture
def elsewhere(loop: Loop) -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Call something on another thread; back when it has scheduled a call to the loop."""
    with ThreadPoolExecutor(1) as pool:

        def start(function: Callable[[], Any]) -> Future[Any]:
            future = pool.submit(function)
            assert loop.scheduled.wait(10)
            return future

        yield start


Elsewhere = Callable[[Callable[[], Any]], Future[Any]]


def fail() -> None:
    raise LookupError("as it happens")


def test_a_call_runs_on_the_loop_and_its_result_comes_back(loop: Loop, calls: LoopCalls, elsewhere: Elsewhere) -> None:
    asked = elsewhere(lambda: calls.call(lambda: threading.current_thread()))
    loop.turn()
    assert asked.result(10) is threading.current_thread()


def test_what_a_call_raises_is_raised_to_the_caller(loop: Loop, calls: LoopCalls, elsewhere: Elsewhere) -> None:
    asked = elsewhere(lambda: calls.call(fail))
    loop.turn()
    with pytest.raises(LookupError, match="as it happens"):
        asked.result(10)


def test_a_loop_that_stops_before_it_came_to_a_call_tells_the_administrator(
    loop: Loop, calls: LoopCalls, elsewhere: Elsewhere
) -> None:
    admin = LoopAdmin(Namespace(lambda: 0.0, Forgetful()), Forgetful(), calls)
    asked = elsewhere(admin.queues)
    calls.end()
    with pytest.raises(NotRunning, match="not running any more"):
        asked.result(10)


def test_a_loop_that_stops_in_the_middle_of_a_wait_tells_the_caller(
    loop: Loop, calls: LoopCalls, elsewhere: Elsewhere
) -> None:
    asked = elsewhere(lambda: calls.wait(asyncio.Event().wait))
    loop.turn()
    loop.turn()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.turn()
    calls.end()
    with pytest.raises(NotRunning, match="not running any more"):
        asked.result(10)


def test_a_wait_takes_as_many_turns_as_it_needs(loop: Loop, calls: LoopCalls, elsewhere: Elsewhere) -> None:
    async def slowly() -> str:
        await asyncio.sleep(0)
        return "done"

    asked = elsewhere(lambda: calls.wait(slowly))
    for _ in range(4):
        loop.turn()
    assert asked.result(10) == "done"


def test_a_wait_that_fails_tells_why(loop: Loop, calls: LoopCalls, elsewhere: Elsewhere) -> None:
    async def failing() -> None:
        fail()

    asked = elsewhere(lambda: calls.wait(failing))
    for _ in range(3):
        loop.turn()
    with pytest.raises(LookupError, match="as it happens"):
        asked.result(10)


def test_nothing_is_asked_of_a_loop_that_does_not_serve(loop: Loop) -> None:
    calls = LoopCalls(loop)
    with pytest.raises(NotRunning, match="not running"):
        calls.call(lambda: None)
    calls.begin()
    calls.end()
    with pytest.raises(NotRunning, match="not running"):
        calls.call(lambda: None)
