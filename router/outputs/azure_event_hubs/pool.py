"""The links of an output, shared by its senders: as many to a hub as send to it at the same time, however many tables go there.

A link is borrowed for one call of `send`. One that failed is closed and never used again, because its state is unknown; one that was not used
for minutes is replaced before it is used, so that nothing is in doubt when the service has closed it meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from common.azure_amqp.deadline import cut_calls_of
from common.clock import SteadyClock, SteadyTime, steady
from common.errors import TransientError
from router.outputs.azure_event_hubs.link import HubLink

BUSY = 4.0
"""Seconds for which the service asks a client to wait after "server busy", in the words of its answer."""


class LinkPool:
    """Callable from any thread. `make`: a link to a hub, not opened yet."""

    def __init__(self, make: Callable[[str], HubLink], *, clock: SteadyClock = steady) -> None:
        self._make = make
        self._clock = clock
        self._guard = threading.Lock()
        self._idle: dict[str, list[HubLink]] = {}
        self._lent: set[HubLink] = set()
        self._busy: dict[str, SteadyTime] = {}
        self._closed = False

    def was_busy(self, hub: str) -> None:
        """It has just refused because it was busy."""
        self._busy[hub] = SteadyTime(self._clock() + BUSY)

    def is_busy(self, hub: str) -> bool:
        """Whether it is too early to ask it again."""
        return self._busy.get(hub, SteadyTime(0.0)) > self._clock()

    @contextmanager
    def link(self, hub: str) -> Iterator[HubLink]:
        """For the block alone; it may have to be opened. Raises TransientError once the pool is closed."""
        link = self._taken(hub)
        try:
            yield link
        finally:
            self._give_back(link)

    def _taken(self, hub: str) -> HubLink:
        stale, link = list[HubLink](), None
        with self._guard:
            if self._closed:
                raise TransientError(f"sending to {hub}: the output is closed")
            idle = self._idle.setdefault(hub, [])
            while idle and link is None:
                link = idle.pop()
                if not link.fresh:
                    stale.append(link)
                    link = None
            link = link or self._make(hub)
            self._lent.add(link)
        for each in stale:
            each.close()
        return link

    def _give_back(self, link: HubLink) -> None:
        with self._guard:
            self._lent.discard(link)
            kept = link.sound and not self._closed
            if kept:
                self._idle.setdefault(link.hub, []).append(link)
        if not kept:
            link.close()

    def rest(self, hub: str) -> None:
        """Close the links to a hub that nobody uses now."""
        with self._guard:
            idle = self._idle.pop(hub, [])
        for link in idle:
            link.close()

    def cut(self) -> None:
        """End what is in flight."""
        with self._guard:
            guards = [link.guard for link in self._lent]
        cut_calls_of(guards)

    def close(self) -> None:
        """End what is in flight, and close what is idle."""
        with self._guard:
            self._closed = True
            hubs = list(self._idle)
        self.cut()
        for hub in hubs:
            self.rest(hub)
