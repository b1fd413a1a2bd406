"""The options that commands share, and how a time is read."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from common.errors import ConfigurationError


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


class Stage(StrEnum):
    BOTH = "both"
    INGESTER = "ingester"
    ROUTER = "router"


DEFAULT = Path("dstream.hcl")

Config = Annotated[Path, typer.Option("--config", "-c", envvar="DSTREAM_CONFIG", help="The configuration file.")]

UnreadConfig = Annotated[
    Path, typer.Option("--config", "-c", help="Ignored: this command brings its own configuration.")
]

WhichStage = Annotated[
    Stage, typer.Option("--stage", help="What to look at. Choose one stage where only its secrets are set.")
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

LogLevel = Annotated[
    Level,
    typer.Option("--log-level", envvar="DSTREAM_LOG_LEVEL", case_sensitive=False, help="The lowest level to log."),
]

LogFormat = Annotated[
    Format,
    typer.Option("--log-format", envvar="DSTREAM_LOG_FORMAT", case_sensitive=False, help="The format of log lines."),
]


def moment(text: str, option: str = "--time") -> datetime:
    """A time with its zone, UTC where none is written. Raises ConfigurationError, which names `option`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            [f"{option} {text}: not a time in ISO 8601, such as 2026-03-01T14:30:00Z or 2026-03-01T15:30:00+01:00"]
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
