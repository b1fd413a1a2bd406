"""`dstream ingester`."""

from __future__ import annotations

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.starting import announced, started, watching

INGESTER_STOPS_WITHIN = 19.5
"""Seconds. What is in flight has 5 to finish, and a task that is cancelled 3; the locks are given back within 3 more, the JVM ends within 5.
A start waits for nobody once it is asked to stop. Kubernetes kills after 30, and the promise is 20."""


def ingester(config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT) -> int:
    """Run stage 1, change tables to queue, until stopped.

    Edits of the configuration file take effect while it runs, as far as they concern tables, their poll intervals, snapshot and shape.
    """
    from dstream.config import load_ingester

    settings, watched = watching(load_ingester, config, log_level, log_format)
    announced("ingester", config, settings)
    return started(
        "ingester.app",
        settings,
        ahead=("ingester.spark.launched", "launched"),
        alone="forked_place",
        within=INGESTER_STOPS_WITHIN,
        watched=watched,
    )
