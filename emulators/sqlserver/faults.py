"""Faults by name, for tests (`with server.inject(DeadlockVictim()):`) and for `--fault NAME[:ARGUMENTS]`.

Each says what it is for and what must remain. They act at the seams: login, statement, bytes sent, capture; none reaches into the
engine's data. Which driver turns them into which exception is not their business.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from emulators import fault_names
from emulators.sqlserver.injection import Fault, SentOn, Server, Silence, Stage
from emulators.sqlserver.results import Cancel, Event, LoginRequest, Session, SqlError, TransactionChanged

if TYPE_CHECKING:
    from emulators.sqlserver.cdc.database import DatabaseCdc
    from emulators.sqlserver.cdc.extension import CdcExtension

ANY = r"\b(SELECT|INSERT|UPDATE|DELETE|MERGE|EXEC|EXECUTE)\b"
"""What a statement fault hits by default: whatever reads or writes, not the SETs and USEs that drivers send by themselves."""

_STEP = 0.02

_REFUSALS = {
    17142: "SQL Server service has been paused. No new connections will be allowed. To resume the service, use SQL Computer "
    "Manager or the Services application in Control Panel.",
    18401: "Login failed for user '{user}'. Reason: Server is in script upgrade mode. Only administrator can connect at this time.",
    18456: "Login failed for user '{user}'.",
    18487: "Login failed for user '{user}'.  Reason: The password of the account has expired.",
    40197: "The service has encountered an error processing your request. Please try again. Error code 4060.",
    40532: 'Cannot open server "{server}" requested by the login.  The login failed.',
    40615: "Cannot open server '{server}' requested by the login. Client with IP address '127.0.0.1' is not allowed to access the server.",
    49918: "Cannot process request. Not enough resources to process request. Please retry your request later.",
    40613: "Database '{database}' on server 'emulator' is not currently available. Please retry the connection later. If the "
    "problem persists, contact customer support, and provide them the session tracing ID of '0'.",
}
_SEVERITIES = {40197: 17, 40532: 20, 40613: 17, 49918: 16}
"""Where it is not 14. https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues"""


class _Target:
    """The next `times` statements that hold `pattern` (a regular expression, letters of any case); thread-safe."""

    def __init__(self, times: int, pattern: str) -> None:
        self._left = times
        self._pattern = re.compile(pattern, re.IGNORECASE)
        self._lock = threading.Lock()

    def hit(self, text: str) -> bool:
        with self._lock:
            if self._left <= 0 or not self._pattern.search(text):
                return False
            self._left -= 1
            return True


class ConnectionCutAfter(Fault):
    """The network breaks in the middle of an answer: after `count` more bytes to any client, the one being answered is cut off.

    `times`: so often, counting anew each time. What remains: the session is gone and rolled back, the server serves others.
    """

    def __init__(self, count: int, times: int = 1) -> None:
        self._count = self._left = count
        self._times = times
        self._lock = threading.Lock()

    def sending(self, count: int) -> int:
        with self._lock:
            if self._times <= 0 or count <= self._left:
                self._left -= count
                return count
            allowed, self._left = self._left, self._count
            self._times -= 1
            return allowed


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
        self._target = _Target(times, pattern)
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


class Mute(Fault):
    """A peer that is there and says nothing more: the next `times` connections, or statements, that come to `stage` (see Stage) fall silent.

    `octets`: so many of the answer still get out (stages answer and tls; half of it without). `pattern`: the statements that are hit
    (stages query and answer). What remains: a connection stays silent, also when the fault has ended, until its client leaves. It holds
    its session with its transaction and locks till then. A statement whose answer was cut has run.
    """

    def __init__(self, stage: str, times: int = 1, octets: int | None = None, pattern: str = ANY) -> None:
        if stage not in list(Stage):
            raise ValueError(f"a connection falls silent at {', '.join(Stage)}, not at {stage!r}")
        if octets is not None and stage not in (Stage.ANSWER, Stage.TLS):
            raise ValueError(f"at the stage {stage} no octets get out: leave OCTETS empty")
        if pattern != ANY and stage not in (Stage.QUERY, Stage.ANSWER):
            raise ValueError(f"at the stage {stage} there is no statement: leave PATTERN out")
        self._stage = Stage(stage)
        self._target = _Target(times, pattern if stage in (Stage.QUERY, Stage.ANSWER) else "")
        self._silence = Silence(octets, threading.Event())

    def end(self) -> None:
        self._silence.over.set()

    def silent(self, stage: Stage, text: str = "") -> Silence | None:
        return self._silence if stage is self._stage and self._target.hit(text) else None


class DeadlockVictim(Fault):
    """Error 1205 for the next `times` statements that hold `pattern`, as another session's deadlock would choose them.

    What remains: nothing of the statement or of its transaction, which is rolled back; the session and the connection stay.
    https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-1205-database-engine-error
    """

    def __init__(self, times: int = 1, pattern: str = ANY) -> None:
        self._target = _Target(times, pattern)

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
        self._target = _Target(times, pattern)

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if self._target.hit(text):
            raise SqlError(596, "Cannot continue the execution because the session is in the kill state.", 21)
        yield from ()


class LoginRefusedFor(Fault):
    """A server that is not ready yet, or fails over: nobody gets in for `seconds`. Sessions that exist go on undisturbed.

    `number`: 18401 (being upgraded), 18456 (login failed: what a database that recovers looks like), 17142 (paused), 18487 (password
    expired); of Azure 40613 (not available), 40197, 49918, 40532 (the gateway does not know the server), 40615 (firewall).
    """

    def __init__(self, seconds: float, number: int = 18401, clock: Callable[[], float] = time.monotonic) -> None:
        if number not in _REFUSALS:
            raise ValueError(f"logins are refused with one of {', '.join(map(str, _REFUSALS))}, not {number}")
        self._seconds, self._number, self._clock = seconds, number, clock
        self._until = 0.0

    def begin(self, server: Server) -> None:
        self._until = self._clock() + self._seconds

    def login(self, request: LoginRequest) -> None:
        if self._clock() < self._until:
            text = _REFUSALS[self._number].format(user=request.user, database=request.database, server=request.server)
            raise SqlError(self._number, text, _SEVERITIES.get(self._number, 14))


class LoginSentOn(Fault):
    """A gateway like Azure's under the connection policy Redirect: nobody gets in here, all are sent on to `host` and `port`.

    https://learn.microsoft.com/azure/azure-sql/database/connectivity-architecture
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    def login(self, request: LoginRequest) -> None:
        raise SentOn(self._host, self._port)


class ServerRestart(Fault):
    """The service is restarted, `after` seconds from now, and is `away` for so long. `done` is set when it listens again.

    What remains: the port and all databases with what was committed. Every session is gone and rolled back.
    """

    def __init__(self, after: float = 0.0, away: float = 0.0) -> None:
        self._after, self._away = after, away
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.done = threading.Event()

    def begin(self, server: Server) -> None:
        self._thread = threading.Thread(target=self._run, args=(server,), name="sqlserver-restart", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, server: Server) -> None:
        if not self._over.wait(self._after):
            server.stop()
            self._over.wait(self._away)
            server.start()
            self.done.set()


class CaptureFault(Fault):
    """Breaks the capture of every database, those included that get CDC while it is in force; its end mends them.

    What remains: changes wait in the log, and are captured afterwards. Subclasses say how.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._broken: list[DatabaseCdc] = []
        self._mending = ExitStack()
        self._extension: CdcExtension | None = None

    def begin(self, server: Server) -> None:
        from emulators.sqlserver.cdc.extension import CdcExtension

        extension = getattr(server.engine, "extension", None)
        if not isinstance(extension, CdcExtension):
            raise ValueError("a server without Change Data Capture has no capture to break")
        self._extension = extension
        self.finished()

    def finished(self) -> None:
        with self._lock:
            for cdc in self._extension.states() if self._extension is not None else ():
                if cdc not in self._broken:
                    self._broken.append(cdc)
                    self._mending.enter_context(self.broken(cdc))

    def end(self) -> None:
        with self._lock:
            self._extension = None
            self._mending.close()

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        """A block in which this database's capture is broken."""
        raise NotImplementedError


class CaptureLagging(CaptureFault):
    """Capture stays `seconds` behind the log."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        from emulators.sqlserver.cdc.faults import capture_lagging

        return capture_lagging(cdc, seconds=self._seconds)


class CaptureFailing(CaptureFault):
    """Every scan of the log fails, and says so in sys.dm_cdc_errors."""

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        from emulators.sqlserver.cdc.faults import capture_failing

        return capture_failing(cdc)


class ChangeTableLocked(CaptureFault):
    """The capture of a large transaction holds its change table exclusively: who reads it waits, or meets 1222 after LOCK_TIMEOUT.

    From about 5,000 row locks on SQL Server takes one on the whole table instead, until the transaction of the scan commits. `table`:
    the change table's name, as "dbo_Persons_CT". Readers under READ_COMMITTED_SNAPSHOT or SNAPSHOT do not wait. What remains:
    everything; nothing of the capture itself is delayed here.
    https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide (lock escalation)
    """

    def __init__(self, table: str) -> None:
        super().__init__()
        self._table = table

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return cdc.database.held("cdc", self._table)


class LogTimesLocked(CaptureFault):
    """The capture of a large transaction has added to cdc.lsn_time_mapping and has not committed: sys.fn_cdc_get_max_lsn, which looks for
    the last row, waits, or meets 1222 after LOCK_TIMEOUT.

    Rows that were there before are free, and readers under READ_COMMITTED_SNAPSHOT or SNAPSHOT do not wait. What remains: everything;
    nothing of the capture itself is delayed here.
    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
    """

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        return cdc.database.held_end("cdc", "lsn_time_mapping")


class LockTimeout(Fault):
    """Error 1222 for the next `times` statements that hold `pattern`, as behind another session's lock that outlasts any LOCK_TIMEOUT.

    Such as a table's schema lock (Sch-M) to a statement that asks for the table's name or columns. What remains: everything but the
    statement; the session, its transaction and the connection stay.
    https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql
    """

    def __init__(self, times: int = 1, pattern: str = ANY) -> None:
        self._target = _Target(times, pattern)

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        if self._target.hit(text):
            raise SqlError(1222, "Lock request time out period exceeded.", 16, 45)
        yield from ()


class CaptureStopped(CaptureFault):
    """The capture job is stopped: the first table under CDC starts one, and it is stopped again."""

    def finished(self) -> None:
        super().finished()
        with self._lock:
            for cdc in self._broken if self._extension is not None else ():
                if cdc.stop_job():
                    self._mending.callback(cdc.start_job)

    def broken(self, cdc: DatabaseCdc) -> AbstractContextManager[None]:
        from emulators.sqlserver.cdc.faults import capture_stopped

        return capture_stopped(cdc)


def _octets(text: str) -> int | None:
    return int(text) if text else None


NAMES: Mapping[str, fault_names.Named[Fault]] = {
    "connection_cut_after": (ConnectionCutAfter, (int, int), "BYTES[,TIMES]"),
    "answer_delayed": (AnswerDelayed, (float, str), "SECONDS[,PATTERN]"),
    "query_that_hangs": (QueryThatHangs, (int, str), "[TIMES[,PATTERN]]"),
    "mute": (Mute, (str, int, _octets, str), "STAGE[,TIMES[,OCTETS[,PATTERN]]]"),
    "deadlock_victim": (DeadlockVictim, (int, str), "[TIMES[,PATTERN]]"),
    "session_killed": (SessionKilled, (int, str), "[TIMES[,PATTERN]]"),
    "login_sent_on": (LoginSentOn, (str, int), "HOST,PORT"),
    "login_refused_for": (LoginRefusedFor, (float, int), "SECONDS[,NUMBER]"),
    "server_restart": (ServerRestart, (float, float), "[AFTER[,AWAY]]"),
    "capture_stopped": (CaptureStopped, (), ""),
    "capture_lagging": (CaptureLagging, (float,), "SECONDS"),
    "capture_failing": (CaptureFailing, (), ""),
    "change_table_locked": (ChangeTableLocked, (str,), "TABLE"),
    "log_times_locked": (LogTimesLocked, (), ""),
    "lock_timeout": (LockTimeout, (int, str), "[TIMES[,PATTERN]]"),
}
"""Name to the fault, the types of its arguments, and how people write them."""


def usage() -> str:
    """Every fault's name with its arguments."""
    return fault_names.usage(NAMES)


def parse(text: str) -> Fault:
    """A fault as a command line names it, `NAME[:ARGUMENT,...]`; the last argument may hold commas. Raises ValueError."""
    return fault_names.parse(text, NAMES, last_holds_commas=True)


def _wait(seconds: float | None, cancelled: Cancel, over: threading.Event) -> None:
    """Until the time, None for ever, has passed, the client has enough, or the fault is over."""
    end = None if seconds is None else time.monotonic() + seconds
    while not cancelled() and (end is None or time.monotonic() < end):
        if over.wait(_STEP if end is None else max(0.0, min(_STEP, end - time.monotonic()))):
            time.sleep(
                _STEP
            )  # a client that has hung up by now shall be noticed: the socket is not looked at each time
            return
