"""The start of Spark in a thread of its own, while the process does other things: waited for with a deadline, and until a stop at most.

Ends nothing that it has begun: who waits does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from common.clock import SteadyClock, steady

NEWS_SECONDS = 20.0
"""After which a start that waits for an executor says so."""
LOCAL_NEWS_SECONDS = 40.0
"""The same of a local Spark, which lacks no executor: a loaded machine takes long, too."""
_LOOK = 0.02


class Start:
    """Calls `begin` in a thread, once, from now on. `news`: called with the seconds that are left when it takes long."""

    def __init__(
        self,
        begin: Callable[[], Any],
        *,
        seconds: float,
        news: Callable[[float], None] | None = None,
        news_seconds: float = NEWS_SECONDS,
        clock: SteadyClock = steady,
    ) -> None:
        self._clock = clock
        self._deadline = clock() + seconds
        self._news, self._news_at = news, clock() + news_seconds
        self._done = threading.Event()
        self._came: list[Any] = []
        threading.Thread(target=self._run, args=(begin,), name="spark-start", daemon=True).start()

    @property
    def done(self) -> bool:
        """Whether it has succeeded or failed."""
        return self._done.is_set()

    def awaited(self, stop: threading.Event) -> Any:
        """What `begin` has returned, or the exception that it raised; None once `stop` is set. Raises TimeoutError when its time is over."""
        while not self._done.wait(_LOOK):
            if stop.is_set():
                return None
            if self._news is not None and self._clock() >= self._news_at:
                self._news(self._deadline - self._clock())
                self._news = None
            if self._clock() >= self._deadline:
                raise TimeoutError
        return self._came[0]

    def _run(self, begin: Callable[[], Any]) -> None:
        try:
            self._came.append(begin())
        except Exception as error:  # raised in the thread that waits
            self._came.append(error)
        self._done.set()
