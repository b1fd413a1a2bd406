"""`dstream status`: what the stores know of tables, owners and waiting messages, once or again and again."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.errors import DStreamError, TransientError
from common.in_time import in_time
from common.unread import Unread
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel, Stage
from dstream.printing import NotPrinted, print_document, print_lines, printed
from dstream.rendering.status import Status, status_document, status_lines
from dstream.reporting import INTERRUPTED
from dstream.starting import imported, logged, of_stages

if TYPE_CHECKING:
    from common.bus.depths import Depth
    from common.bus.settings import BusSettings

_READ_SECONDS = 300.0
"""Each part has shorter deadlines; this one ends what they forgot."""
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class _Stages:
    """The settings of the stages to look at; None for one that is left out."""

    ingester: Any = None
    router: Any = None


def status(
    config: Config = DEFAULT,
    stage: Annotated[
        Stage, typer.Option("--stage", help="What to look at. Choose one stage where only its secrets are set.")
    ] = Stage.BOTH,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of tables.")] = False,
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
    """In another thread, so that Ctrl-C need not wait for a server."""
    try:
        return in_time(_READ_SECONDS, lambda: _looked(stages, stop), name="status")
    except TimeoutError as error:
        raise TransientError(f"reading the status: no end within {_READ_SECONDS:.0f} s") from error


def _looked(stages: _Stages, stop: threading.Event) -> Status:
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    unread: list[Unread] = []
    tables: list[Any] = []
    owners: dict[str, int] = {}
    if stages.ingester is not None:
        of_ingester = imported("ingester.commands.status")
        tables = of_ingester.tables_seen(stages.ingester, stages.ingester.tables, unread)
        owners = of_ingester.ingesters(tables)
    queue = _queue(stages, unread, stop)
    topics = []
    if stages.router is not None:
        topics = imported("router.status").topic_depths(stages.router, unread, stop)
    return Status(at, tables, owners, queue, topics, unread)


def _queue(stages: _Stages, unread: list[Unread], stop: threading.Event) -> Depth | None:
    """With the rights of either stage: mostly one of them may manage, if any."""
    ways = []
    if stages.router is not None:
        ways.append((stages.router.source, stages.router.queue_name))
    if stages.ingester is not None:
        ways.append((stages.ingester.queue, stages.ingester.queue.name))
    failed = list[Unread]()
    for settings, name in ways:
        found = _depth(settings, name, stop)
        if isinstance(found, DStreamError):
            failed.append(Unread(f"queue {name}", found.message, found.hint))
            continue
        if found is None:
            unread.append(Unread(f"queue {name}", "it does not exist yet; it is created at the first start"))
        return found
    unread += failed[:1]
    return None


def _depth(settings: BusSettings, name: str, stop: threading.Event) -> Depth | DStreamError | None:
    """Of the ingest queue: why it cannot be read, or None where there is none yet."""
    from common.buses import bus_of

    with closing(bus_of(settings)) as bus:
        try:
            return bus.entities.queue_depth(name, stop=stop)
        except DStreamError as error:
            return error
