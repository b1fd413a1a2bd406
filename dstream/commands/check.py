"""`dstream check`."""

from __future__ import annotations

from typing import Annotated

import typer

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel, Stage
from dstream.starting import imported, prepared


def check(
    config: Config = DEFAULT,
    stage: Annotated[
        Stage, typer.Option("--stage", help="What to check, where the secrets of one are there.")
    ] = Stage.BOTH,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of lines.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for a warning, too.")] = False,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Look whether the services can run: one line a check.

    Connects to everything and changes nothing. The exit status is 1 when a line says fail.
    """
    from dstream.check import report

    wanted = [Stage.INGESTER, Stage.ROUTER] if stage is Stage.BOTH else [stage]
    settings = prepared(f"load_{stage}", config, log_level, log_format)
    each = settings if stage is Stage.BOTH else (settings,)
    stages = [(name.value, imported(f"{name}.check")) for name in wanted]
    found = ((name, module.findings(given)) for (name, module), given in zip(stages, each, strict=True))
    return report(found, as_json=as_json, strict=strict)
