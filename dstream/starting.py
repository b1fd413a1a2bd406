"""What the commands do until a stage runs: set up logging, load the configuration, listen for signals.

Stages are imported here and only when a command needs them, so that the router starts without Spark and `--help` without either stage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from common.errors import ConfigurationError
from desk.importing import imported as imported
from dstream.options import Format, Level, Stage

if TYPE_CHECKING:
    from common.config.settings import Remark
    from dstream.config_watch import Watched

T = TypeVar("T")

Loader = Callable[[Path, Mapping[str, str]], T]
"""A function of `dstream.config`: settings from a file and the environment. Raises ConfigurationError."""


class Settings(Protocol):
    """Those of a stage, as far as they are logged at its start."""

    @property
    def reaches(self) -> Mapping[str, object]: ...

    @property
    def remarks(self) -> Sequence[Remark]: ...


def logged(level: Level, format: Format, *, waits: bool = True) -> None:
    """Set up logging. `waits`: see `configure_logging`."""
    from common.observability.logs import configure_logging

    configure_logging(level.value, format.value, waits=waits)


def loaded(load: Loader[T], config: Path) -> T:
    """The settings; the log masks their secrets from now on."""
    from common.observability.logs import register_secrets

    settings = load(config, os.environ)
    register_secrets(settings)
    return settings


def of_stages(stage: Stage, config: Path) -> tuple[Any, Any]:
    """The settings of ingester and router, None for a stage that is left out.

    Raises ConfigurationError. Where only one stage's variables are set, as in a pod, its hint is the option that chooses this stage.
    """
    from dstream.config import load_both, load_ingester, load_router

    if stage is Stage.INGESTER:
        return loaded(load_ingester, config), None
    if stage is Stage.ROUTER:
        return None, loaded(load_router, config)
    try:
        return loaded(load_both, config)
    except ConfigurationError as error:
        alone = [str(each) for each in (Stage.INGESTER, Stage.ROUTER) if _loads(each, config)]
        if not alone:
            raise
        raise ConfigurationError(
            error.problems, hint=f"--stage {alone[0]}: for that stage everything is set here"
        ) from error


def _loads(stage: Stage, config: Path) -> bool:
    try:
        of_stages(stage, config)
    except ConfigurationError:
        return False
    return True


def prepared(load: Loader[T], config: Path, level: Level, format: Format) -> T:
    """The settings, once logging is set up."""
    logged(level, format)
    return loaded(load, config)


def of_tables(config: Path, level: Level, format: Format) -> Any:
    """The ingester's settings with the names of the tables that patterns match now, once logging is set up."""
    from dstream.config import load_ingester

    return imported("ingester.commands.stores").with_matches(prepared(load_ingester, config, level, format))


def watching(load: Loader[T], config: Path, level: Level, format: Format) -> tuple[T, Watched[T]]:
    """As `prepared`, with the file watched: it is loaded again when it has changed."""
    from dstream.config_watch import Watched

    logged(level, format)
    watched = Watched(config, partial(loaded, load, config))
    return watched.load(), watched


def announced(stage: str, config: Path, settings: Settings) -> None:
    """Log at once that the stage starts: until it works, imports and connections take seconds, or as long as a service is unavailable."""
    import structlog

    version = metadata.version("dstream-cdc")
    log = structlog.get_logger(stage)
    log.info(f"{stage} starting", version=version, configuration=str(config), **settings.reaches)
    for it in settings.remarks:
        log.warning(it.event, setting=it.setting, line=it.line or None, hint=it.hint)


def started(
    module: str,
    *settings: Any,
    call: str = "run",
    ahead: tuple[str, str] | None = None,
    alone: str | None = None,
    within: float | None = None,
    **choices: Any,
) -> int:
    """Call `run(*settings, stop=..., **choices)` of a module, with an event that SIGTERM and SIGINT set.

    `call`: another function than `run`. `ahead`: a module and its function that begins, with the settings, what takes long; `run` gets its result
    as `ahead`. It comes before the other imports. Its `close` is called here at the end, also if something fails before `run` has it.
    `alone`: a function of the module that forks this process, and so is called with the settings and `ahead` while there is no thread; `run`
    gets its result as `first`. `within`: seconds from that event until the process is ended, whatever it still does.
    """
    from dstream.signals import ended_within, stop_on_signals, stop_with_parent

    # Before the import, which takes a second: a signal meanwhile must already be a clean stop.
    stop = stop_on_signals(parent=False)
    end = nullcontext() if within is None else ended_within(within, stop)
    with ExitStack() as bound:
        if alone is None:
            bound.enter_context(end)
        if ahead is not None:
            choices["ahead"] = getattr(imported(ahead[0]), ahead[1])(*settings)
            bound.callback(choices["ahead"].close)
        function = getattr(imported(module), call)
        if alone is not None:
            choices["first"] = getattr(imported(module), alone)(*settings, choices["ahead"])
            bound.enter_context(end)  # not before: it has a thread
        stop_with_parent(stop)
        return int(function(*settings, stop=stop, **choices))


def served(arguments: list[str]) -> int:
    """Run both stages side by side, each with these arguments."""
    from dstream.server import Server, stage_commands
    from dstream.signals import stop_on_signals

    server = Server(stage_commands(arguments))
    return server.run(stop_on_signals(second=server.kill))
