"""Calls from other threads to the broker's event loop, where everything happens to entities, links and faults.

Whoever calls waits for the result, and for nothing else: a loop that ends before it came to a call tells the caller so.
Refuses calls before the loop serves and after it ended (`NotRunning`). Must not be called on the loop itself, which would wait for itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class NotRunning(RuntimeError):
    """The emulator is not running, or stopped before it did what was asked."""


class LoopCalls:
    """The calls to one loop. `begin` and `end` are for the thread that runs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._guard = threading.Lock()
        self._serving = False
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self) -> None:
        """The loop serves, or will at once."""
        with self._guard:
            self._serving = True

    def end(self) -> None:
        """The loop runs no more: whoever still waits is told."""
        with self._guard:
            self._serving = False
            left, self._waiting = self._waiting, set()
        for result in left:
            if not result.done():
                result.set_exception(NotRunning("the emulator stopped before it did that: it is not running any more"))

    def call(self, function: Callable[[], _T]) -> _T:
        """Run on the loop; what it returns or raises. Raises NotRunning."""

        def run(result: concurrent.futures.Future[_T]) -> None:
            try:
                result.set_result(function())
            except Exception as error:  # handed to the caller, whatever it is
                result.set_exception(error)

        return self._ask(run)

    def wait(self, function: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The same for what takes the loop several turns. Raises NotRunning."""

        def run(result: concurrent.futures.Future[_T]) -> None:
            task = self._loop.create_task(function())
            self._tasks.add(task)  # the loop itself may forget it

            def ended(task: asyncio.Task[_T]) -> None:
                self._tasks.discard(task)
                if task.cancelled():
                    return  # by the end of the loop, which tells the caller
                error = task.exception()
                if error is None:
                    result.set_result(task.result())
                else:
                    result.set_exception(error)

            task.add_done_callback(ended)

        return self._ask(run)

    def _ask(self, run: Callable[[concurrent.futures.Future[_T]], None]) -> _T:
        result: concurrent.futures.Future[_T] = concurrent.futures.Future()
        with self._guard:
            if not self._serving:
                raise NotRunning("the emulator is not running")
            self._waiting.add(result)
            self._loop.call_soon_threadsafe(run, result)
        try:
            return result.result()
        finally:
            with self._guard:
                self._waiting.discard(result)
