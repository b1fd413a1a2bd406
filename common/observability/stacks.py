"""SIGUSR1: a process writes the stacks of all its threads to standard error and goes on. They show why nothing moves.

The interpreter itself writes the lines, without a lock and without Python code, so a process that hangs writes them as well.
They hold file names, line numbers and function names: no value, and so no secret.
"""

from __future__ import annotations

import faulthandler
import re
import signal

_STDERR = 2

_LINE = re.compile(r'(Current thread|Thread) 0x[0-9a-f]+ |  File "[^"]*", line \d+ in |  (<no Python frame>|\.\.\.)$')


def tell_stacks_on_signal() -> None:
    """From now on SIGUSR1 writes the stacks. Any thread may call this, and as often as it likes."""
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=_STDERR, all_threads=True)


def tell_stacks() -> None:
    """Write them now."""
    faulthandler.dump_traceback(_STDERR, all_threads=True)


def is_stack(line: str) -> bool:
    """Whether `line` is one of those that SIGUSR1 writes."""
    return _LINE.match(line) is not None
