"""Whose turn it is to scan the log of a database: one scan at a time, a second one of another session is error 22903.

On the real server a running capture job has the log all the time and sys.sp_cdc_scan is refused beside it. Here the job lets go of
it between two cycles and sys.sp_cdc_scan waits for a cycle's end, unless the job is told to keep it (see build_engine). A job whose
cycle waits for a writer ends it when a session wants its turn: that writer may be waiting for the session.
A session that scanned stays the log's reader on the real server until it calls sp_replflush or ends; here only with `session_keeps_log`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from emulators.sqlserver import turns
from emulators.sqlserver.cdc import errors

JOB_SESSION = 50
"""The session id of the capture job in error 22903: below those of users."""

_LOOK_AGAIN = 0.05


class ScanTurn:
    def __init__(self) -> None:
        self._free = threading.Condition()
        self._holder: int | None = None
        self._wanted = 0

    @property
    def holder(self) -> int | None:
        """The session that scans; None: nobody."""
        return self._holder

    @property
    def wanted(self) -> bool:
        """Whether a session waits for the job's cycle to end."""
        return self._wanted > 0

    @contextmanager
    def of_session(self, session_id: int, *, keep: bool = False) -> Iterator[None]:
        """Waits for the job's cycle to end. Raises 22903 while another session scans. `keep`: until `release`, the log stays this session's."""
        with self._free:
            self._wanted += 1
            try:
                while self._holder not in (None, session_id):
                    if self._holder != JOB_SESSION:
                        raise errors.log_is_being_read(self._holder)
                    turns.give_up()
                    self._free.wait()
            finally:
                self._wanted -= 1
            self._holder = session_id
        try:
            yield
        finally:
            if not keep:
                self._release()

    def release(self, session_id: int) -> None:
        """The log is no longer this session's, if it was."""
        if self._holder == session_id:
            self._release()

    @contextmanager
    def of_job(self, stopped: Callable[[], bool]) -> Iterator[bool]:
        """Waits for a session's scan to end; False when the job was stopped before it came to that."""
        with self._free:
            while (self._holder is not None or self._wanted) and not stopped():
                turns.give_up()
                self._free.wait(_LOOK_AGAIN)
            mine = self._holder is None and not self._wanted
            if mine:
                self._holder = JOB_SESSION
        try:
            yield mine
        finally:
            if mine:
                self._release()

    def _release(self) -> None:
        with self._free:
            self._holder = None
            self._free.notify_all()
