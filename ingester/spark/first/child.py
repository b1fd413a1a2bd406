"""One process beside the driver that runs bundles before Spark can: forked with everything imported, so that it costs neither time nor memory.

It is forked while the driver has a single thread, because a fork of a process with threads may hang. Where nobody can say how many there
are, none is forked, and the first slices wait for Spark. It opens its own connections, and closes the pipes and sockets that it inherits.
It ends with the driver, however that ends: their pipe closes. A terminal's Ctrl-C and a service manager's signals are left to the driver.
Its main thread only takes orders, so it answers at any time whether it is there. Decides nothing.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import pickle
import queue
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import NoReturn

from common.errors import TransientError
from common.observability.logs import logging_as_configured
from ingester.executor import Early
from ingester.slices import Slice, SliceResult, WorkerLost
from ingester.spark.driver_line import Driver
from ingester.spark.worker_side import BundleTask

_END_SECONDS = 5.0
"""For the last spans of a child that has nothing more to do."""
_THREADS = Path("/proc/self/task")
_DESCRIPTORS = Path("/proc/self/fd")
"""Of this process. Elsewhere than on Linux nobody can say."""
_KEPT = frozenset((0, 1, 2))
_THERE = pickle.dumps(None)
"""The question whether it is there. None is the answer, too."""
_NOT_BACK = "a slice did not come back"


@dataclass(frozen=True, slots=True)
class _Parent(Driver):
    """The driver, over the pipe."""

    say: Callable[[SliceResult], None] = lambda result: None

    def tell(self, result: SliceResult) -> bool:
        self.say(result)
        return True


class Child:
    """`pid`: a process that answers what it gets from `orders` with what comes from `answers`, and looks at `stopping`. Thread-safe."""

    def __init__(self, pid: int, orders: Connection, answers: Connection, stopping: Path) -> None:
        self._pid, self._stopping = pid, stopping
        self._orders, self._answers = orders, answers
        self._guard = threading.Lock()
        self._sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """For a thread of its own, which may hang: a process that stands still empties no pipe."""
        self._out: dict[int, queue.SimpleQueue[tuple[Sequence[SliceResult], bool] | None]] = {}
        self._ending = self._gone = self._begun = False
        self._killed: str | None = None
        self._asked = self._answered = 0
        self._status = 0

    @property
    def ended(self) -> str | None:
        """How it has ended; None while it lives. Known only after `watch` or `run`."""
        if self._killed is not None:
            return f"was ended, because {self._killed}"
        if not self._gone:
            return None
        number = os.waitstatus_to_exitcode(self._status)
        return f"was killed (signal {-number})" if number < 0 else f"has ended with status {number}"

    def watch(self) -> None:
        """Somebody must hear of its answers and its end, also if it was never given anything. A second call does nothing.

        Not from its start on: a process with threads is not forked.
        """
        with self._guard:
            begun, self._begun = self._begun, True
        if not begun:
            threading.Thread(target=self._hear, name="first-slices", daemon=True).start()
            threading.Thread(target=self._send, name="first-slices-sent", daemon=True).start()

    def run(self, bundle: Sequence[Slice], *, number: int, early: Early) -> Sequence[SliceResult]:
        """Its results. Raises WorkerLost when it dies first, and TransientError when it was killed. May never return, unless it is."""
        heard: queue.SimpleQueue[tuple[Sequence[SliceResult], bool] | None] = queue.SimpleQueue()
        with self._guard:
            if self.ended is not None:
                raise self._lost()
            self._out[number] = heard
        self.watch()
        try:
            self._sent.put(pickle.dumps((number, list(bundle))))
            while (found := heard.get()) is not None:
                results, ended = found
                if ended:
                    return results
                for result in results:
                    early(result)
            raise self._lost()
        finally:
            with self._guard:
                self._out.pop(number, None)

    def ask(self) -> int:
        """By one thread at a time."""
        unanswered = self._asked - self._answered
        self._asked += 1
        self._sent.put(_THERE)
        return unanswered

    def finish(self) -> None:
        """Let it begin no further page."""
        with suppress(OSError):  # the folder is gone with its owner
            self._stopping.touch()

    def end(self) -> None:
        """Let it end, now that it has nothing to do. A second call does nothing."""
        self._sent.put(None)
        timer = threading.Timer(_END_SECONDS, self.kill)
        timer.daemon = True
        timer.start()
        self.watch()

    def kill(self, why: str = _NOT_BACK) -> None:
        """End it now, and with it everything that runs there. Waits for nothing."""
        with self._guard:
            if not self._ending:  # afterwards the number may belong to another process
                self._killed = self._killed or why
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                for heard in self._out.values():  # its end may be long in coming: it may wait for a disk
                    heard.put(None)
        self.watch()

    def _lost(self) -> TransientError:
        if self._killed is not None:  # the other slices are not at fault
            return TransientError(
                f"reading before Spark has started: the process for that was ended, because {self._killed}",
                hint="its tables are read again once Spark has started; if this repeats, see whether SQL Server and Service Bus "
                "answer, and whether memory runs out on this machine",
            )
        return WorkerLost(
            f"reading before Spark has started: the process for that {self.ended}",
            hint="its tables are read again once Spark has started; if this repeats, see whether memory runs out on this machine",
        )

    def _send(self) -> None:
        """Pass on what it is to do until it ends, in a thread of the driver."""
        with suppress(OSError):  # one that is gone is heard of
            while (order := self._sent.get()) is not None:
                self._orders.send_bytes(order)
        self._orders.close()

    def _hear(self) -> None:
        """Pass on its answers until it ends, in a thread of the driver."""
        with suppress(Exception):  # the end of the pipe, or of a message that it did not finish
            while True:
                if (answer := self._answers.recv()) is None:
                    self._answered += 1
                    continue
                number, results, ended = answer
                with self._guard:
                    heard = self._out.get(number)
                if heard is not None:
                    heard.put((results, ended))
        with self._guard:
            self._ending = True
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            self._status = os.waitpid(self._pid, 0)[1]
        with self._guard:
            self._gone = True
            waiting = list(self._out.values())
        for heard in waiting:
            heard.put(None)
        self._sent.put(None)
        self._answers.close()


def forked(task: BundleTask, stopping: Path) -> Child | None:
    """A process that runs `task` on bundles; None where it cannot be forked safely. `stopping`: a file that exists once a stop was requested.

    Everything that `task` needs must have been imported.
    """
    if not alone():
        return None
    taken, orders = Pipe(duplex=False)
    answers, given = Pipe(duplex=False)
    gc.freeze()  # so that collections on neither side copy the pages of what they share
    try:
        pid = os.fork()
    except OSError:  # no memory or no process is left: Spark's start says so
        pid = -1
    if pid == 0:
        _serve(task, stopping, taken, given)
    for end in (taken, given) if pid > 0 else (taken, given, orders, answers):
        end.close()
    return Child(pid, orders, answers, stopping) if pid > 0 else None


def alone(threads: Path = _THREADS) -> bool:
    """Whether this process has a single thread, those of C libraries included."""
    try:
        return len(list(threads.iterdir())) == 1
    except OSError:
        return False


def _serve(task: BundleTask, stopping: Path, taken: Connection, given: Connection) -> NoReturn:
    """The child's life. Never returns: what the driver would do at its own end, like removing its folder, is not for the child."""
    try:
        atexit._clear()  # the driver's
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _close_all(besides=_KEPT | {taken.fileno(), given.fileno()})
        if logging_as_configured()[0] != "debug":
            logging.disable()  # as with Spark's workers: what fails is a result
        _answer(task, stopping, taken, given)
        atexit._run_exitfuncs()  # its own: the last spans
    finally:
        os._exit(0)


def _close_all(*, besides: frozenset[int]) -> None:
    """Close inherited pipes and sockets: the JVM's standard input among them, whose end must come with the driver's.

    Each number stays taken: an object that has come along from the driver may still close it, or write there. Files stay as they are: the SQL
    Server driver reads its settings in one.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(entry.name) for entry in _DESCRIPTORS.iterdir()]:
        if number not in besides:
            with suppress(OSError):  # the one that lists them is gone
                if stat.S_ISFIFO(mode := os.fstat(number).st_mode) or stat.S_ISSOCK(mode):
                    os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _answer(task: BundleTask, stopping: Path, taken: Connection, given: Connection) -> None:
    """Run each bundle in a thread of its own until the driver closes its end. What still runs then is worth nothing."""
    sending = threading.Lock()

    def tell(number: int, results: Sequence[SliceResult], ended: bool) -> None:
        with sending:
            given.send((number, results, ended))

    def run(number: int, bundle: Sequence[Slice]) -> None:
        parent = _Parent("the driver", 0, b"", number, say=lambda result: tell(number, [result], False))
        try:
            tell(number, task(bundle, stopping, parent), True)
        except BaseException:  # of no slice: this process is of no use
            os._exit(1)

    with suppress(EOFError, OSError):
        while True:
            if (order := taken.recv()) is None:
                with sending:
                    given.send(None)
                continue
            number, bundle = order
            threading.Thread(target=run, args=(number, bundle), daemon=True).start()
