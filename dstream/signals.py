"""What stops this process: the first SIGTERM or SIGINT asks it to stop, the second ends it at once. The end of its parent asks it to stop, too.

SIGUSR1 writes the stacks of all threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import structlog

from common.observability.stacks import tell_stacks_on_signal

PARENT = "DSTREAM_STOPS_WITH_STDIN"
"""Set in the environment by a parent that keeps this process's standard input open for as long as it lives."""

_LAST_LINE_SECONDS = 0.3
"""For a last line in the log, whose reader may be gone."""

log = structlog.get_logger(__name__)


def stop_on_signals(second: Callable[[], None] = lambda: None, *, parent: bool = True) -> threading.Event:
    """Return an event that the first signal sets. The next one calls `second` and ends the process with status 128 + signal.

    `parent`: whether the end of the parent sets it as well; otherwise `stop_with_parent` must follow. Must be called from the main thread.
    """
    stop = threading.Event()
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            second()
            os._exit(128 + number)
        asked = True
        # Not here: the interrupted main thread may hold the event's own lock, which is not reentrant.
        threading.Thread(target=stop.set, name="stop-signal").start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    tell_stacks_on_signal()
    if parent:
        stop_with_parent(stop)
    return stop


def stop_with_parent(stop: threading.Event) -> None:
    """Set `stop` when the parent has ended, if it has asked for that. Starts a thread, so that this process cannot be forked any more."""
    if os.environ.pop(PARENT, None):
        threading.Thread(target=_stop_with_stdin, args=(stop,), name="parent", daemon=True).start()


@dataclass(slots=True)
class Interruption:
    """`stop`: set by the first SIGINT or SIGTERM. `status`: the exit status that this signal means."""

    stop: threading.Event = field(default_factory=threading.Event)
    status: int = 0


@contextmanager
def interruptible(seconds: float) -> Iterator[Interruption]:
    """For a command that ends by itself: what it must finish after a signal may take `seconds`; a second signal ends it at once.

    Must be called from the main thread.
    """
    found = Interruption()

    def handle(number: int, frame: FrameType | None) -> None:
        if found.status:
            os._exit(128 + number)
        found.status = 128 + number
        threading.Thread(target=found.stop.set, name="stop-signal").start()  # see stop_on_signals

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ended_within(seconds, found.stop):
            yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_within(seconds: float, stop: threading.Event) -> Iterator[None]:
    """End the process with status 1 if the block still runs so long after `stop` was set, whatever set it."""
    over = threading.Event()
    threading.Thread(target=_end_after, args=(stop, seconds, over), name="last-resort", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def end_within(seconds: float) -> None:
    """End the process with status 1 if it still runs so long from now: at its end the interpreter waits for threads that may hang."""
    now = threading.Event()
    now.set()
    threading.Thread(target=_end_after, args=(now, seconds, threading.Event()), name="last-resort", daemon=True).start()


def _end_after(stop: threading.Event, seconds: float, over: threading.Event) -> None:
    """Ends the whole process: that closes all sockets, even when threads hang in calls and wait for each other's locks."""
    stop.wait()
    if over.wait(seconds):
        return
    logging = threading.Thread(target=_log_the_end, args=(seconds,), name="last-line", daemon=True)
    logging.start()
    logging.join(_LAST_LINE_SECONDS)
    os._exit(1)


def _log_the_end(seconds: float) -> None:
    log.error(
        "not stopped in time; ending as it is",
        seconds=seconds,
        effect="messages that were not completed are delivered again once their connection is closed or their lock has ended, "
        "and locks of tables that were not given back run out",
    )


def _stop_with_stdin(stop: threading.Event) -> None:
    """Wait for the end of standard input: its other end closes however the parent ends. Ignores what is written there."""
    while os.read(0, 1):
        continue
    stop.set()
