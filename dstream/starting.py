"""What commands have in common until a stage runs: logging, the configuration, signals.

Stages are imported here, when a command needs them, so that the router starts without Spark and `--help` without anything.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError
from dstream.options import Format, Level


def logged(level: Level, format: Format) -> None:
    """Set up logging."""
    from common.observability.logs import configure_logging

    configure_logging(level.value, format.value)


def prepared(loader: str, config: Path, level: Level, format: Format) -> Any:
    """Logging set up, the configuration loaded by `dstream.config`, and its secrets known to the log."""
    logged(level, format)
    return loaded(loader, config)


def loaded(loader: str, config: Path) -> Any:
    """The configuration, with its secrets known to the log."""
    from common.observability.logs import register_secrets
    from dstream import config as loading

    settings = getattr(loading, loader)(config, os.environ)
    register_secrets(settings)
    return settings


def announced(stage: str, config: Path, settings: Any) -> None:
    """One line at once: what is imported, connected to and opened until the stage is at work takes seconds, or as long as a service is away."""
    import structlog

    version = metadata.version("dstream-cdc")
    structlog.get_logger(stage).info(
        f"{stage} starting", version=version, configuration=str(config), **settings.reaches
    )


def watching(loader: str, config: Path, level: Level, format: Format) -> tuple[Any, Any]:
    """(settings, their `Watched`): as `prepared`, and later again when the file has changed."""
    from dstream.config_watch import Watched

    logged(level, format)
    watched = Watched(config, partial(loaded, loader, config))
    return watched.load(), watched


def started(module: str, *settings: Any, within: float | None = None, **choices: Any) -> int:
    """Call `run(*settings, stop=..., **choices)` of a module, with an event that SIGTERM and SIGINT set.

    `within`: seconds that it is given from then on, before the process is ended.
    """
    from dstream.signals import ended_within, stop_on_signals

    stop = stop_on_signals()  # before the import, which takes a second in which a signal must be a clean stop already
    with nullcontext() if within is None else ended_within(within, stop):
        return int(imported(module).run(*settings, stop=stop, **choices))


def served(arguments: list[str]) -> int:
    """Both stages under one roof, with these arguments each."""
    from dstream.server import Server, stage_commands
    from dstream.signals import stop_on_signals

    server = Server(stage_commands(arguments))
    return server.run(stop_on_signals(second=server.kill))


def imported(module: str) -> Any:
    """A stage's module; what it lacks is named together with the extra that brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "common", "dstream", "emulators", "ingester", "router"):
            raise
        extra = "ingester" if module.startswith("ingester") else "demo"
        raise ConfigurationError(
            [f"the Python package {missing} is not installed"], hint=f"pip install 'dstream-cdc[{extra}]'"
        ) from None
