"""On SIGUSR1 a process writes the stacks of all its threads to standard error and goes on. They show where it hangs.

The interpreter itself writes them, without a lock and without Python code, so a process that hangs can write them, too.
They contain file names, line numbers and function names. They contain no values, so no secrets.
"""

from __future__ import annotations

import faulthandler
import re
import signal

_STDERR = 2

_LINE = re.compile(r'(Current thread|Thread) 0x[0-9a-f]+ |  File "[^"]*", line \d+ in |  (<no Python frame>|\.\.\.)$')


def tell_stacks_on_signal() -> None:
    """Write the stacks on SIGUSR1 from now on. May be called from any thread, any number of times."""
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=_STDERR, all_threads=True)


def tell_stacks() -> None:
    """Write the stacks now."""
    faulthandler.dump_traceback(_STDERR, all_threads=True)


def is_stack(line: str) -> bool:
    """Whether `line` is one of those that SIGUSR1 writes."""
    return _LINE.match(line) is not None
