"""What stops this process: the first SIGTERM or SIGINT asks it to stop, the second ends it at once. The end of its parent asks it to stop, too.

SIGHUP asks it to stop if it has a controlling terminal: that has closed. Otherwise it is ignored with a line, for no edit of the configuration
needs a signal; with `nohup` it stays ignored. SIGUSR1 writes the stacks of all threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

import structlog

from common.observability.interrupts import aside
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
        aside(stop.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    _obey_hangup(stop)
    tell_stacks_on_signal()
    if parent:
        stop_with_parent(stop)
    return stop


def _obey_hangup(stop: threading.Event) -> None:
    """Never ends the process at once: the kernel and a shell may both send one when a terminal closes. The second may come while Python ends,
    which gives every signal but those that are ignored its default: so the second is ignored."""
    if signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        return
    obey = partial(_stop_with_terminal, stop) if _has_terminal() else _tell_no_need

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        aside(obey)

    signal.signal(signal.SIGHUP, handle)


def _has_terminal() -> bool:
    """Whether there is a controlling terminal. Asked at the start: one that has closed cannot be opened any more."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _stop_with_terminal(stop: threading.Event) -> None:
    stop.set()  # first: nobody may take the line any more
    log.info("SIGHUP: stopping, as when the terminal has closed")


def _tell_no_need() -> None:
    log.info("SIGHUP is ignored: an edit of the configuration takes effect without a signal, and SIGTERM stops")


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
        aside(found.stop.set)

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
