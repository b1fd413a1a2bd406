"""SIGTERM and SIGINT: the first asks to stop, the second ends the process at once. Decides nothing else."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


def stop_on_signals(second: Callable[[], None] = lambda: None) -> threading.Event:
    """An event that the first signal sets; at the next one `second` is called and the process exits with 128 + signal.

    Must be called from the main thread.
    """
    stop = threading.Event()
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            second()
            os._exit(128 + number)
        asked = True
        # Not set here: the interrupted main thread may hold the event's own lock, which is not reentrant.
        threading.Thread(target=stop.set, name="stop-signal").start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stop
