"""Standard output as a place for lines: one in flight in the whole process, whoever writes it, and never half a line before another.

The reader decides the pace. A line waits for it as long as it takes; whoever has something to write waits behind it, in the order of asking.
A line is done when its reader has taken all of it: what waits in a pipe is lost with a host that dies.
The descriptor stays in the mode in which the host has opened it, because host and other processes may share it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import stat
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from common.clock import SteadyClock, steady
from common.errors import PermanentError, TransientError
from common.names import TableName
from ingester.position import Position
from ingester.slices import Expired

log = structlog.get_logger("provider")

_PIECE = 4_096
"""Bytes at once. A pipe that is ready takes as many without a wait (pipe(7), PIPE_BUF), so a write can be given up between two of them."""
_LOOK_SECONDS = 0.2
"""How often a waiting line looks whether it is given up, and how soon a stop is noticed."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.000_1, 0.02
"""Between two looks whether the reader has taken a line: nothing tells. Readers that wait for lines take them at once."""
_SLOW_SECONDS = 1.0
"""A line that takes longer waits for its reader."""
SILENT_SECONDS = 10.0
"""After so long without a byte read, the log says so."""
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


def taken_standard_output() -> int:
    """A descriptor of the real standard output that only its caller knows. What anything else writes there goes to standard error from now on,
    and so does what a child process writes. Raises PermanentError when one of the two is closed."""
    try:
        taken = os.dup(1)
        os.dup2(2, 1)
    except OSError as error:
        raise PermanentError(
            "opening standard output: it or standard error is closed",
            hint="start the provider with a pipe for its lines and a place for its log",
        ) from error
    return taken


def _is_local_socket(descriptor: int) -> bool:
    """Raises PermanentError for any other socket: its kernel takes lines for a reader far away, and says nothing of what that reads."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as known:
        if (known.family, known.type) == (socket.AF_UNIX, socket.SOCK_STREAM):
            return True
    raise PermanentError(
        "opening standard output: it is a socket, and not a Unix stream socket",
        hint="start the provider with a pipe for its lines",
    )


def _unread_of(descriptor: int, local_socket: bool) -> Callable[[], int]:
    """How many bytes of what was written wait for the reader, in a pipe or a local socket. What anything else takes counts as read."""
    if local_socket:
        request = termios.TIOCOUTQ
    elif stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        request = termios.FIONREAD
    else:
        return lambda: 0

    def unread() -> int:
        try:
            return int.from_bytes(fcntl.ioctl(descriptor, request, bytes(4)), sys.byteorder, signed=True)
        except OSError:  # not on this system: the pipe counts as its reader
            return 0

    return unread


class Output:
    """`descriptor`: see `taken_standard_output`; PermanentError when it is a socket that is not local. `ended`: called once, from any thread,
    when nothing can be written any more: its reader is gone, or a write failed."""

    def __init__(self, descriptor: int, ended: Callable[[], None], *, clock: SteadyClock = steady) -> None:
        self._descriptor = descriptor
        self._ended = ended
        self._clock = clock
        self._guard = threading.Condition()
        self._asking: deque[object] = deque()
        self._table: TableName | None = None
        self._owners: dict[TableName, object] = {}
        self._begun: float | None = None
        self._slow_at = float("-inf")
        self._silent: float | None = None
        self._finishing = self._cut = self._over = False
        self._failure: OSError | None = None
        self._forgets = _is_local_socket(descriptor)
        self._unread = _unread_of(descriptor, self._forgets)
        self.unsaved: dict[TableName, tuple[Position | None, Position]] = {}
        """Lines that were written and whose offset could not be moved: from where to where. Only who has the table's turn changes it."""
        self.lines = 0
        """How many were written."""

    # for who writes

    def claim(self, table: TableName) -> object:
        """A token for the changes of `table`, once no line of it is in flight. What an older token has left to write is refused from now on: its
        slice was given up, and the new one reads the same changes."""
        token = object()
        with self._guard:
            while self._table == table:
                self._guard.wait(_LOOK_SECONDS)
            self._owners[table] = token
        return token

    @contextmanager
    def turn(self, table: TableName, token: object | None) -> Iterator[Callable[[bytes], None]]:
        """What writes one line, while no other is in flight. Wait for it, write, and commit before leaving. `token`: None for what has no offset.

        Raises Expired when nothing more may be written, and TransientError for an older token. The line's writer raises Expired as well.
        """
        me = object()
        with self._guard:
            self._asking.append(me)
            try:
                while self._asking[0] is not me and not self.finishing:
                    self._guard.wait(_LOOK_SECONDS)
                self._refuse_end()
                if token is not None and self._owners.get(table) is not token:
                    raise TransientError(
                        f"writing changes of {table.key}: the slice was given up, and a newer one has begun"
                    )
            except BaseException:
                self._leave(me)
                raise
            self._table = table
        try:
            yield self._write
        finally:
            with self._guard:
                self._table = None
                self._leave(me)

    def _leave(self, me: object) -> None:
        self._asking.remove(me)
        self._guard.notify_all()

    def _refuse_end(self) -> None:
        if self.finishing:
            raise Expired("writing a line: the provider stops")

    # for who looks on

    @property
    def finishing(self) -> bool:
        """Whether no further line may begin."""
        return self._finishing or self._over

    def trouble(self) -> str | None:
        """Why nothing is written for now. Raises PermanentError when a write has failed for good."""
        if self._failure is not None:
            why = self._failure.strerror or "unknown error"
            raise PermanentError(
                f"writing to standard output: {why}",
                hint="the line was not committed and is written again by the next start; the host drops a last line without a line's end",
            ) from self._failure
        waited = self.silent_seconds
        return None if waited < SILENT_SECONDS else f"the reader of standard output has read nothing for {waited:.0f} s"

    @property
    def silent_seconds(self) -> float:
        """For how long the line in flight has waited since the reader last read; 0 when there is none."""
        silent = self._silent
        return 0.0 if silent is None else self._clock() - silent

    @property
    def slow(self) -> bool:
        """Whether the line in flight waits for its reader."""
        begun = self._begun
        return begun is not None and self._clock() - begun > _SLOW_SECONDS

    def slow_since(self, moment: float) -> bool:
        """Whether a line has waited for its reader since `moment`."""
        return self.slow or self._slow_at >= moment

    def await_reader(self) -> None:
        """Wait while the line in flight waits for its reader, and nothing stops."""
        with self._guard:
            while self.slow and not self.finishing:
                self._guard.wait(_LOOK_SECONDS)

    # the end

    def finish(self) -> None:
        """Let no further line begin. The one in flight goes on."""
        self._finishing = True

    def cut(self) -> None:
        """Give up the line in flight, wherever it is. Nothing is written after that."""
        self._finishing = self._cut = True

    def watch(self, stop: threading.Event) -> None:
        """Notice, in a thread of its own, that the reader is gone while there is nothing to write: nobody else would, and the locks stay taken."""
        threading.Thread(target=self._watch, args=(stop,), name="reader", daemon=True).start()

    def _watch(self, stop: threading.Event) -> None:
        while not stop.wait(_LOOK_SECONDS) and not self._over:
            if self._gone():
                self._end(None)

    def _gone(self) -> bool:
        """Whether the reader is gone."""
        poll = select.poll()
        poll.register(self._descriptor, 0)
        return any(events & _GONE for _, events in poll.poll(0))

    def _end(self, failure: OSError | None) -> None:
        with self._guard:
            if self._over:
                return
            self._over = True
            self._failure = failure
            self._guard.notify_all()
        if failure is None:
            log.info("the reader has closed standard output; stopping")
        self._ended()

    # bytes

    def _write(self, line: bytes) -> None:
        self._begun = self._silent = self._clock()
        told = False
        left = memoryview(line)
        try:
            while left:
                if self._cut or self._over:
                    raise Expired("writing a line: the provider stops, and the reader has not read all of it")
                if (taken := self._piece(left[:_PIECE])) is None:
                    told = told or self._tell()
                    continue
                told = self._read_again(told)
                left = left[taken:]
                self._silent = self._clock()
            self._await_read(told)
            self.lines += 1
        finally:
            if self.slow:
                self._slow_at = self._clock()
            self._begun = self._silent = None

    def _await_read(self, told: bool) -> None:
        """Wait until the reader has taken what is in the pipe. Raises Expired when it never will."""
        before, pause = -1, _SHORTEST_PAUSE
        while (unread := self._unread()) > 0:
            if self._cut or self._over:
                raise Expired("writing a line: the provider stops, and the reader has not read all of it")
            if unread != before:
                told = self._read_again(told)
                before, pause, self._silent = unread, _SHORTEST_PAUSE, self._clock()
            told = told or self._tell()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._refuse_forgotten()
        self._read_again(told)

    def _refuse_forgotten(self) -> None:
        """Raises Expired when the reader may be gone without having read. The kernel throws away what waits in a socket when its reader closes
        it, so nothing is unread then. It says first that the reader is gone, so it is asked after that."""
        if self._forgets and self._gone():
            self._end(None)
            raise Expired("writing a line: its reader is gone, and may not have read all of it")

    def _read_again(self, told: bool) -> bool:
        """Log that the silence that was logged is over. Returns False: nothing is logged any more."""
        if told:
            log.info("standard output is read again", after_seconds=round(self.silent_seconds))
        return False

    def _piece(self, piece: memoryview) -> int | None:
        """How many bytes of it were taken; None: the reader was not ready."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        try:
            if not poll.poll(_LOOK_SECONDS * 1000):
                return None
            return os.write(self._descriptor, piece)
        except BlockingIOError:
            return None
        except OSError as error:
            self._end(None if error.errno in (errno.EPIPE, errno.ECONNRESET) else error)
            raise Expired(f"writing a line: {error.strerror}") from error

    def _tell(self) -> bool:
        """Log once that nobody reads. Returns whether it did."""
        if self.silent_seconds < SILENT_SECONDS:
            return False
        table = self._table
        log.warning(
            "nobody reads standard output, all tables wait",
            seconds=round(self.silent_seconds),
            table=None if table is None else table.key,
            hint="nothing is lost; find out what holds up the process that reads the lines",
        )
        return True
