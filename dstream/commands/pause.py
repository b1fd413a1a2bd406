"""`dstream pause`: a table is not read until it is resumed; its offset stays, and so do its changes, until cleanup removes them."""

from __future__ import annotations

from typing import Annotated

import typer

from dstream.audited import AuditPlace, Reason, audited
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.printing import print_lines, printed_or_unread
from dstream.starting import imported, of_tables


def pause(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    reason: Reason = None,
    audit_file: AuditPlace = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Stop reading a table until `dstream resume`; the others go on.

    Ingesters notice it within 5 seconds, and remember it over restarts. Changes wait in SQL Server until its cleanup removes them.
    """
    settings = of_tables(config, log_level, log_format)
    with audited("table.pause", table, reason, audit_file=audit_file) as said:
        done = imported("ingester.commands.pauses").pause(settings, table, reason)
        if not done.changed:
            said.refused("it is paused already")
    since = "" if done.pause is None else f" since {done.pause.at} by {done.pause.by}"
    why = "" if done.pause is None or done.pause.reason is None else f": {done.pause.reason}"
    if done.changed:
        lines = [
            f"{done.table}: paused{since}{why}",
            "ingesters notice it within 5 seconds; what is in flight is finished",
            "an ingester whose login may not read dbo.cdc_pauses does not notice it: `dstream check` with its configuration reports that",
            "its changes wait in SQL Server until cleanup removes them: `dstream status` shows the headroom",
        ]
    else:
        lines = [f"{done.table}: is paused already{since}{why}"]
    return printed_or_unread(lambda: print_lines(lines), 0)
