"""`dstream schema`: the JSON Schema of what is on a table's topic. Asks the database alone, and changes nothing."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.printing import printed
from dstream.reporting import OK
from dstream.starting import imported, prepared


class Envelope(StrEnum):
    DSTREAM = "dstream"
    CLOUDEVENTS = "cloudevents"
    DEBEZIUM = "debezium"
    CHANGES = "changes"


def schema(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    envelope: Annotated[
        Envelope | None, typer.Option("--envelope", help="In this envelope (default: that of router.output).")
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="V", help="Of an older version, kept by schema_events (default: the present one)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it on one line.")] = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Print the JSON Schema of the messages on a table's topic.

    It has the columns that the table's shape leaves, as the database has them now.
    """
    from dstream.config import load_both, load_ingester

    binary = False
    if envelope is None:
        settings, router = prepared(load_both, config, log_level, log_format)
        output = imported("dstream.schemas.outputs").enveloped(router.output)
        chosen, binary = output.envelope, output.cloudevents_mode == "binary"
    else:
        settings, chosen = prepared(load_ingester, config, log_level, log_format), envelope.value
    envelopes = imported("dstream.schemas.envelopes")
    found = imported("ingester.commands.schemas").columns_of(settings, table, version)
    of = envelopes.Described(settings.origin, found.table, found.version, found.values, found.key)
    printed(
        json.dumps(envelopes.document(of, chosen, binary=binary), indent=None if as_json else 2, ensure_ascii=False)
    )
    return OK
