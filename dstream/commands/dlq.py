"""`dstream dlq`: `list`, `show`, `replay` and `purge`. Dead letters of the ingest queue and of subscriptions, for a person."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.errors import ConfigurationError, DStreamError, PermanentError
from dstream.audited import AuditPlace
from dstream.dead_letter_options import Chosen, Id, filtered
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel
from dstream.printing import print_document, print_lines, printed_or_unread, told_when_slow
from dstream.rendering.dead_letters import (
    asked_lines,
    count_lines,
    counts_document,
    message_lines,
    page_document,
    page_lines,
    progress_line,
    result_lines,
)
from dstream.reporting import FAILED, OK, report
from dstream.starting import imported, loaded, logged

if TYPE_CHECKING:
    from desk.dead_letters.engine import Engine, Kind, Watch
    from desk.documents.messages import DeadLetterOrder, DeadLetterResult

_ENDS_WITHIN = 45.0
"""Seconds after Ctrl-C for what is in flight: a send, and the settlement of what was sent."""

Entity = Annotated[
    str,
    typer.Argument(
        metavar="ENTITY",
        help="`queue` (the ingest queue), `topic/NAME/SUBSCRIPTION`, or, in a further output, `output/LABEL/topic/NAME/SUBSCRIPTION`. "
        "`dstream dlq list` shows those that have dead letters.",
    ),
]
Whose = Annotated[
    str | None,
    typer.Argument(
        metavar="[ENTITY]",
        help="`queue` (the ingest queue), `topic/NAME/SUBSCRIPTION`, or, in a further output, `output/LABEL/topic/NAME/SUBSCRIPTION`. "
        "Without it: how many dead letters each has, and why.",
    ),
]
After = Annotated[
    str | None,
    typer.Option(
        "--after", metavar="PLACE", help="Go on after the page that ended with `--after PLACE`, such as 4711."
    ),
]
Sequences = Annotated[
    list[int] | None,
    typer.Option("--sequence", min=0, max=2**63 - 1, metavar="N", help="With this sequence number; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and change nothing.")]
Why = Annotated[
    str | None,
    typer.Option("--why", "--reason-text", metavar="TEXT", help="Why you do this; kept in the audit log."),
]


@filtered
def list_(
    chosen: Chosen,
    entity: Whose = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, metavar="N", help="How many on a page.")] = 50,
    after: After = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """List dead letters, or count them by entity and reason.

    Nothing is taken or locked. The exit status is 1 if something cannot be read.
    """
    scene = _Scene(config, log_level, log_format, rows=False)
    if entity is None:
        from common.unread import Unread
        from dstream.signals import interruptible

        unread = list[Unread](scene.unread)
        with told_when_slow("counting dead letters"), interruptible(_ENDS_WITHIN) as interruption:
            found = imported("desk.dead_letters.making").counted(scene.router, unread, interruption.stop)
        if interruption.status:
            return interruption.status
        if as_json:
            return printed_or_unread(lambda: print_document(counts_document(found, unread)), int(bool(unread)))
        return printed_or_unread(lambda: print_lines(count_lines(found, unread)), int(bool(unread)))
    scene.named(entity)
    with told_when_slow(f"looking at the dead letters of {entity}"), scene.explorer() as explorer:
        page = explorer.page(entity, dead=True, chosen=chosen, after=after, most=limit, newest_first=newest)
    if as_json:
        return printed_or_unread(lambda: print_document(page_document(page)), int(bool(page.unknown)))
    return printed_or_unread(lambda: print_lines(page_lines(page)), int(bool(page.unknown)))


def show(
    entity: Entity,
    sequence: Annotated[
        int | None, typer.Argument(min=0, max=2**63 - 1, metavar="[SEQUENCE]", help="Its sequence number.")
    ] = None,
    message_id: Id = None,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Show one dead letter: properties, body, its reason and what to do about it."""
    if (sequence is None) == (message_id is None):
        raise ConfigurationError(["name the dead letter by its sequence number or by --id"])
    scene = _Scene(config, log_level, log_format, rows=False)
    scene.named(entity)
    with told_when_slow(f"looking at the dead letters of {entity}"), scene.explorer() as explorer:
        if sequence is None:
            sequence = _sequence_of(explorer, entity, str(message_id))
        found = explorer.message(entity, dead=True, sequence=sequence)
    if as_json:
        return printed_or_unread(lambda: print_document(found.model_dump(mode="json")), OK)
    return printed_or_unread(lambda: print_lines(message_lines(found)), OK)


@filtered
def replay(
    entity: Entity,
    chosen: Chosen,
    sequence: Sequences = None,
    dry_run: DryRun = False,
    safe: Annotated[
        bool, typer.Option("--safe", help="Leave those of rows of which a newer change was sent, or may have been.")
    ] = False,
    most_replays: Annotated[
        int,
        typer.Option("--most-replays", min=1, max=100, metavar="N", help="Leave those that were replayed so often."),
    ] = 3,
    unreadable: Annotated[
        bool, typer.Option("--unreadable", help="Send also what the router could not read (MalformedMessage, ...).")
    ] = False,
    why: Why = None,
    audit_file: AuditPlace = None,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Send dead letters again: those of the queue to the queue, those of a subscription to its topic.

    Each is taken under its lock, sent as a copy with a new id, and completed. A run that was killed is resumed by the next. The exit status is 1
    if one was left.
    """
    from desk.documents.messages import DeadLetterOrder

    order = DeadLetterOrder(
        entity=entity,
        filter=chosen,
        sequences=sequence or None,
        dry_run=dry_run,
        safe=safe,
        most_replays=most_replays,
        unreadable=unreadable,
        reason=why,
    )
    scene = _Scene(config, log_level, log_format, rows=True)
    scene.named(entity)
    return _done(scene, order, "replay", audit_file, as_json=as_json)


@filtered
def purge(
    entity: Entity,
    chosen: Chosen,
    sequence: Sequences = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    why: Why = None,
    audit_file: AuditPlace = None,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Remove dead letters for ever, without sending them.

    Asks for the entity's name first, unless --yes is given. Their ids are kept in the audit log.
    """
    from desk.documents.messages import DeadLetterOrder

    order = DeadLetterOrder(entity=entity, filter=chosen, sequences=sequence or None, dry_run=dry_run, reason=why)
    scene = _Scene(config, log_level, log_format, rows=False)
    scene.named(entity)
    if not dry_run and not yes:
        _confirmed(scene, order, audit_file)
    return _done(scene, order, "purge", audit_file, as_json=as_json)


SUBCOMMANDS: tuple[tuple[str, Callable[..., int]], ...] = (
    ("list", list_),
    ("show", show),
    ("replay", replay),
    ("purge", purge),
)


class _Scene:
    """The settings, as far as they are set here. `rows`: whether SQL Server is asked about newer changes."""

    def __init__(self, config: Path, level: Level, format: Format, *, rows: bool) -> None:
        from common.unread import Unread
        from dstream.config import load_both, load_router

        logged(level, format)
        self.ingester: Any = None
        try:
            self.ingester, router = loaded(load_both, config)
        except ConfigurationError:
            router = loaded(load_router, config)  # as in a router's pod, where SQL Server's secrets are not set
        status = imported("desk.status")
        self.unread = list[Unread]()
        self.router: Any = status.known_router(status.Stages(self.ingester, router), self.unread)
        self._rows = rows

    def named(self, entity: str) -> None:
        """Raises ConfigurationError where the configuration sends to no entity of this name."""
        try:
            imported("desk.messages.places").Places(self.router).of(entity)
        except PermanentError as error:
            unread = [
                f"unknown: {each}" for each in self.unread
            ]  # it may be a topic of a table that could not be listed
            raise ConfigurationError([error.message, *unread], hint=error.hint) from error

    @contextmanager
    def explorer(self) -> Iterator[Any]:
        browsers = imported("desk.messages.browsers").Browsers(imported("common.buses").shelves_of)
        places = imported("desk.messages.places").Places(self.router)
        with closing(browsers):
            yield imported("desk.messages.explorer").Explorer(lambda: places, browsers)

    def engine(self, audit_file: Path | None) -> Engine:
        audit = imported("desk.audit")
        path = audit_file or audit.default_place()
        made: Engine = imported("desk.dead_letters.making").engine_of(
            lambda: self.router, self._newer, audit.AuditFile(path), path
        )
        return made

    def _newer(self) -> Any:
        if self.ingester is None or not self._rows:
            return None
        return imported("ingester.commands.changes").newer_changes(self.ingester)


def _sequence_of(explorer: Any, entity: str, message_id: str) -> int:
    from desk.documents.messages import MessageFilter

    chosen, after = MessageFilter(message_id=message_id), None
    while True:
        page = explorer.page(entity, dead=True, chosen=chosen, after=after, most=1)
        if page.items:
            return int(page.items[0].sequence)
        if page.next is None or page.unknown:
            raise PermanentError(f"looking for the dead letter {message_id} of {entity}: there is none")
        after = page.next


def _confirmed(scene: _Scene, order: DeadLetterOrder, audit_file: Path | None) -> None:
    """Raises ConfigurationError where nobody agrees."""
    if not sys.stdin.isatty():
        raise ConfigurationError(["a purge removes changes for ever, and nobody can be asked here"], hint="add --yes")
    from desk.dead_letters.engine import Watch

    engine = scene.engine(audit_file)
    with told_when_slow(f"looking at the dead letters of {order.entity}"):
        plan = engine.plan(order, "purge", Watch())
    print_lines(asked_lines(plan))
    if input().strip() != order.entity:
        raise ConfigurationError(["nothing was removed: the name was not repeated"])


def _done(scene: _Scene, order: DeadLetterOrder, kind: Kind, audit_file: Path | None, *, as_json: bool) -> int:
    """Plan or do it; the exit status."""
    from desk.audit import local_user
    from desk.dead_letters.engine import Watch
    from desk.desk import Actor
    from dstream.signals import interruptible

    engine = scene.engine(audit_file)
    actor = Actor(local_user(), "command", secrets.token_hex(8))
    with interruptible(_ENDS_WITHIN) as interruption:
        watch = Watch(stop=interruption.stop)
        if sys.stderr.isatty():
            watch.changed = lambda: _progress(watch)
        doing = f"{'replaying' if kind == 'replay' else 'purging'} dead letters of {order.entity}"
        try:
            with told_when_slow(doing, unless=lambda: sys.stderr.isatty() and bool(watch.examined)):
                result = engine.plan(order, kind, watch) if order.dry_run else engine.run(order, kind, actor, watch)
        except DStreamError as error:
            if (done := watch.so_far()) is not None:
                _print(done, kind, as_json=as_json)
            if interruption.status:
                report(error)
                return interruption.status
            raise
        finally:
            if sys.stderr.isatty():
                sys.stderr.write("\r\033[K")
    for each in scene.unread:
        print(f"unknown: {each}", file=sys.stderr)
    _print(result, kind, as_json=as_json)
    return interruption.status or (FAILED if result.left_count or not result.complete else OK)


def _progress(watch: Watch) -> None:
    sys.stderr.write(f"\r{progress_line(watch)}\033[K")


def _print(result: DeadLetterResult, kind: Kind, *, as_json: bool) -> None:
    if as_json:
        print_document(result.model_dump(mode="json"))
    else:
        print_lines(result_lines(result, kind))
