"""`dstream ingester`."""

from __future__ import annotations

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.starting import announced, started, watching


def ingester(config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT) -> int:
    """Run stage 1, change tables to queue, until stopped.

    Edits of the configuration file take effect while it runs, as far as they concern tables and their poll intervals.
    """
    from dstream.config import load_ingester

    settings, watched = watching(load_ingester, config, log_level, log_format)
    announced("ingester", config, settings)
    return started(
        "ingester.app",
        settings,
        ahead=("ingester.spark.launched", "launched"),
        alone="forked_place",
        watched=watched,
    )
