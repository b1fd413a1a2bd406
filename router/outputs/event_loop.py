"""An event loop in a thread of its own, for client libraries that have no other form. Threads call into it, and each call has a deadline.

A call that is over is cancelled inside the loop, which closes what it used. A loop that does not answer is not waited for. Names are resolved in
threads that nobody waits for, so that a resolver that hangs does not outlive its call or hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from common.errors import TransientError
from common.in_time import begun

_T = TypeVar("_T")

_SLACK = 5.0
"""Seconds that the loop may take to cancel a call whose time is up."""
_CLOSING = 3.0
"""Seconds for the loop to end."""


class LoopThread:
    """Started by the first call, and again by the first one after `close`. Callable from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: set[Future[Any]] = set()

    def call(self, coroutine: Coroutine[Any, Any, _T], *, seconds: float, doing: str) -> _T:
        """What `coroutine` returns or raises. Raises TransientError when it takes longer than `seconds`, and when `cut` or `close` ends it.

        `doing`: what an error begins with.
        """
        future = self._begin(asyncio.wait_for(coroutine, max(0.0, seconds)), coroutine)
        try:
            return future.result(max(0.0, seconds) + _SLACK)
        except CancelledError:
            raise TransientError(f"{doing}: it was cut off from outside") from None
        except TimeoutError as error:
            if not future.done():
                future.cancel()
                raise TransientError(f"{doing}: no answer within {seconds:.1f} s, nor from its event loop") from error
            raise TransientError(f"{doing}: no answer within {seconds:.1f} s") from error
        finally:
            with self._guard:
                self._running.discard(future)

    @property
    def running(self) -> bool:
        """Whether a call was made since `close`."""
        return self._loop is not None

    def cut(self) -> None:
        """End every call that is under way."""
        with self._guard:
            running = list(self._running)
        for future in running:
            future.cancel()

    def close(self) -> None:
        """End every call, and the loop. Waits a few seconds at most."""
        self.cut()
        with self._guard:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSING)

    def _begin(self, bounded: Coroutine[Any, Any, _T], inner: Coroutine[Any, Any, _T]) -> Future[_T]:
        with self._guard:
            try:
                future = asyncio.run_coroutine_threadsafe(bounded, self._started())
            except BaseException:
                bounded.close()
                inner.close()
                raise
            self._running.add(future)
        return future

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = _Loop()
            self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()
        return self._loop


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        answer: asyncio.Future[list[Any]] = self.create_future()

        def tell(found: list[Any] | OSError) -> None:
            if answer.done():
                return  # nobody waits for it any longer
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def resolve() -> None:
            try:
                found: list[Any] | OSError = socket.getaddrinfo(host, port, family, type, proto, flags)
            except OSError as error:
                found = error
            with suppress(RuntimeError):  # the loop is closed
                self.call_soon_threadsafe(tell, found)

        begun(resolve, name="resolve")
        return await answer


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
