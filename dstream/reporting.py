"""How a command ends: its exit status, and every failure as one line a problem. Never a traceback for a user's mistake."""

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


_DEFECT = "this is a defect of DStream: report it with this line"


P = ParamSpec("P")


def reported(command: Callable[P, int]) -> Callable[P, None]:
    """Make a command's result the exit status, and every failure one line a problem: never a traceback for a user's mistake."""

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
    from common.observability.logs import logging_as_configured

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


def report_unexpected(error: Exception) -> int:
    """One line of the log, whatever its level: the one traceback that matters must not ask for another run."""
    import structlog

    from common.observability.logs import configure_logging, logging_as_configured

    configure_logging(*logging_as_configured())
    kind = type(error).__name__
    structlog.get_logger("dstream").error("unexpected error", kind=kind, hint=_DEFECT, exc_info=error)
    return FAILED


def _say(text: str) -> None:
    from common.observability.logs import masked

    print(masked(f"dstream: {text}"), file=sys.stderr)


def _say_traceback() -> None:
    from common.observability.logs import masked

    if _debugging():
        print(masked(traceback.format_exc()), end="", file=sys.stderr)


def _debugging() -> bool:
    return logging.getLogger().isEnabledFor(logging.DEBUG)
