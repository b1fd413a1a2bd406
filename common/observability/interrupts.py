"""What the handler of a signal may do: have something done aside. It takes no lock itself."""

from __future__ import annotations

import _thread
from collections.abc import Callable


def aside(call: Callable[[], object]) -> None:
    """`call` in a thread of its own, soon.

    The handler interrupts the main thread, which may hold any lock, and most are not reentrant: neither an event's nor the log's. So nothing is
    done in the handler. The thread is the interpreter's own kind: `threading.Thread` waits until a new thread runs, and the end of a process
    waits for it.
    """
    _thread.start_new_thread(call, ())
