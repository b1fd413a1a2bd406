"""`dstream offsets`: `show`, `set` and `moves`. Without one of them it is `show`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from common.errors import ConfigurationError
from common.unread import Unread
from dstream.audited import AuditPlace, Reason, audited
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel, moment
from dstream.printing import print_document, print_lines, printed_or_unread
from dstream.rendering.offsets import moves_document, moves_lines, result_lines, shown_document, shown_lines
from dstream.starting import imported, logged, of_tables


class ShowByDefault(TyperGroup):
    """`dstream offsets dbo.Persons --json` is `dstream offsets show dbo.Persons --json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        completing = ctx.resilient_parsing and not args
        if not completing and (not args or args[0] not in {*self.commands, *ctx.help_option_names}):
            args = ["show", *args]
        return list(super().parse_args(ctx, args))


def show(
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="The tables (default: all).")] = None,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Show how far each table was sent, and who owns it.

    The exit status is 1 if something cannot be read.
    """
    settings = of_tables(config, log_level, log_format)
    unread: list[Unread] = []
    chosen = imported("ingester.commands.stores").chosen(settings, tables or [], settings.streams)
    found = imported("ingester.commands.status").tables_seen(settings, chosen, unread, lags=False)
    if as_json:
        return printed_or_unread(lambda: print_document(shown_document(found, unread)), int(bool(unread)))
    return printed_or_unread(lambda: print_lines(shown_lines(found, unread)), int(bool(unread)))


def set_offset(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    lsn: Annotated[
        str | None,
        typer.Option("--lsn", metavar="LSN", help="To before this transaction: it is sent, and all after it."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME", help="To before the first commit at this time, ISO 8601; UTC without a zone."
        ),
    ] = None,
    earliest: Annotated[bool, typer.Option("--earliest", help="To where the captured changes begin now.")] = False,
    latest: Annotated[bool, typer.Option("--latest", help="To after all that is captured now.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would mean, and change nothing.")] = False,
    take: Annotated[bool, typer.Option("--take", help="Even if an ingester reads the table now.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Even if changes will never be sent.")] = False,
    reason: Reason = None,
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Move the offset of one table, and write down who did it.

    Shows what is sent again or never sent. The exit status is 1 if it is refused.
    """
    logged(log_level, log_format)
    if [lsn is not None, time is not None, earliest, latest].count(True) != 1:
        raise ConfigurationError(["choose one of --lsn, --time, --earliest and --latest"])
    at = None if time is None else moment(time)
    module = imported("ingester.commands.offsets")
    end = "earliest" if earliest else "latest" if latest else None
    if lsn is not None:
        module.refuse_unreadable(lsn)
    settings = of_tables(config, log_level, log_format)
    order = {"lsn": lsn, "time": time, "end": end, "take": take, "skip": skip}
    with audited("offset.move", table, reason, audit_file=audit_file, dry_run=dry_run, order=order) as said:
        target, confirmed = module.Target(lsn=lsn, time=at, end=end), module.Confirmed(take=take, skip=skip)
        result = module.move(settings, table, target, confirmed, dry_run=dry_run, reason=reason)
        said.details = {"begun": result.begun, "to": result.to, "lacking": [option for option, _ in result.lacking]}
        if not result.moved:
            said.outcome = "refused"
    lines = result_lines(result, dry_run=dry_run, duplicate_window=settings.queue.duplicate_window)
    return printed_or_unread(lambda: print_lines(lines), int(bool(result.lacking)))


def moves(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="The table (default: all).")] = None,
    last: Annotated[int, typer.Option("--last", min=1, max=10_000, metavar="N", help="How many at most.")] = 20,
    as_json: AsJson = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Show who moved which offset, the newest first."""
    settings = of_tables(config, log_level, log_format)
    found = imported("ingester.commands.offsets").moves(settings, table, most=last)
    if as_json:
        return printed_or_unread(lambda: print_document(moves_document(found)), 0)
    return printed_or_unread(lambda: print_lines(moves_lines(found)), 0)


SUBCOMMANDS: tuple[tuple[str, Callable[..., int]], ...] = (("show", show), ("set", set_offset), ("moves", moves))
