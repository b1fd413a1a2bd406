"""`dstream server`."""

from __future__ import annotations

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.starting import prepared, served


def server(config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT) -> int:
    """Run both stages, each in its own process.

    Neither is restarted: if one ends, the other is stopped, and the exit status is 1. In the first minute, however, a
    stage that meets a transient fault is started again.
    """
    from dstream.config import load_server

    prepared(load_server, config, log_level, log_format)  # every problem of both stages at once, before either starts
    arguments = ["--config", str(config), "--log-level", log_level, "--log-format", log_format]
    return served(arguments)
