"""How full the queue and the topics are: checked during the routing, and reported in the log and by a gauge before sends fail. And how many
messages wait in the queue.

All tables share the queue. A topic that nobody reads fills up, and its changes back up in the queue until it accepts no table's changes. Without
the Manage right this cannot be checked, and is not tried again. Never on the path of a message; changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import structlog

from common.bus.ports import Storage
from common.errors import PermanentError, Stopped, TransientError
from router.tally import Tally

LOOK = 60.0
"""Seconds between two checks. A check costs two calls for each entity, or with many topics two for each hundred."""

HALF, NEARLY = 0.5, 0.9
"""Shares of the quota at which a warning and an error are due."""

_BACK = 0.4
"""Below this share it is over, and a later rise is logged again."""

Ask = Callable[[], Mapping[str, Storage]]
"""By name in words ("queue ingest"). Raises PermanentError, TransientError or Stopped."""

log = structlog.get_logger(__name__)


class Fullness:
    """`run` in a thread of its own."""

    def __init__(self, asks: Sequence[Ask], tally: Tally, *, seconds: float = LOOK) -> None:
        """`asks`: one call for each namespace."""
        self._seconds = seconds
        self._asks = list(asks)
        self._tally = tally
        self._told: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Runs until `stop`, or until no right to check is left."""
        while self._asks and not stop.wait(self._seconds):
            self.look()

    def look(self) -> None:
        found = dict[str, Storage]()
        for ask in list(self._asks):
            try:
                found.update(ask())
            except PermanentError as error:
                self._asks.remove(ask)
                log.debug("fill levels cannot be looked at", error=error.message)
            except (TransientError, Stopped) as error:
                log.debug("fill levels not looked at", error=error.message)
        waiting = {
            state: count
            for storage in found.values()
            for state, count in (("active", storage.active), ("dead_letter", storage.dead_letters))
            if count is not None
        }
        self._tally.filled({entity: storage.share for entity, storage in found.items()}, waiting)
        for entity, storage in found.items():
            self._judge(entity, storage)

    def _judge(self, entity: str, storage: Storage) -> None:
        told = self._told.get(entity, 0.0)
        due = NEARLY if storage.share >= NEARLY else HALF if storage.share >= HALF else 0.0
        if storage.share < _BACK:
            if self._told.pop(entity, None) is not None:
                log.info("entity has room again", entity=entity, used=_used(storage))
        elif due > told:
            self._told[entity] = due
            report = log.error if due == NEARLY else log.warning
            report(
                "entity is filling up",
                entity=entity,
                used=_used(storage),
                hint="for the queue, find out which topic the router cannot send to; for a topic, read its subscriptions or delete unread ones: "
                "when it is full its changes fill the queue that all tables share; `dstream check` names the subscription",
            )


def _used(storage: Storage) -> str:
    return f"{storage.share:.0%} of {storage.limit // 2**20} MB"
