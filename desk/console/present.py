"""The configuration that holds now, for parts that must see an edit without a restart. Where it cannot be used, the last one that could holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

from common.errors import DStreamError
from common.unread import Unread, read_or
from desk.importing import imported
from desk.status import Stages, known_router

_MATCHES_SECONDS = 60.0
"""Patterns find new tables within this time."""

Load = Callable[[], tuple[Any, Any]]
"""The settings of both stages; it keeps them while the file is the same. Raises DStreamError."""


class Present:
    """Callable from any thread. Has the attributes of `Stages`, which are those of now."""

    def __init__(self, first: Stages, load: Load | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stages, self._load, self._clock = first, load, clock
        self._matched: tuple[float, Stages, Stages] | None = None
        self._lock = threading.Lock()

    @property
    def ingester(self) -> Any:
        return self.now().ingester

    @property
    def router(self) -> Any:
        return self.now().router

    def as_stages(self) -> Stages:
        """For what asks for the attributes again each time."""
        return cast(Stages, self)

    def now(self) -> Stages:
        """As the file says."""
        if self._load is None:
            return self._stages
        try:
            ingester, router = self._load()
        except DStreamError:  # `load` has logged it
            return self._stages
        if ingester is not self._stages.ingester or router is not self._stages.router:
            self._stages = Stages(ingester, router)
        return self._stages

    def matched(self) -> Stages:
        """With the tables that patterns match. Asks the database once a minute at most; without it, patterns match nothing new."""
        now = self.now()
        with self._lock:
            if self._matched is not None and self._matched[1] is now and self._clock() < self._matched[0]:
                return self._matched[2]
            unread = list[Unread]()
            ingester = now.ingester
            if ingester is not None:
                stores = imported("ingester.commands.stores")
                ingester = read_or(
                    unread, "tables that patterns match", lambda: stores.with_matches(now.ingester), ingester
                )
            router = None if now.router is None else known_router(Stages(ingester, now.router), unread)
            found = Stages(ingester, router)
            self._matched = self._clock() + (5.0 if unread else _MATCHES_SECONDS), now, found
            return found
