"""A standard stream that lines are written to: whole lines, no longer than the caller waits, and none inside of another.

The stream is never set to non-blocking, because the terminal and other processes share that setting: a piece that a pipe with room takes at
once never blocks.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from common.bus.ports import SendInterrupted
from common.errors import DStreamError, EntityUnavailable

_PIECE = 4_096
"""Bytes that a pipe which is ready takes without a wait (pipe(7), PIPE_BUF)."""

_GLANCE = 0.2
"""Seconds between two looks whether the call is to end."""

_GONE = {errno.EPIPE, errno.EBADF, errno.EIO}
"""The reader has gone, the stream is closed, the terminal has ended."""


class Pipe:
    """`fd`: the stream's. Callable from any thread."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd, self._name = fd, name
        self._mine = threading.Lock()
        self._rest = memoryview(b"")
        self._cuts = 0

    def write(self, lines: Sequence[bytes], *, seconds: float) -> None:
        """Return when the stream took all. Raises SendInterrupted with the places of the lines that it took, and EntityUnavailable."""
        until, cuts = time.monotonic() + seconds, self._cuts
        if not self._mine.acquire(timeout=max(0.0, seconds)):
            raise self._unread(0, seconds)
        try:
            self._write(lines, until, cuts, seconds)
        finally:
            self._mine.release()

    def cut(self) -> None:
        """End every `write` that waits."""
        self._cuts += 1

    def _write(self, lines: Sequence[bytes], until: float, cuts: int, seconds: float) -> None:
        if self._rest:  # the end of a line that was interrupted; its message comes again
            taken, error = self._take(self._rest, until, cuts)
            self._rest = self._rest[taken:]
            if self._rest:
                raise self._unread(0, seconds) if error is None else self._failed(0, error)
        data = memoryview(b"".join(lines))
        taken, error = self._take(data, until, cuts)
        if taken == len(data):
            return
        ends = list(accumulate(map(len, lines)))
        whole = sum(end <= taken for end in ends)
        if taken > (ends[whole - 1] if whole else 0):
            self._rest = data[taken : ends[whole]]
        raise self._unread(whole, seconds) if error is None else self._failed(whole, error)

    def _take(self, data: memoryview, until: float, cuts: int) -> tuple[int, OSError | None]:
        """How many bytes the stream took in time, and what ended it."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        taken = 0
        while taken < len(data):
            left = until - time.monotonic()
            if not poll.poll(max(0.0, min(left, _GLANCE)) * 1000):
                if left <= 0 or self._cuts != cuts:
                    break
                continue
            try:
                taken += os.write(self._fd, data[taken : taken + _PIECE])
            except BlockingIOError:  # another process took the room, or made the stream non-blocking
                time.sleep(0.001)
            except OSError as error:
                return taken, error
        return taken, None

    def _failed(self, whole: int, error: OSError) -> DStreamError:
        """Lines that it took are reported first; the next write meets the error again."""
        made: DStreamError = SendInterrupted(f"writing to {self._name}: {error.strerror}", accepted=range(whole))
        if error.errno in _GONE:
            text = f"writing to {self._name}: the reader has closed it ({error.strerror})"
            hint = "start the router again with a reader; until then the messages wait in the queue"
            made = (
                SendInterrupted(text, hint=hint, accepted=range(whole)) if whole else EntityUnavailable(text, hint=hint)
            )
        made.__cause__ = error
        return made

    def _unread(self, whole: int, seconds: float) -> SendInterrupted:
        return SendInterrupted(
            f"writing to {self._name}: it took nothing more for {seconds:.0f} s",
            hint="its reader has stopped reading",
            accepted=range(whole),
        )


@cache
def pipe_of(fd: int, name: str) -> Pipe:
    """The one of this process, so that no two outputs write at once."""
    return Pipe(fd, name)
