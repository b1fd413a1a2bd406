"""Sends the messages of one table: their lines are added to its folder's open file in a thread, because a file system may hang.

While an addition hangs, no other begins: its lines might otherwise appear behind newer ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from common.bus.ports import MessageUnwritable, OutOfTime, SendInterrupted, TimeLeft, for_ever
from common.errors import Throttled, TransientError
from common.in_time import begun
from common.message import Message
from router.outputs.file.forms import Form
from router.outputs.file.names import lsn_of
from router.outputs.file.roller import Roller
from router.outputs.file.store import Journal, Store
from router.outputs.lines import NotALine

LARGEST = 1 << 20
"""Bytes of a batch."""

_GLANCE = 0.2
"""Seconds between two looks whether the call is to end."""


class Cuts:
    """How often the calls in flight were ended."""

    count = 0


class FileSender:
    """A `common.bus.ports.OpenableSender`."""

    def __init__(
        self, store: Store, folder: str, form: Form, roller: Roller, *, timeout: float, cuts: Cuts | None = None
    ) -> None:
        self._store, self._folder, self._form, self._roller = store, folder, form, roller
        self._timeout, self._cuts = timeout, cuts or Cuts()
        self._journal: Journal | None = None
        self._call: Future[None] | None = None
        self._in_doubt: list[bytes] = []

    def open(self) -> None:
        until = time.monotonic() + self._timeout
        if self._call is None:
            self._in_time(self._store.ready, until)
        else:  # an addition that hangs
            self._wait(self._call, until)
        self._roller.start(self._folder)

    def batch_bytes(self) -> int:
        return LARGEST

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        lines: list[bytes] = []
        try:
            for line in self._form.lines(messages):
                lines.append(line)
        except NotALine as error:
            at = len(lines)
            self._add(messages, lines, left or for_ever)
            raise MessageUnwritable(self._folder, messages[at], str(error), at=at, accepted=range(at)) from error
        self._add(messages, lines, left or for_ever)

    def _add(self, messages: Sequence[Message], lines: list[bytes], left: TimeLeft) -> None:
        if not lines:
            return
        if (seconds := min(left(), self._timeout)) <= 0:
            raise OutOfTime(f"adding to {self._folder}: the lock does not last long enough")
        until = time.monotonic() + seconds
        try:
            self._roller.check(self._folder)
            self._roller.start(self._folder)
            there = self._already_there(lines, until)
            if there < len(lines):
                self._append(lines[there:], lsn_of(messages[there]), until)
        except SendInterrupted:
            raise
        except TransientError as error:
            throttled = isinstance(error, Throttled)
            raise SendInterrupted(error.message, hint=error.hint, throttled=throttled) from error

    def _already_there(self, lines: Sequence[bytes], until: float) -> int:
        """How many of `lines` an addition stored that nobody waited for any longer. What is sent again after it begins with the same lines."""
        if self._call is None:
            return 0
        self._wait(self._call, until)
        call, doubted = self._call, self._in_doubt
        self._call, self._in_doubt = None, []
        count = min(len(doubted), len(lines))
        if call.exception() is not None or list(lines[:count]) != doubted[:count]:
            return 0
        if count < len(doubted):
            self._call, self._in_doubt = call, doubted[count:]
        return count

    def _append(self, lines: list[bytes], lsn: str, until: float) -> None:
        journal = self._journal = self._journal or self._store.journal(self._folder)
        seconds = until - time.monotonic()
        self._in_doubt = lines
        self._in_time(partial(journal.append, b"".join(lines), lsn=lsn, seconds=seconds), until)
        self._in_doubt = []

    def _in_time(self, call: Callable[[], None], until: float) -> None:
        self._call = begun(call, name="file")
        self._wait(self._call, until)
        over, self._call = self._call, None
        over.result()

    def _wait(self, call: Future[None], until: float) -> None:
        cuts = self._cuts.count
        while True:
            left = until - time.monotonic()
            try:
                call.exception(max(0.0, min(left, _GLANCE)))
            except TimeoutError:
                if left <= 0 or self._cuts.count != cuts:
                    raise SendInterrupted(
                        f"adding to {self._folder} in {self._store.where}: no answer in time",
                        hint="the file system or the storage account hangs, or is too slow",
                    ) from None
                continue
            return

    def close(self) -> None:
        """What hangs keeps its files until it ends."""
        journal, call = self._journal, self._call
        if journal is None:
            return
        if call is None or call.done():
            journal.close()
        else:
            call.add_done_callback(lambda over: journal.close())
