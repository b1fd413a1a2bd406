"""The questions to the stores, each for one part of what is looked at. Nothing is changed, claimed or received."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from common.bus.depths import Depth
from common.unread import Unread
from desk.importing import imported
from desk.status import Stages, capture_of, known_router, queue_of, tables_of
from desk.watching.entities import Topics

if TYPE_CHECKING:
    from ingester.capture_status import Explanation
    from ingester.commands.kept import Kept
    from ingester.commands.status import TableStatus


@dataclass(frozen=True, slots=True)
class SeenTables:
    tables: Sequence[TableStatus] = ()
    owners: Mapping[str, int] | None = None


class Stores:
    """`stages`: their settings; None for one that this console does not know. Connections to the database are kept between questions."""

    def __init__(self, stages: Stages, stop: threading.Event) -> None:
        self.stages = stages
        self._stop = stop
        self._of_tables: Kept | None = None
        self._of_capture: Kept | None = None
        self._queue_used = False
        """Whether a table had an offset when it was last looked at: a queue that is missing then may have been deleted."""

    def tables(self, unread: list[Unread]) -> SeenTables:
        if self._of_tables is None:
            self._of_tables = self._kept()
        found = SeenTables(*tables_of(self.stages.ingester, unread, self._of_tables))
        self._queue_used = self._queue_used or any(table.position is not None for table in found.tables)
        return found

    def _kept(self) -> Kept | None:
        if self.stages.ingester is None:
            return None
        kept: Kept = imported("ingester.commands.kept").Kept(self.stages.ingester)
        return kept

    def queue(self, unread: list[Unread]) -> Depth | None:
        return queue_of(self.stages, unread, self._stop, used=self._queue_used)

    def topics(self, unread: list[Unread]) -> Topics:
        if self.stages.router is None:
            return Topics()
        router = known_router(self.stages, unread)
        places, of_tables = places_of(router)
        seen = imported("router.status").topics_seen(router, unread, self._stop)
        known = {name: places[name] for name in places if name in seen.by_output}
        return Topics(seen.by_output, known, of_tables, router.subscriptions, seen.missing)

    def capture(self, unread: list[Unread]) -> Explanation | None:
        """Why changes come late or not at all; None while capture keeps up."""
        if self.stages.ingester is None:
            return None
        if self._of_capture is None:
            self._of_capture = self._kept()
        return capture_of(self.stages.ingester, self._of_capture)

    def close(self) -> None:
        """Waits for no question that is under way."""
        for kept in (self._of_tables, self._of_capture):
            if kept is not None:
                kept.close()


def places_of(router: Any) -> tuple[dict[str, list[str]], dict[str, list[tuple[str, str]]]]:
    """The places of each output, and (output, place) of each table, by its key in lower case."""
    places: dict[str, list[str]] = {}
    of_tables: dict[str, list[tuple[str, str]]] = {}
    for output, streams in router.streams.items():
        places[output] = list(dict.fromkeys(stream.destination for stream in streams.values()))
        for stream in streams.values():
            if stream.table is not None:
                of_tables.setdefault(stream.table.key.lower(), []).append((output, stream.destination))
    return places, of_tables


@dataclass(frozen=True, slots=True)
class Names:
    """What does not change while this console runs."""

    server: str
    database: str
    namespace: str
    queue: str


def names_of(stages: Stages) -> Names:
    """Opens nothing. Raises ConfigurationError."""
    from common.buses import bus_of

    ingester, router = stages.ingester, stages.router
    source = router.source if router is not None else ingester.queue
    with closing(bus_of(source)) as bus:
        namespace = bus.host
    queue = router.queue_name if router is not None else ingester.queue.name
    if ingester is not None:
        return Names(ingester.db.host, ingester.db.database, namespace, queue)
    origin = router.origin
    return Names("" if origin is None else origin.server, "" if origin is None else origin.database, namespace, queue)
