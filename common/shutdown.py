"""SIGTERM and SIGINT become an event that loops watch; the second signal ends the process at once, by the system's own default.

It stops nothing itself: whoever holds the event decides what is still to be finished.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that is set by the first SIGTERM or SIGINT; former handlers come back on leaving. Main thread only."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        # Not set here: the interrupted thread may hold the event's own lock, which is not reentrant.
        threading.Thread(target=stop.set, name="stop-signal").start()

    former = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
