"""The link that the senders of an output share, and the next one when there is doubt about it. Sends nothing itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from router.outputs.kafka.link import Batch, Link

GRACE = 1.0
"""Seconds for the batches of others to end before a link is thrown away: the trouble may be that of one topic alone."""


class Links:
    """Callable from any thread. One link at a time is in use; it is made for the first batch."""

    def __init__(self, make: Callable[[], Link]) -> None:
        self._make = make
        self._guard = threading.Lock()
        self._link: Link | None = None
        self._leaving: set[Link] = set()

    def begin(self, batch: Batch) -> Link:
        """A link that `batch` is registered with; `end` it there. Raises what making one does."""
        while True:
            link = self._current()
            if link.begin(batch):
                return link

    def _current(self) -> Link:
        with self._guard:
            if self._link is not None and not self._link.is_usable:
                if self._link.is_fatal:
                    self._link.throw_away()
                self._link = None  # whoever doubts it throws it away, when the batches of others have had their time
            if self._link is None:
                self._link = self._make()
            return self._link

    def doubt(self, link: Link, batch: Batch) -> None:
        """What `batch` holds is in doubt: nothing of it is accepted any more once this returns, as far as this process can tell."""
        with self._guard:
            self._leaving.add(link)
        link.retire()
        if not link.is_fatal and not batch.was_cut:
            link.wait_for_others(batch, GRACE)
        link.throw_away()
        with self._guard:
            self._leaving.discard(link)
        batch.wait_for_last()

    def cut(self) -> None:
        """End every batch that is in flight."""
        with self._guard:
            links = self._leaving | ({self._link} if self._link is not None else set())
            self._link = None
        for each in links:
            each.cut()
