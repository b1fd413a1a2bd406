"""SIGTERM and SIGINT end an emulator that runs as a program."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_STEP: Final = 1.0


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop`; afterwards they do what they did before."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        # In a thread of its own: the main thread, which this interrupts, may hold the event's lock, and would wait for itself.
        _thread.start_new_thread(stop.set, ())

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def wait_for(stop: threading.Event) -> None:
    """Wait until `stop` is set, in steps: a signal that comes just before a wait does not interrupt it, and is seen at its end."""
    while not stop.wait(_STEP):
        pass
