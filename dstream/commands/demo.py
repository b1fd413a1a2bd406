"""`dstream demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from common.errors import ConfigurationError
from dstream.options import DEFAULT, Format, Level, LogFormat, LogLevel
from dstream.starting import logged, started

OUTPUT_HELP: Final = (
    "Send to an output of this type instead of topics: azure_event_hubs, elasticsearch, file, kafka, nats, postgres, webhook. Its server "
    "is started if it is installed; Elasticsearch needs --server."
)


def demo(
    seconds: Annotated[float, typer.Option(min=1, metavar="N", help="How long the workload runs.")] = 20,
    changes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Commit this many changes, however long it takes.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running after the verdict.")] = False,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach",
            help="Start nothing: write to and subscribe to what --config names, where the stages run already.",
        ),
    ] = False,
    config: Annotated[
        Path,
        typer.Option(
            "--config", "-c", envvar="DSTREAM_CONFIG", help="With --attach: the services' configuration file."
        ),
    ] = DEFAULT,
    output: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help=OUTPUT_HELP),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With --output: a server that runs already; for file, a folder."),
    ] = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Run the whole pipeline on emulators, with a verdict.

    Starts the built-in emulators and both stages, runs a live workload, and compares what was committed with what arrived.
    With --attach everything but workload and subscriber runs elsewhere, for example in a cluster.
    """
    logged(log_level, log_format)
    _refuse_contradictions(attach=attach, keep=keep, output=output, server=server)
    return started(
        "dstream.demo",
        seconds=seconds,
        changes=changes,
        keep=keep,
        attach=config.absolute() if attach else None,
        output=output,
        server=server,
    )


def _refuse_contradictions(*, attach: bool, keep: bool, output: str | None, server: str | None) -> None:
    """Raises ConfigurationError."""
    if attach and keep:
        raise ConfigurationError(
            ["--keep has no meaning with --attach"], hint="what the demo did not start keeps running"
        )
    if attach and output is not None:
        raise ConfigurationError(["--output has no meaning with --attach"], hint="the configuration names the outputs")
    if server is not None and output is None:
        raise ConfigurationError(["--server has no meaning without --output"])
