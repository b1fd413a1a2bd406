"""`dstream snapshot`: `start`, `list`, `pause`, `resume` and `stop`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from common.unread import Unread
from dstream.audited import AuditPlace, audited
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel
from dstream.printing import print_document, print_lines, printed_or_unread
from dstream.rendering.snapshots import changed_lines, listed_document, listed_lines, started_lines
from dstream.starting import imported, of_tables, prepared


def _which(done: str) -> Any:
    """The argument of a command by which a snapshot is `done`."""
    help = f"A snapshot's id; or a table: for all of its snapshots that can be {done}."
    return typer.Argument(metavar="ID|TABLE", help=help)


def start(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="EXPR", help="Only the rows that meet this T-SQL condition on their columns."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="To this topic instead of the table's; it is created or checked."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would be, and ask for nothing.")] = False,
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Send the rows that a table holds now, while its changes go on."""
    settings, topic = _with_topic(config, log_level, log_format, to, dry_run=dry_run)
    module = imported("ingester.commands.snapshots")
    order = {} if to is None else {"topic": to}
    if where is not None:
        order["where"] = f"{len(where)} characters"
    with audited("snapshot.start", table, audit_file=audit_file, dry_run=dry_run, order=order) as said:
        found = module.start(settings, table, where=where, topic=topic, dry_run=dry_run)
        said.details = {"snapshot": found.id}
    return printed_or_unread(lambda: print_lines(started_lines(found)), 0)


def _with_topic(
    config: Path, level: Level, format: Format, to: str | None, *, dry_run: bool
) -> tuple[Any, Callable[[], str | None]]:
    """The ingester's settings, and what provides the topic. The router's are needed only where another topic is named."""
    from dstream.config import load_both

    if to is None:
        return of_tables(config, level, format), lambda: None
    settings, router = prepared(load_both, config, level, format)
    settings = imported("ingester.commands.stores").with_matches(settings)
    topics = imported("router.side_topic")
    name = topics.named(router, to)
    return settings, lambda: name if dry_run else topics.provide(router, to)


def list_snapshots(
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="The tables (default: all).")] = None,
    last: Annotated[int, typer.Option("--last", min=1, max=10_000, metavar="N", help="How many at most.")] = 20,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Show how far each snapshot has come: those that are not over first, then the newest.

    The exit status is 1 if something cannot be read.
    """
    settings = of_tables(config, log_level, log_format)
    unread: list[Unread] = []
    found = imported("ingester.commands.snapshots").listed(settings, tables or [], last, unread)
    status = int(bool(unread))
    if as_json:
        return printed_or_unread(lambda: print_document(listed_document(found, unread)), status)
    return printed_or_unread(lambda: print_lines(listed_lines(found, unread)), status)


def pause(
    which: Annotated[str, _which("paused")],
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Let a snapshot wait until it is resumed."""
    return _change(config, log_level, log_format, which, "paused", audit_file)


def resume(
    which: Annotated[str, _which("resumed")],
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Resume a snapshot that was paused or that failed. It goes on where it stopped."""
    return _change(config, log_level, log_format, which, "waiting", audit_file)


def stop(
    which: Annotated[str, _which("stopped")],
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """End a snapshot: it cannot be resumed. What was sent stays sent."""
    return _change(config, log_level, log_format, which, "stopped", audit_file)


SUBCOMMANDS: tuple[tuple[str, Callable[..., int]], ...] = (
    ("start", start),
    ("list", list_snapshots),
    ("pause", pause),
    ("resume", resume),
    ("stop", stop),
)


_DOES = {"paused": "pause", "waiting": "resume", "stopped": "stop"}


def _change(config: Path, level: Level, format: Format, which: str, state: str, audit_file: Path | None) -> int:
    """The exit status is 1 if one of them is over already."""
    settings = of_tables(config, level, format)
    to = imported("ingester.history.snapshot").SnapshotState(state)
    with audited(f"snapshot.{_DOES[state]}", which, audit_file=audit_file) as said:
        changed = imported("ingester.commands.snapshots").change(settings, which, to)
        if status := int(not all(each.done for each in changed)):
            said.refused("one of them is over already")
    return printed_or_unread(lambda: print_lines(changed_lines(changed)), status)
