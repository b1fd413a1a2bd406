"""The command line: what is said, which stage runs, and how a failure is told. Decides nothing about changes.

Stages are imported inside their command, so that the router starts without Spark and `--help` without anything.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from enum import StrEnum
from functools import partial, wraps
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from common.errors import ConfigurationError, DStreamError, TransientError

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

ROUTER_STOPS_WITHIN = 19.5
"""Seconds. Its slots have 18 to finish what they hold, its workers 19; Kubernetes kills after 30, and the promise is 20."""

app = typer.Typer(
    name="dstream",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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


Config = Annotated[Path, typer.Option("--config", "-c", envvar="DSTREAM_CONFIG", help="The configuration file.")]
UnreadConfig = Annotated[Path, typer.Option("--config", "-c", help="Accepted everywhere; this command brings its own.")]
LogLevel = Annotated[
    Level,
    typer.Option("--log-level", envvar="DSTREAM_LOG_LEVEL", case_sensitive=False, help="The least that is logged."),
]
LogFormat = Annotated[
    Format,
    typer.Option("--log-format", envvar="DSTREAM_LOG_FORMAT", case_sensitive=False, help="How log lines are written."),
]
DEFAULT = Path("dstream.hcl")

_DEFECT = "this is a defect of DStream: report it with this line"

P = ParamSpec("P")
S = TypeVar("S")


def reported(command: Callable[P, int]) -> Callable[P, None]:
    """Make a command's result the exit status, and every failure one line a problem: never a traceback for a user's mistake."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except KeyboardInterrupt:
            status = INTERRUPTED
        except DStreamError as error:
            status = _tell(error)
        except Exception as error:
            status = _tell_unexpected(error)
        raise typer.Exit(status)

    return run


@app.command("ingester")
@reported
def ingester_command(
    config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT
) -> int:
    """Run stage 1, change tables to queue, until stopped.

    An edit of the configuration is taken over as it runs, as far as it concerns tables and how often they are looked at.
    """
    settings, watched = watching("load_ingester", config, log_level, log_format)
    announced("ingester", config, settings)
    return started("ingester.wiring", settings, watched=watched)


@app.command("router")
@reported
def router_command(
    config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT
) -> int:
    """Run stage 2, queue to topics, until stopped.

    A topic that it does not know is looked for in the configuration as it is by then.
    """
    from dstream.watching import Latest

    settings = prepared("load_router", config, log_level, log_format)
    announced("router", config, settings)
    latest = Latest(config.absolute(), partial(loaded, "load_router", config.absolute()))
    return started("router.wiring", settings, within=ROUTER_STOPS_WITHIN, latest=latest)


@app.command("server")
@reported
def server_command(
    config: Config = DEFAULT, log_level: LogLevel = Level.INFO, log_format: LogFormat = Format.TEXT
) -> int:
    """Run both stages, each in its own process.

    Neither is restarted: if one dies, the other drains, and the exit status is 1. In the first minute a stage that meets a passing trouble
    tries again.
    """
    prepared("load_both", config, log_level, log_format)
    arguments = ["--config", str(config), "--log-level", log_level, "--log-format", log_format]
    return served(arguments)


@app.command("check")
@reported
def check_command(
    config: Config = DEFAULT,
    stage: Annotated[
        Stage, typer.Option("--stage", help="What to check, where the secrets of one are there.")
    ] = Stage.BOTH,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of lines.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for a warning, too.")] = False,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Look whether the services can run: one line a check.

    Connects to everything and changes nothing. The exit status is 1 when a line says fail.
    """
    from dstream.check import report

    wanted = [Stage.INGESTER, Stage.ROUTER] if stage is Stage.BOTH else [stage]
    settings = prepared(f"load_{stage}", config, log_level, log_format)
    each = settings if stage is Stage.BOTH else (settings,)
    stages = [(name.value, _imported(f"{name}.check")) for name in wanted]
    found = ((name, module.findings(given)) for (name, module), given in zip(stages, each, strict=True))
    return report(found, as_json=as_json, strict=strict)


@app.command("demo")
@reported
def demo_command(
    seconds: Annotated[float, typer.Option(min=1, help="How long the workload runs.")] = 20,
    changes: Annotated[int | None, typer.Option(min=1, help="Commit this many changes, however long it takes.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything up after the verdict.")] = False,
    config: UnreadConfig = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Run the whole pipeline on emulators, with a verdict.

    Starts the embedded emulators and both stages, drives a live workload, and compares what was committed with what arrived.
    """
    logged(log_level, log_format)
    return started("dstream.demo", seconds=seconds, changes=changes, keep=keep)


@app.command("emulators")
@reported
def emulators_command(
    tls: Annotated[bool, typer.Option("--tls", help="Let clients of SQL Server encrypt, and verify it.")] = False,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="NAME[:ARGUMENTS]", help="Let SQL Server fail so; may be given again.")
    ] = None,
    bus_fault: Annotated[
        list[str] | None, typer.Option(metavar="NAME[:ARGUMENTS]", help="Let Service Bus fail so; may be given again.")
    ] = None,
    bus_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Entities, as in the Config.json of Microsoft's emulator.")
    ] = None,
    bus_data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep what is in Service Bus here (default: memory only).")
    ] = None,
    bus_credits: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Throttle Service Bus; Standard has 1000 credits a second.")
    ] = None,
    config: UnreadConfig = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Run the emulators alone, until stopped.

    Prints their connection strings.
    """
    logged(log_level, log_format)
    from dstream.local import Bus

    bus = Bus(bus_config, bus_data, bus_credits, tuple(bus_fault or ()))
    return started("dstream.local", tls=tls, faults=tuple(fault or ()), bus=bus)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dstream {metadata.version('dstream-cdc')}")
        raise typer.Exit(OK)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Change data capture from SQL Server to Azure Service Bus: nothing lost, in order, from commit to topic."""


def main() -> None:
    """The entry point; ends the process with an exit status: 0 clean, 1 failed, 2 bad configuration or usage."""
    app(prog_name="dstream")


def logged(level: Level, format: Format) -> None:
    """Set up logging."""
    from common.telemetry import configure_logging

    configure_logging(level.value, format.value)


def prepared(loader: str, config: Path, level: Level, format: Format) -> Any:
    """Logging set up, the configuration loaded by `dstream.loading`, and its secrets known to the log."""
    logged(level, format)
    return loaded(loader, config)


def loaded(loader: str, config: Path) -> Any:
    """The configuration, with its secrets known to the log."""
    from common.telemetry import register_secrets
    from dstream import loading

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
    from dstream.watching import Watched

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
        return int(_imported(module).run(*settings, stop=stop, **choices))


def served(arguments: list[str]) -> int:
    """Both stages under one roof, with these arguments each."""
    from dstream.server import Server, stage_commands
    from dstream.signals import stop_on_signals

    server = Server(stage_commands(arguments))
    return server.run(stop_on_signals(second=server.kill))


def _imported(module: str) -> Any:
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


def _tell(error: DStreamError) -> int:
    problems = error.problems if isinstance(error, ConfigurationError) else (error.message,)
    if not _log_as_json(problems, error.hint):
        for problem in problems:
            _say(problem)
        if error.hint:
            _say(f"hint: {error.hint}")
    _say_traceback()
    if isinstance(error, ConfigurationError):
        return MISUSED
    return _status_of_passing() if isinstance(error, TransientError) else FAILED


def _log_as_json(problems: Sequence[str], hint: str | None) -> bool:
    """The last words as lines of the log where all others are JSON, so that whoever collects them loses none; False where they are not."""
    from common.telemetry import logging_as_configured

    if logging_as_configured()[1] != Format.JSON.value:
        return False
    import structlog

    for problem in problems:
        structlog.get_logger("dstream").error("ended with an error", error=problem, hint=hint)
    return True


def _status_of_passing() -> int:
    """1 for everybody but `dstream server`, which starts a stage again that may do better."""
    from dstream.server import PASSING, TELLS_PASSING

    return PASSING if os.environ.get(TELLS_PASSING) else FAILED


def _tell_unexpected(error: Exception) -> int:
    """One line of the log, whatever its level: the one traceback that matters must not ask for another run."""
    import structlog

    from common.telemetry import configure_logging, logging_as_configured

    configure_logging(*logging_as_configured())
    kind = type(error).__name__
    structlog.get_logger("dstream").error("unexpected error", kind=kind, hint=_DEFECT, exc_info=error)
    return FAILED


def _say(text: str) -> None:
    from common.telemetry import masked

    print(masked(f"dstream: {text}"), file=sys.stderr)


def _say_traceback() -> None:
    from common.telemetry import masked

    if _debugging():
        print(masked(traceback.format_exc()), end="", file=sys.stderr)


def _debugging() -> bool:
    return logging.getLogger().isEnabledFor(logging.DEBUG)
