"""`dstream status`: what the stores know of tables, owners and waiting messages, once or again and again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.errors import DStreamError, TransientError
from common.in_time import begun
from common.unread import Unread, read_or
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel, Stage, WhichStage
from dstream.printing import NotPrinted, print_document, print_lines, printed
from dstream.rendering.status import Status, status_document, status_lines
from dstream.reporting import INTERRUPTED
from dstream.starting import imported, logged, of_stages

if TYPE_CHECKING:
    from common.bus.depths import Depth
    from common.bus.ports import Bus, EntityManager

_READ_SECONDS = 300.0
"""Each part has shorter deadlines; this one ends what they forgot."""
_BOTH = "leave out --stage router, where the ingester's settings are set as well"
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class _Stages:
    """The settings of the stages to look at; None for one that is left out."""

    ingester: Any = None
    router: Any = None


def status(
    config: Config = DEFAULT,
    stage: WhichStage = Stage.BOTH,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option("--every", min=1, max=86_400, metavar="SECONDS", help="The pause of --watch.")
    ] = 5,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Show tables, owners, lag, headroom and waiting messages.

    From the stores alone: no stage has to run, and nothing is changed. The exit status is 1 if something cannot be read.
    """
    logged(log_level, log_format)
    stages = _Stages(*of_stages(stage, config))
    stop = threading.Event()
    try:
        if watch:
            return _watched(stages, every, stop, as_json=as_json)
        found = _read(stages, stop)
        _show(found, as_json=as_json)
    except NotPrinted as error:
        if error.reader_gone():
            return 1
        raise
    finally:
        stop.set()
    return int(bool(found.unread))


def _watched(stages: _Stages, every: float, stop: threading.Event, *, as_json: bool) -> int:
    """Until Ctrl-C; the exit status is that of the last look, if one was finished."""
    last = INTERRUPTED
    try:
        while True:
            found = _read(stages, stop)
            last = int(bool(found.unread))
            if as_json:
                print_document(status_document(found), on_one_line=True)
            else:
                printed(f"{_CLEAR if sys.stdout.isatty() else ''}{found.at}")
                print_lines([*status_lines(found), ""])
            stop.wait(every)
    except KeyboardInterrupt:
        return last


def _show(found: Status, *, as_json: bool) -> None:
    if as_json:
        print_document(status_document(found))
    else:
        print_lines(status_lines(found))


def _read(stages: _Stages, stop: threading.Event) -> Status:
    """Asks all stores at once, so that it takes as long as the slowest; in other threads, so that Ctrl-C need not wait for a server."""
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    of_tables, of_queue, of_topics = list[Unread](), list[Unread](), list[Unread]()
    depths = [
        (name, begun(partial(_depth, bus, entities, name, stop), name="status-queue"))
        for bus, entities, name in _queue_as_seen_by(stages)
    ]
    tables = begun(lambda: _tables(stages.ingester, of_tables), name="status-tables")
    topics = begun(lambda: _topics(stages, of_topics, stop), name="status-topics")
    parts: list[Future[Any]] = [tables, topics, *(depth for _, depth in depths)]
    if wait(parts, _READ_SECONDS).not_done:
        raise TransientError(f"reading the status: no end within {_READ_SECONDS:.0f} s")
    seen, owners = tables.result()
    queue = _queue(depths, of_queue)
    return Status(at, seen, owners, queue, topics.result(), [*of_tables, *of_queue, *of_topics])


def _tables(settings: Any, unread: list[Unread]) -> tuple[list[Any], dict[str, int]]:
    """The tables, and how many of them each ingester has."""
    if settings is None:
        return [], {}
    module, stores = imported("ingester.commands.status"), imported("ingester.commands.stores")
    settings = read_or(unread, "tables that patterns match", lambda: stores.with_matches(settings), settings)
    tables = module.tables_seen(settings, settings.streams, unread)
    return tables, module.ingesters(tables)


def _topics(stages: _Stages, unread: list[Unread], stop: threading.Event) -> Sequence[Depth]:
    if stages.router is None:
        return []
    router = stages.router
    if router.selection.patterns and stages.ingester is None:
        unread.append(Unread("topics of tables that patterns match", "only the database knows these tables", _BOTH))
    elif router.selection.patterns:
        # Where the database cannot be asked, the part of the tables says so.
        known = imported("ingester.commands.stores")
        router = read_or([], "", lambda: router.with_tables(known.with_matches(stages.ingester).tables), router)
    depths: Sequence[Depth] = imported("router.status").topic_depths(router, unread, stop)
    return depths


def _queue_as_seen_by(stages: _Stages) -> list[tuple[Bus, EntityManager, str]]:
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


def _queue(depths: Sequence[tuple[str, Future[Depth | None]]], unread: list[Unread]) -> Depth | None:
    """The first answer. Without one, the first error is in `unread`."""
    failed = list[Unread]()
    for name, depth in depths:
        try:
            found = depth.result()
        except DStreamError as error:
            failed.append(Unread(f"queue {name}", error.message, error.hint))
            continue
        if found is None:
            unread.append(Unread(f"queue {name}", "it does not exist yet; it is created at the first start"))
        return found
    unread += failed[:1]
    return None
