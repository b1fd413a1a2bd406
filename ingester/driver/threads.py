"""Threads for waiting, as many as are needed. One that hangs blocks neither the others nor the end of the process.

A ThreadPoolExecutor would: it counts hung threads too, and the interpreter waits for them when it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]


class Threads:
    """Runs work at once, in an idle thread or a new one. `name`: of the threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._idle: list[SimpleQueue[Work | None]] = []
        self._closed = False

    def run(self, work: Work) -> None:
        """`work` must not raise. From any thread."""
        with self._guard:
            waiting = self._idle.pop() if self._idle else None
        if waiting is not None:
            waiting.put(work)
        else:
            threading.Thread(target=self._live, args=(work,), name=self._name, daemon=True).start()

    def close(self) -> None:
        """End idle threads now, and the others when their work is done."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for waiting in idle:
            waiting.put(None)

    def _live(self, work: Work) -> None:
        orders: SimpleQueue[Work | None] = SimpleQueue()
        todo: Work | None = work
        while todo is not None:
            todo()
            with self._guard:
                if self._closed:
                    return
                self._idle.append(orders)
            todo = orders.get()
