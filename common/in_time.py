"""Threads and time limits for calls that nothing can interrupt, such as resolving a name or getting a token.

Such a call runs in a thread of its own. When its time is up, nobody waits for it any longer; it goes on in its thread. A second request
for the same thing joins the call that is under way, so a server that never answers keeps one thread busy, and not one for each attempt.

Logins to SQL Server have a wait of their own (ingester/sqlserver/waiting.py): a login that comes late must be closed, a stop gives it a few
more seconds, and two callers must never share a connection.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from common.errors import Stopped

_T = TypeVar("_T")

_guard = threading.Lock()
_running: dict[Hashable, Future[Any]] = {}

_GLANCE = 0.2
"""Seconds between two checks of `stop`."""


def begun(call: Callable[[], _T], *, name: str) -> Future[_T]:
    """`call` in a thread of its own, which does not keep the process alive. `name`: of the thread."""
    future: Future[_T] = Future()
    threading.Thread(target=_run, args=(future, call), name=name, daemon=True).start()
    return future


def in_time(
    seconds: float,
    call: Callable[[], _T],
    *,
    same: Hashable | None = None,
    stop: threading.Event | None = None,
    name: str = "in-time",
) -> _T:
    """Return or raise what `call` does. Raises TimeoutError when that takes more than `seconds`, and Stopped when `stop` is set.

    Calls with an equal `same` are one call; None joins no other. `name`: of the thread.
    """
    key = object() if same is None else same
    with _guard:
        future = _running.get(key)
        if future is None:
            future = begun(partial(_and_forget, key, call), name=name)
            _running[key] = future  # not before: without a thread the call would never end, and nobody must join it
    if not (_over(future, seconds) if stop is None else _over_or_stopped(future, seconds, stop)):
        raise TimeoutError(f"it took more than {seconds:g} s")
    result: _T = future.result()
    return result


def within(seconds: float, work: Callable[[], object], *, name: str) -> bool:
    """Whether `work` ended within `seconds`. It must not raise."""
    try:
        in_time(seconds, work, name=name)
    except TimeoutError:
        return False
    return True


def _over(future: Future[Any], seconds: float) -> bool:
    try:
        future.exception(max(0.0, seconds))
    except TimeoutError:
        return False
    return True


def _over_or_stopped(future: Future[Any], seconds: float, stop: threading.Event) -> bool:
    end = time.monotonic() + seconds
    while not stop.is_set():
        left = end - time.monotonic()
        if _over(future, min(left, _GLANCE)):
            return True
        if left <= 0:
            return False
    raise Stopped("asked to stop")


def _run(future: Future[_T], call: Callable[[], _T]) -> None:
    try:
        result = call()
    except BaseException as error:  # raised in the callers, whatever it is
        future.set_exception(error)
    else:
        future.set_result(result)


def _and_forget(key: Hashable, call: Callable[[], _T]) -> _T:
    try:
        return call()
    finally:
        _forget(key)


def _forget(key: Hashable) -> None:
    with _guard:
        _running.pop(key, None)


def _start_over() -> None:
    """After a fork: the threads are the parent's, and the lock may be held for ever."""
    global _guard, _running
    _guard, _running = threading.Lock(), {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
