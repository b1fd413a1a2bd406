"""Faults of single statements: one waits, never answers, or fails as if something else in the server had stopped it.

They choose by the statement's text alone, and leave what has run before as the real error would.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from emulators.sqlserver import turns
from emulators.sqlserver.faults.targets import ANY, Target
from emulators.sqlserver.injection import BrokenOff, Fault
from emulators.sqlserver.results import Cancel, Event, ResultSet, Session, SqlError, TransactionChanged, Value

_STEP = 0.02


class AnswerDelayed(Fault):
    """A slow server: each statement that holds `pattern` waits `seconds` before it runs. Nothing is lost; an attention ends the wait."""

    def __init__(self, seconds: float, pattern: str = ANY) -> None:
        self._seconds = seconds
        self._pattern = re.compile(pattern, re.IGNORECASE)
        self._over = threading.Event()

    def end(self) -> None:
        self._over.set()

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if self._pattern.search(text):
            _wait(self._seconds, cancelled, self._over)
        yield from ()


class QueryThatHangs(Fault):
    """A query that never answers: the next `times` statements that hold `pattern` wait until the client gives up, or the fault ends.

    What remains: a statement that was given up has not run; its session is usable after an attention, rolled back after a hang-up.
    """

    def __init__(self, times: int = 1, pattern: str = ANY) -> None:
        self._target = Target(times, pattern)
        self._over = threading.Event()
        self.hanging = threading.Event()
        """Set when the first one hangs."""

    def end(self) -> None:
        self._over.set()

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if self._target.hit(text):
            self.hanging.set()
            _wait(None, cancelled, self._over)
        yield from ()


class DeadlockVictim(Fault):
    """Error 1205 for the next `times` statements that hold `pattern`, as another session's deadlock would choose them.

    What remains: nothing of the statement or of its transaction, which is rolled back; the session and the connection stay.
    https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-1205-database-engine-error
    """

    def __init__(self, times: int = 1, pattern: str = ANY) -> None:
        self._target = Target(times, pattern)

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if not self._target.hit(text):
            return
        if session.in_transaction:
            yield from (event for event in session.rollback() if isinstance(event, TransactionChanged))
        text = (
            f"Transaction (Process ID {session.session_id}) was deadlocked on lock resources with another process and has been "
            "chosen as the deadlock victim. Rerun the transaction."
        )
        raise SqlError(1205, text, 13, 51)


class SessionKilled(Fault):
    """An administrator's KILL, noticed by the next `times` statements that hold `pattern`: error 596, and the connection ends.

    What remains: nothing of the statement or of its transaction. Other sessions notice nothing.
    """

    def __init__(self, times: int = 1, pattern: str = ANY) -> None:
        self._target = Target(times, pattern)

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if self._target.hit(text):
            raise SqlError(596, "Cannot continue the execution because the session is in the kill state.", 21)
        yield from ()


class AnswerBrokenOff(Fault):
    """A session killed while the next `times` statements that hold `pattern` are answered: after `rows` rows of a result set, no error's
    text, only a last token with the bit for an error, and the connection ends.

    What remains: nothing of the session's transaction. Most drivers take the answer for a whole one.
    https://github.com/microsoft/mssql-jdbc/issues/1846
    """

    def __init__(self, times: int = 1, rows: int = 1, pattern: str = ANY) -> None:
        self._target = Target(times, pattern)
        self._rows = rows

    def answer(self, text: str, events: Iterator[Event]) -> Iterator[Event]:
        return self._broken_off(events) if self._target.hit(text) else events

    def _broken_off(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            yield replace(event, rows=self._some(event.rows)) if isinstance(event, ResultSet) else event

    def _some(self, rows: Iterable[Sequence[Value]]) -> Iterator[Sequence[Value]]:
        for number, row in enumerate(rows, 1):
            yield row
            if number == self._rows:
                raise BrokenOff


class LockTimeout(Fault):
    """Error 1222 for the next `times` statements that hold `pattern`, as behind another session's lock that outlasts any LOCK_TIMEOUT.

    Such as a table's schema lock (Sch-M) to a statement that asks for the table's name or columns. What remains: everything but the
    statement; the session, its transaction and the connection stay.
    https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql
    """

    def __init__(self, times: int = 1, pattern: str = ANY) -> None:
        self._target = Target(times, pattern)

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if self._target.hit(text):
            raise SqlError(1222, "Lock request time out period exceeded.", 16, 45)
        yield from ()


def _wait(seconds: float | None, cancelled: Cancel, over: threading.Event) -> None:
    """Until the time, None for ever, has passed, the client has enough, or the fault is over."""
    end = None if seconds is None else time.monotonic() + seconds
    turns.give_up()
    while not cancelled() and (end is None or time.monotonic() < end):
        if over.wait(_STEP if end is None else max(0.0, min(_STEP, end - time.monotonic()))):
            # A client that has hung up by now must be noticed: the socket is not looked at each time.
            time.sleep(_STEP)
            return
