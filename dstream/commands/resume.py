"""`dstream resume`: a paused table is read again, from its offset."""

from __future__ import annotations

from typing import Annotated

import typer

from dstream.audited import AuditPlace, Reason, audited
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.printing import print_lines, printed_or_unread
from dstream.starting import imported, of_tables


def resume(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    reason: Reason = None,
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Read a paused table again, from where it stopped.

    Ingesters notice it within 5 seconds.
    """
    settings = of_tables(config, log_level, log_format)
    with audited("table.resume", table, reason, audit_file=audit_file) as said:
        done = imported("ingester.commands.pauses").resume(settings, table, reason)
        if not done.changed:
            said.refused("it is not paused")
    line = "resumed; ingesters notice it within 5 seconds" if done.changed else "is not paused"
    return printed_or_unread(lambda: print_lines([f"{done.table}: {line}"]), 0)
