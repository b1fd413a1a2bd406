"""`dstream router`."""

from __future__ import annotations

from functools import partial

from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.starting import announced, loaded, started, watching

ROUTER_STOPS_WITHIN = 19.5
"""Seconds. Its slots have 18 to finish what they hold, its workers 19; Kubernetes kills after 30, and the promise is 20."""


def router(config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT) -> int:
    """Run stage 2, queue to topics, until stopped.

    Edits of the configuration file take effect while it runs, except for the queue that it receives from.
    """
    from dstream.config import load_router
    from dstream.config_watch import Latest

    settings, watched = watching(load_router, config, log_level, log_format)
    announced("router", config, settings)
    latest = Latest(config.absolute(), partial(loaded, load_router, config.absolute()), tells=False)
    return started("router.app", settings, within=ROUTER_STOPS_WITHIN, latest=latest, watched=watched)
