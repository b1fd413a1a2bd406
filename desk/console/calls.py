"""Calls of the ports from an event loop: a bounded number at once and in the queue for each kind, and a deadline for each.

A store that does not answer keeps the threads of its own kind, and no other's. Nothing here knows what is asked.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar

from desk.console.refusals import Busy, Overdue
from desk.patience import waited_for

T = TypeVar("T")

OF_CHANGE = (
    "it is given up if it was not being written yet, else it is made: before you ask again, look in the audit log for what follows "
    "`begun` under the number of this request, and at the revisions of the configuration"
)
"""The hint for a change that had no answer in time."""
NOT_BEGUN = "nothing was changed: it had not begun, and will not; ask again in a while"
OF_LOOK = "ask again in a while"

Kind = Literal["seen", "tables", "messages", "dead_letters", "configuring", "audit"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """`threads`: calls at once. `waiting`: calls that wait for a thread. `within`: seconds from the request to its answer."""

    threads: int
    waiting: int
    within: float


BOUNDS: Final[Mapping[Kind, Bounds]] = {
    "seen": Bounds(threads=4, waiting=200, within=10),  # memory only: what the console saw at its last look
    "tables": Bounds(threads=4, waiting=16, within=30),
    "messages": Bounds(threads=6, waiting=24, within=30),
    "dead_letters": Bounds(threads=4, waiting=16, within=30),
    "configuring": Bounds(threads=2, waiting=16, within=30),
    "audit": Bounds(threads=2, waiting=16, within=10),
}


@dataclass(slots=True)
class Pool:
    """Threads that do not keep the process alive, begun as they are needed."""

    name: str
    bounds: Bounds
    _tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = field(default_factory=queue.SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _unended: int = 0
    _begun: int = 0

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Raises Busy when too many wait."""
        with self._lock:
            if self._unended >= self.bounds.threads + self.bounds.waiting:
                raise Busy(f"too many requests for {self.name.replace('_', ' ')} wait", after=2, hint="ask again later")
            self._unended += 1
            further = self._begun < min(self.bounds.threads, self._unended)
            self._begun += further
        future: Future[T] = Future()
        self._tasks.put((future, call))
        if further:
            threading.Thread(target=self._work, name=f"console-{self.name}-{self._begun}", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            future, call = self._tasks.get()
            try:
                if future.set_running_or_notify_cancel():
                    _run(future, call)
            finally:
                with self._lock:
                    self._unended -= 1
            del future, call


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result = call()
    except BaseException as error:  # raised in whoever waits for it
        future.set_exception(error)
    else:
        future.set_result(result)


def _called(until: float, call: Callable[[], T]) -> T:
    """So that a change which is overdue can refuse to be made."""
    with waited_for(until):
        return call()


@dataclass(frozen=True, slots=True)
class Calls:
    """One pool a kind."""

    bounds: Mapping[Kind, Bounds] = field(default_factory=lambda: BOUNDS)
    pools: dict[Kind, Pool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pools.update({kind: Pool(kind, bounds) for kind, bounds in self.bounds.items()})

    async def of(
        self, kind: Kind, call: Callable[..., T], *given: Any, overdue: str = OF_LOOK, about: str = "", **named: Any
    ) -> T:
        """What `call` returns or raises. Raises Busy or Overdue, with the hint `overdue`; a call that has begun goes on, and keeps its thread
        until it ends. `about`: what is asked for, such as an entity."""
        pool = self.pools[kind]
        until = time.monotonic() + pool.bounds.within
        future = pool.submit(partial(_called, until, partial(call, *given, **named)))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), pool.bounds.within)
        except TimeoutError:
            if future.done() and not future.cancelled():
                return future.result()
            hint = NOT_BEGUN if overdue == OF_CHANGE and future.cancel() else overdue
            where = f"{about[:300]}: " if about else ""
            raise Overdue(f"{where}there was no answer within {pool.bounds.within:g} s", hint=hint) from None
