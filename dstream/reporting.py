"""How a command ends: its exit status, and one line for each problem. A user's mistake never shows a traceback."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec

import typer

from common.errors import ConfigurationError, DStreamError, TransientError
from dstream.options import Format

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

_DEFECT = "this is a defect of DStream: report this line"

P = ParamSpec("P")


def reported(command: Callable[P, int]) -> Callable[P, None]:
    """Turn what a command returns into the exit status, and what it raises into lines and a status."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except KeyboardInterrupt:
            status = INTERRUPTED
        except DStreamError as error:
            status = report(error)
        except Exception as error:
            status = report_unexpected(error)
        raise typer.Exit(status)

    return run


def report(error: DStreamError) -> int:
    """Print or log the error; the exit status that it means."""
    problems = error.problems if isinstance(error, ConfigurationError) else (error.message,)
    if not _log_as_json(problems, error.hint):
        for problem in problems:
            _print(f"dstream: {problem}\n")
        if error.hint:
            _print(f"dstream: hint: {error.hint}\n")
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        _print(_stacks(error))
    if isinstance(error, ConfigurationError):
        return MISUSED
    return _status_of_transient() if isinstance(error, TransientError) else FAILED


def _stacks(error: BaseException | None) -> str:
    """Where it was raised, and what caused it. The words of a driver or a library may quote a value of a row, so only their types are shown."""
    told = []
    while error is not None:
        said = f": {error}" if isinstance(error, (DStreamError, OSError)) else ""
        told.append("".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__qualname__}{said}\n")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "caused by:\n".join(["Traceback (most recent call last):\n" + told[0], *told[1:]])


def _log_as_json(problems: Sequence[str], hint: str | None) -> bool:
    """Log the problems where log lines are JSON, so that a log collector gets them too. False where they are not JSON."""
    from common.observability.logs import logging_as_configured

    if logging_as_configured()[1] != Format.JSON.value:
        return False
    import structlog

    for problem in problems:
        structlog.get_logger("dstream").error("ended with an error", error=problem, hint=hint)
    return True


def _status_of_transient() -> int:
    """1, except under `dstream server`, which starts such a stage again."""
    from dstream.server import PASSING, TELLS_PASSING

    return PASSING if os.environ.get(TELLS_PASSING) else FAILED


def report_unexpected(error: Exception) -> int:
    """One line of the log with its traceback, at every log level: nobody should have to run it again to see it."""
    import structlog

    from common.observability.logs import configure_logging, logging_as_configured

    configure_logging(*logging_as_configured())
    kind = type(error).__name__
    structlog.get_logger("dstream").error("unexpected error", kind=kind, hint=_DEFECT, exc_info=error)
    return FAILED


def _print(text: str) -> None:
    from common.observability.logs import masked

    print(masked(text), end="", file=sys.stderr)
