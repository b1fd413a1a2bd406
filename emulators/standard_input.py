"""What comes on a program's standard input: lines, and its end, which is also that of whoever started the program.

The other end of a pipe closes however its owner ends, by SIGKILL as well, so a program that stops with it never outlives its owner.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

_GRACE = 10.0
"""Seconds from the end of the input until a program that has not stopped by itself is ended."""


def watch_standard_input(*, on_line: Callable[[], None] = lambda: None, on_end: Callable[[], None] | None) -> None:
    """Call `on_line` for each line, and `on_end` at the end, in a thread of its own; None: the end is nothing to this program."""
    threading.Thread(target=_watch, args=(on_line, on_end), name="standard-input", daemon=True).start()


def _watch(on_line: Callable[[], None], on_end: Callable[[], None] | None) -> None:
    # Not sys.stdin: a thread that waits on that holds a lock which the interpreter wants at its end.
    while read := os.read(0, 4096):
        for _ in range(read.count(b"\n")):
            on_line()
    if on_end is not None:
        on_end()
        time.sleep(_GRACE)
        os._exit(1)
