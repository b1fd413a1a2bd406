"""`dstream asyncapi`: an AsyncAPI 3 document of all topics. Asks the database alone, and changes nothing."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from common.errors import PermanentError
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.printing import printed
from dstream.reporting import OK
from dstream.starting import imported, prepared


def asyncapi(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here (default: standard output).")
    ] = None,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Write an AsyncAPI 3 document of all topics, in JSON.

    Readers of YAML read it as well.
    """
    from dstream.config import load_both

    settings, router = prepared(load_both, config, log_level, log_format)
    described, made = imported("dstream.schemas.envelopes").Described, imported("dstream.schemas.asyncapi")
    found = imported("ingester.commands.schemas").columns_of_all(settings)
    origin = settings.origin
    channels = [
        made.Channel(origin.topic(one.table), described(origin, one.table, one.version, one.values, one.key))
        for one in found
    ]
    enveloped = imported("dstream.schemas.outputs").enveloped(router.output)
    binary = enveloped.cloudevents_mode == "binary"
    to = made.Output(enveloped.where, enveloped.envelope, binary, metadata.version("dstream-cdc"))
    text = json.dumps(made.document(channels, to), indent=2, ensure_ascii=False)
    if output is None:
        printed(text)
        return OK
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise PermanentError(f"writing the document to {output}: {error.strerror or error}") from error
    return OK
