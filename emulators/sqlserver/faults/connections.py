"""Faults of connections: cut, silent, refused at the login or sent on, and all of them gone because the server restarts.

They act on bytes, stages and logins; of the engine they know nothing but that a restart stops and starts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from emulators.sqlserver.faults.targets import ANY, Target
from emulators.sqlserver.injection import Fault, SentOn, Server, Silence, Stage
from emulators.sqlserver.results import LoginRequest, SqlError

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
        self._target = Target(times, pattern if stage in (Stage.QUERY, Stage.ANSWER) else "")
        self._silence = Silence(octets, threading.Event())

    def end(self) -> None:
        self._silence.over.set()

    def silent(self, stage: Stage, text: str = "") -> Silence | None:
        return self._silence if stage is self._stage and self._target.hit(text) else None


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
