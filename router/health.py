"""The router's port for health and metrics, for one process or for several that report their figures to a parent."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal

from common.observability.health import HealthEndpoint
from common.observability.health_settings import HealthSettings
from router.awake import Awake, Stillness, stillest
from router.metrics import samples
from router.tally import Figures, Tally

TELL_SECONDS = 5.0
"""How often a worker reports to its parent: well within the time between two requests of Prometheus."""

SILENT_SECONDS = 3 * TELL_SECONDS
"""Seconds without a report after which a worker stands still as a whole."""


def endpoint(settings: HealthSettings | None, figures: Callable[[], Figures]) -> AbstractContextManager[object]:
    """Open while its context is; `figures` is called for each request, from several threads. None: no port.

    Raises PermanentError when the port is not available.
    """
    if settings is None:
        return nullcontext()
    return HealthEndpoint(
        settings,
        alive=lambda: figures().alive(),
        ready=lambda: figures().ready(),
        samples=lambda: samples(figures()),
    )


class Reports:
    """The workers' latest reports, as the figures of one router. The counts of a worker that died stay, and its health no longer matters."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._awake = Awake(clock, 2 * TELL_SECONDS)
        self._guard = threading.Lock()
        self._past = Tally(clock=clock).figures().ended()
        self._told: dict[int, tuple[float, Figures]] = {}
        self.start = Tally(clock=clock)
        """The parent's own: the topics that were unavailable when it opened each once."""

    def told(self, worker: int, figures: Figures) -> None:
        """By the worker of this number."""
        with self._guard:
            self._told[worker] = self._awake(), figures

    def died(self, worker: int) -> None:
        """Its counts stay: a counter never falls."""
        with self._guard:
            if (last := self._told.pop(worker, None)) is not None:
                self._past += last[1].ended()

    def replaced(self, reason: Literal["died", "hung"]) -> None:
        """A worker is started again for this reason."""
        with self._guard:
            self._past = replace(self._past, replaced=self._past.replaced + Counter({reason: 1}))

    def begin(self, topics: frozenset[str]) -> None:
        """From now on messages are sent to these topics; those that workers knew before no longer count."""
        self.start.topics = topics
        with self._guard:
            self._past = replace(self._past, topics=frozenset())

    def figures(self) -> Figures:
        """All together. A worker that no longer reports has stood still since its last report."""
        with self._guard:
            found, now = self._past, self._awake()
            own_figures = self.start.figures()
            found = replace(
                found,
                topics_away=own_figures.topics_away,
                fills=own_figures.fills,
                waiting=own_figures.waiting,
                topics=found.topics | own_figures.topics,
                not_in_force=own_figures.not_in_force,
            )
            for worker, (at, figures) in self._told.items():
                own = replace(figures.still, what=f"worker {worker}: {figures.still.what}")
                silence = Stillness(now - at, SILENT_SECONDS, f"worker {worker} has reported nothing")
                found += replace(figures, still=stillest((own, silence)))
            return found
