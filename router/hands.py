"""A few threads for calls that may hang: a call that waits for an answer keeps one of them busy, and nobody waits for it. Knows nothing of the calls.

They are daemons: a call that hangs does not keep the process from ending.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class Hands:
    """Up to `most` threads, each started when it is needed; further calls wait for one."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._threads = 0
        self._left = 0

    def do(self, job: Callable[[], object]) -> None:
        """Run it soon in a thread; its exceptions are logged. Raises RuntimeError when there is no thread and none can be started."""
        with self._changed:
            if self._threads < min(self._left + 1, self._most):
                self._start_another()
            self._left += 1
        self._jobs.put(job)

    def _start_another(self) -> None:
        name = f"{self._name}-{self._threads + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError:  # the system allows no more threads now
            if not self._threads:
                raise
        else:
            self._threads += 1

    def finish(self, within: float = math.inf) -> int:
        """Wait until all calls are done, at most `within` seconds. Returns how many are not; they go on, and nobody waits for them.

        No further call is accepted.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._left == 0, None if within == math.inf else within)
            for _ in range(self._threads):
                self._jobs.put(None)
            return self._left

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                log.exception("unexpected error", thread=threading.current_thread().name)
            finally:
                with self._changed:
                    self._left -= 1
                    self._changed.notify_all()
