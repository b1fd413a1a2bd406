"""The state of everything from the stores alone: no stage has to run, and nothing is changed. What a part could not read is said beside the others.

`dstream status` and the console look in the same way. The stages are imported when they are needed: a router is installed without the
ingester's packages.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from common.bus.depths import CREATE_USED_QUEUE, USED_QUEUE_MISSING, Depth, NoSubscription
from common.errors import DStreamError, TransientError
from common.in_time import begun
from common.unread import Unread, read_or
from desk.importing import imported
from desk.remedies import in_database
from desk.times import written

if TYPE_CHECKING:
    from common.bus.ports import Bus, EntityManager
    from ingester.capture_status import Explanation
    from ingester.commands.kept import Kept
    from ingester.commands.status import TableStatus
    from router.status import SeenTopics

_READ_SECONDS = 300.0
"""Each part has shorter deadlines; this one ends what they forgot."""
_LATE = ("capture_stopped", "capture_lagging")
_BOTH = "leave out --stage router, where the ingester's settings are set as well"


@dataclass(frozen=True, slots=True)
class Stages:
    """The settings of the stages to look at; None for one that is left out."""

    ingester: Any = None
    router: Any = None


@dataclass(frozen=True, slots=True)
class Status:
    """`at`: when it was read, in UTC. `unread`: what could not be read. `capture`: why changes come late or not at all; None while it keeps up.
    `missing`: subscriptions of topics."""

    at: str
    tables: Sequence[TableStatus] = ()
    ingesters: Mapping[str, int] = field(default_factory=dict)
    queue: Depth | None = None
    topics: Sequence[Depth] = ()
    unread: Sequence[Unread] = ()
    capture: Explanation | None = None
    missing: Sequence[NoSubscription] = ()

    @property
    def unknown(self) -> list[Unread]:
        return [each for each in self.unread if not each.note]

    @property
    def notes(self) -> list[Unread]:
        """What cannot be known here although nothing is wrong."""
        return [each for each in self.unread if each.note]


def read(stages: Stages, stop: threading.Event) -> Status:
    """Asks all stores at once, so that it takes as long as the slowest; in other threads, so that Ctrl-C need not wait for a server."""
    at = written(datetime.now(UTC))
    of_tables, of_queue, of_topics = list[Unread](), list[Unread](), list[Unread]()
    depths = [
        (name, begun(partial(_depth, bus, entities, name, stop), name="status-queue"))
        for bus, entities, name in _queue_as_seen_by(stages)
    ]
    tables = begun(lambda: tables_of(stages.ingester, of_tables), name="status-tables")
    topics = begun(lambda: topics_of(stages, of_topics, stop), name="status-topics")
    capture = begun(lambda: late_capture(stages.ingester), name="status-capture")
    parts: list[Future[Any]] = [tables, topics, capture, *(depth for _, depth in depths)]
    if wait(parts, _READ_SECONDS).not_done:
        raise TransientError(f"reading the status: no end within {_READ_SECONDS:.0f} s")
    seen, owners = tables.result()
    queue = _queue(depths, of_queue, used=any(table.position is not None for table in seen))
    entities = topics.result()
    waiting, missing = ((), ()) if entities is None else (entities.depths, entities.missing)
    unread = [*of_tables, *of_queue, *of_topics]
    return Status(at, seen, owners, queue, waiting, unread, capture.result(), missing)


def tables_of(
    settings: Any, unread: list[Unread], kept: Kept | None = None
) -> tuple[list[TableStatus], dict[str, int]]:
    """The tables, and how many of them each ingester has. `kept`: stores of earlier looks to use again."""
    if settings is None:
        return [], {}
    module, stores = imported("ingester.commands.status"), imported("ingester.commands.stores")
    matched = (lambda: stores.with_matches(settings)) if kept is None else kept.with_matches
    settings = read_or(unread, "tables that patterns match", matched, settings)
    tables: list[TableStatus] = module.tables_seen(settings, settings.streams, unread, kept=kept)
    return tables, module.ingesters(tables)


def late_capture(settings: Any) -> Explanation | None:
    """Why capture is stopped or behind, with what to run where. None while it keeps up, and where that cannot be read: then the tables cannot be
    either."""
    if settings is None:
        return None
    try:
        found = capture_of(settings)
    except DStreamError:
        return None
    if found is None or found.state.value not in _LATE:
        return None
    return replace(found, hint=in_database(found.hint, settings.db.database))


def capture_of(settings: Any, kept: Kept | None = None) -> Explanation | None:
    """Why changes come late or not at all; None while capture keeps up. `kept`: as for the tables. Raises DStreamError."""
    late = imported("ingester.capture_status").LAG_SECONDS
    with imported("ingester.commands.stores").database(settings) if kept is None else kept.database() as database:
        newest = database.capture.times().newest
        if newest is not None and newest <= late:
            return None
        database.capture.retention()  # reads the jobs, by whose rhythm silence is judged
        found: Explanation = database.capture.silence(newest)
        return found


def topics_of(stages: Stages, unread: list[Unread], stop: threading.Event) -> SeenTopics | None:
    if stages.router is None:
        return None
    seen: SeenTopics = imported("router.status").topics_seen(known_router(stages, unread), unread, stop)
    return seen


def known_router(stages: Stages, unread: list[Unread]) -> Any:
    """The router's settings, with the tables that patterns match now."""
    router = stages.router
    if router.selection.patterns and stages.ingester is None:
        unread.append(Unread("topics of tables that patterns match", "only the database knows these tables", _BOTH))
    elif router.selection.patterns:
        # Where the database cannot be asked, the part of the tables says so.
        known = imported("ingester.commands.stores")
        router = read_or([], "", lambda: router.with_tables(known.with_matches(stages.ingester).tables), router)
    return router


def queue_of(stages: Stages, unread: list[Unread], stop: threading.Event, *, used: bool) -> Depth | None:
    """How many messages wait in the ingest queue; None if it does not exist, or cannot be read. `used`: whether a table has an offset."""
    ways = _queue_as_seen_by(stages)
    return _queue(
        [(name, begun(partial(_depth, bus, entities, name, stop), name="queue")) for bus, entities, name in ways],
        unread,
        used=used,
    )


def _queue_as_seen_by(stages: Stages) -> list[tuple[Bus, EntityManager, str]]:
    """The ingest queue with the rights of each stage: mostly one of them may manage, if any.

    Imports the bus's SDK before threads run: it shares modules with that of blobs, and two threads that import both may get one half done.
    """
    from common.buses import bus_of

    ways = []
    if stages.router is not None:
        ways.append((bus_of(stages.router.source), stages.router.queue_name))
    if stages.ingester is not None:
        ways.append((bus_of(stages.ingester.queue), stages.ingester.queue.name))
    return [(bus, bus.entities, name) for bus, name in ways]


def _depth(bus: Bus, entities: EntityManager, name: str, stop: threading.Event) -> Depth | None:
    with closing(bus):
        return entities.queue_depth(name, stop=stop)


def _queue(depths: Sequence[tuple[str, Future[Depth | None]]], unread: list[Unread], *, used: bool) -> Depth | None:
    """The first answer. Without one, the first error is in `unread`. `used`: changes may have been sent to it, because a table has an offset."""
    failed = list[Unread]()
    for name, depth in depths:
        try:
            found = depth.result()
        except DStreamError as error:
            failed.append(Unread(f"queue {name}", error.message, error.hint))
            continue
        if found is None and used:
            unread.append(Unread(f"queue {name}", USED_QUEUE_MISSING, CREATE_USED_QUEUE))
        elif found is None:
            unread.append(Unread(f"queue {name}", "it does not exist yet; it is created at the first start"))
        return found
    unread += failed[:1]
    return None
