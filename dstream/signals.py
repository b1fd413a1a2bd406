"""SIGTERM and SIGINT: the first asks to stop, the second ends the process at once. So does the end of a parent, where there is one to outlive.

SIGUSR1 writes the threads' stacks. Decides nothing else.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import structlog

from common.observability.stacks import tell_stacks_on_signal

PARENT = "DSTREAM_STOPS_WITH_STDIN"
"""Set in the environment by a parent that keeps this process's standard input open for as long as it lives."""


_TO_SAY = 0.3
"""Seconds for a last line in the log, whose reader may be gone."""

log = structlog.get_logger(__name__)


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
    tell_stacks_on_signal()
    if os.environ.pop(PARENT, None):
        threading.Thread(target=_stop_with_stdin, args=(stop,), name="parent", daemon=True).start()
    return stop


@contextmanager
def ended_within(seconds: float, stop: threading.Event) -> Iterator[None]:
    """What has not ended so long after `stop` was set, by whomever, ends with its process, whose status is 1 then."""
    over = threading.Event()
    threading.Thread(target=_end_after, args=(stop, seconds, over), name="last-resort", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _end_after(stop: threading.Event, seconds: float, over: threading.Event) -> None:
    """All its sockets are closed thereby, however many threads hang in calls and wait for one another's locks."""
    stop.wait()
    if over.wait(seconds):
        return
    told = threading.Thread(target=_tell_of_the_end, args=(seconds,), name="last-words", daemon=True)
    told.start()
    told.join(_TO_SAY)
    os._exit(1)


def _tell_of_the_end(seconds: float) -> None:
    log.error(
        "not stopped in time; ending as it is",
        seconds=seconds,
        effect="what was not completed comes again when its connection is gone, or its lock runs out",
    )


def _stop_with_stdin(stop: threading.Event) -> None:
    """Wait for the end of standard input, whose other end closes however the parent ends. What is written there is nothing to us."""
    while os.read(0, 1):
        continue
    stop.set()
