"""Has readiness name an edit of the configuration file that cannot be used. Watches no file, and decides nothing about an edit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from common.errors import ConfigurationError
from ingester.settings import IngesterSettings
from ingester.watch.stats import IngesterStats

Take = Callable[[IngesterSettings], None]

FileWatch = Callable[[Take, Callable[[ConfigurationError], None]], AbstractContextManager[object]]
"""While its context is open, it calls the first function with each changed configuration, from any thread, and the second with the problems of
one that cannot be used, which it has logged."""


def noted(watched: FileWatch, stats: IngesterStats) -> Callable[[Take], AbstractContextManager[object]]:
    """`watched`, with `stats` told whether the file is in force."""

    def watch(take: Take) -> AbstractContextManager[object]:
        def taken(new: IngesterSettings) -> None:
            stats.edited(None)
            take(new)

        return watched(taken, stats.edited)

    return watch
