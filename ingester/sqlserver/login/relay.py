"""Logs in to SQL Server with an access token for a driver that cannot: one connection, accepted at 127.0.0.1 and
forwarded to the server.

The driver logs in here, unencrypted, with a secret that only it knows. Its LOGIN7 is forwarded over TLS, with the token
in place of user and password (feature FEDAUTH, library Security Token); after the answer, bytes are forwarded unchanged
in both directions. So an identity uses the same driver as a password, with its types, errors and deadlines. The end of
one side ends the other. It verifies no certificate and requests no token: it gets a line to a server after `greet`, and
a token.
https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.6.4 LOGIN7, 2.2.7.11 FEATUREEXTACK, 3.2.5.4)
"""

from __future__ import annotations

import secrets
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing, suppress

from common.errors import ConnectionLost, DStreamError
from ingester.sqlserver.login import login7
from ingester.sqlserver.login.handshake import LOGIN7, NOT_SUPPORTED, Line, prelogin
from ingester.sqlserver.login.refusal import Answer, read_answer

_REPLY = 0x04
_MOST = 1 << 18
"""The most bytes that wait for one side; no more are read until some are sent."""

_READ = 1 << 16
_ROUTES = 5
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
)
"""As in Microsoft's clients. The driver's own settings are for its connection to the relay.
https://learn.microsoft.com/sql/connect/odbc/linux-mac/connection-string-keywords-and-data-source-names-dsns"""

Reach = Callable[[str, int], Line]
"""A line to another host and port, after `greet`. Raises DStreamError."""


class Relay:
    """For one connection of the driver: to `port` of 127.0.0.1, with `secret` as the password.

    `line`: to the server `host`, after `greet`; the relay owns it from now on. `answer` and `error`: the result of the
    login.
    """

    def __init__(self, line: Line, host: str, token: str, reach: Reach) -> None:
        self._line, self._host, self._token, self._reach = line, host, token, reach
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.secret = secrets.token_urlsafe(32)
        self.answer: Answer | None = None
        self.error: DStreamError | None = None
        self._thread = threading.Thread(target=self._run, name="sqlserver-relay", daemon=True)
        self._thread.start()

    def give_up(self) -> None:
        """Called when the driver has failed. Afterwards `answer` and `error` are final."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._line.shut()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._listener:
                driver, login = self._driver()
            with closing(driver):
                if self._let_in(driver, login):
                    _Carrier(driver.socket, self._line).run()
        except DStreamError as error:
            self.error = error
        except OSError:
            return  # one side has closed, or the driver never connected
        finally:
            self._line.close()

    def _driver(self) -> tuple[Line, login7.Login7]:
        """The driver, identified by its secret, and its login. Other connections are closed."""
        while True:
            self._listener.settimeout(self._line.left())
            driver = self._line.like(self._listener.accept()[0])
            with suppress(ConnectionLost, ValueError):
                driver.receive()
                driver.send(_REPLY, prelogin(NOT_SUPPORTED))
                login = login7.read(driver.receive())
                if secrets.compare_digest(login.password.encode(), self.secret.encode()):
                    return driver, login
            driver.close()

    def _let_in(self, driver: Line, login: login7.Login7) -> bool:
        """Log in, and follow a gateway's redirection. The driver gets the answer without the features, which it did not
        request."""
        received, answer = self._asked(login)
        for _ in range(_ROUTES):
            if answer.route is None or answer.refusals:
                break
            self._line.close()
            self._host, port = answer.route
            self._line = self._reach(self._host, port)
            received, answer = self._asked(login)
        if not (answer.refusals or answer.federated):
            raise ConnectionLost(f"{self._line.doing}: the server accepted the login without checking the token")
        self.answer = answer
        driver.send(_REPLY, received.replace(answer.features, b"", 1))
        return not answer.refusals

    def _asked(self, login: login7.Login7) -> tuple[bytes, Answer]:
        self._line.send(LOGIN7, login.by_token(self._token, self._host, echo=self._line.federated))
        received = self._line.receive()
        return received, read_answer(received)


class _Carrier:
    """Forwards bytes in both directions until either side ends. What the server sent before its end still arrives."""

    def __init__(self, driver: socket.socket, line: Line) -> None:
        self._driver, self._server, self._line = driver, line.socket, line
        self._to_server, self._to_driver = bytearray(), bytearray()
        self._there = True

    def run(self) -> None:
        for one in (self._driver, self._server):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in _KEEPALIVE:
            self._server.setsockopt(*option)
        poll = select.poll()
        while self._there or self._to_driver:
            self._expect(poll)
            ready = dict(poll.poll())
            if ready.get(self._driver.fileno(), 0) & _GONE:
                return
            if ready.get(self._driver.fileno(), 0) & select.POLLIN:
                self._to_server += self._line.sealed(self._driver.recv(_READ))
            if ready.get(self._server.fileno(), 0) & ~select.POLLOUT:
                self._hear()
            self._pass_on()

    def _expect(self, poll: select.poll) -> None:
        """Also wait for the end of the driver, so that a server that stops reading delays nothing."""
        wanted = select.POLLIN if len(self._to_server) < _MOST else 0
        poll.register(self._driver, select.POLLRDHUP | wanted | (select.POLLOUT if self._to_driver else 0))
        wanted = select.POLLIN if len(self._to_driver) < _MOST else 0
        wanted |= select.POLLOUT if self._to_server else 0
        if wanted and self._there:
            poll.register(self._server, wanted)
            return
        with suppress(KeyError):
            poll.unregister(self._server)

    def _hear(self) -> None:
        try:
            data = self._server.recv(_READ)
            self._to_driver += self._line.opened(data)
            self._there = bool(data)
        except (OSError, ssl.SSLError):
            self._there = False

    def _pass_on(self) -> None:
        if self._to_driver:
            with suppress(BlockingIOError):
                del self._to_driver[: self._driver.send(self._to_driver)]
        if self._to_server and self._there:
            with suppress(BlockingIOError):
                del self._to_server[: self._server.send(self._to_server)]
