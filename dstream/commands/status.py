"""`dstream status`: what the stores know of tables, owners and waiting messages, once or again and again."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

import typer

from desk.status import Stages, Status, read
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel, Stage, WhichStage
from dstream.printing import NotPrinted, print_document, print_lines, printed
from dstream.rendering.status import status_document, status_lines
from dstream.reporting import INTERRUPTED
from dstream.starting import logged, of_stages

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


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
    stages = Stages(*of_stages(stage, config))
    stop = threading.Event()
    try:
        if watch:
            return _watched(stages, every, stop, as_json=as_json)
        found = read(stages, stop)
        _show(found, as_json=as_json)
    except NotPrinted as error:
        if error.reader_gone():
            return 1
        raise
    finally:
        stop.set()
    return int(bool(found.unknown))


def _watched(stages: Stages, every: float, stop: threading.Event, *, as_json: bool) -> int:
    """Until Ctrl-C; the exit status is that of the last look, if one was finished."""
    last = INTERRUPTED
    try:
        while True:
            found = read(stages, stop)
            last = int(bool(found.unknown))
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
