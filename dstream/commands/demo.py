"""`dstream demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from dstream.options import DEFAULT, Format, Level, LogFormat, LogLevel, UnreadConfig
from dstream.starting import logged, started


def demo(
    seconds: Annotated[float, typer.Option(min=1, metavar="N", help="How long the workload runs.")] = 20,
    changes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Commit this many changes, however long it takes.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running after the verdict.")] = False,
    config: UnreadConfig = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Run the whole pipeline on emulators, with a verdict.

    Starts the built-in emulators and both stages, runs a live workload, and compares what was committed with what arrived.
    """
    logged(log_level, log_format)
    return started("dstream.demo", seconds=seconds, changes=changes, keep=keep)
