"""`dstream ingester`."""

from __future__ import annotations

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.starting import announced, started, watching


def ingester(config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT) -> int:
    """Run stage 1, change tables to queue, until stopped.

    An edit of the configuration is taken over as it runs, as far as it concerns tables and how often they are looked at.
    """
    settings, watched = watching("load_ingester", config, log_level, log_format)
    announced("ingester", config, settings)
    return started("ingester.app", settings, watched=watched)
