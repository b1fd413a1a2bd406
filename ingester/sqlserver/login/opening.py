"""Logging in to SQL Server with pymssql, and what it means when that fails.

The server is first tried without the driver (handshake.py, trust.py); the driver then gets the address that answered
and the name that its certificate is valid for. A refused login is sent once more, to get the server's own words. The
login of an identity goes through a relay (relay.py), which reads these words itself.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Hashable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import pymssql
from pymssql import _mssql

from common.azure_identity import TOKEN_TIMEOUT, sql_tokens
from common.errors import ConnectionLost, DStreamError, PermanentError
from common.sqladdress import SqlAddress
from ingester.sqlserver.login.browser import port_of
from ingester.sqlserver.login.errors import refused
from ingester.sqlserver.login.freetds import driver_file, held, refuse_what_fits_no_line
from ingester.sqlserver.login.handshake import BROKE, NO_ANSWER, Line, Unencrypted, Untrusted, late
from ingester.sqlserver.login.refusal import Answer, Refusal, Words, ask
from ingester.sqlserver.login.relay import Relay
from ingester.sqlserver.login.trust import authorities, greet, wanted_name
from ingester.sqlserver.waiting import HANGS, Patience, Wire, login_in_time, patient

OF_THE_DRIVER: Final = (pymssql.Error, _mssql.MSSQLException)
"""What the driver raises. Where its two layers meet it lets errors of the lower one pass: of a connection that ends right after the login."""

QUERY_TIMEOUT = 120
"""Seconds before a query counts as hung. The driver then drops the connection; the next use opens another."""
QUICK_SECONDS = 30.0
"""The same for the first questions of a pass, which read no changes and wait only shortly for locks: a dead connection
is noticed soon."""

_ENCRYPTION = {"disable": "off", "optional": "request", "mandatory": "require", "strict": "strict"}
"""In the words of the driver's file. Strict is TDS 8.0."""

_APPLICATION = "dstream ingester"
"""The application name of a connection, unless the address has one (`app name`)."""
PATIENT = "SET LOCK_TIMEOUT 10000"
"""How long a statement waits for another session's lock, in milliseconds, before it fails with error 1222; the default is without limit. https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql"""
_SESSION = (
    *("ARITHABORT", "CONCAT_NULL_YIELDS_NULL", "ANSI_NULLS", "ANSI_NULL_DFLT_ON", "ANSI_PADDING", "ANSI_WARNINGS"),
    *("CURSOR_CLOSE_ON_COMMIT", "QUOTED_IDENTIFIER"),
)
_SESSION_TEXT = ";".join(
    [
        *(f"SET {option} ON" for option in _SESSION),
        "SET TEXTSIZE 2147483647",
        "SET IMPLICIT_TRANSACTIONS OFF",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        PATIENT,
    ]
)
"""The settings of the driver for a session. In addition, no statement opens a transaction, which a server's "user
options" may request.
https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-user-options-server-configuration-option"""


_words = Words()


class Login:
    """Opens connections to the database of `address`. Not thread-safe. `stop`: once set, a login is soon abandoned."""

    def __init__(self, address: SqlAddress, stop: threading.Event | None = None) -> None:
        self._address = address
        self._stop = stop
        self._seconds = float(address.login_seconds)
        self._tokens = None if address.identity is None else sql_tokens(address.identity, address.user)

    @property
    def where(self) -> str:
        address = self._address
        named = f"{address.host}\\{address.instance}" if address.instance and address.port is None else None
        return named or f"{address.host}:{address.port or 1433}"

    def open(self, *, proven: bool) -> Any:
        """A connection of the driver to the address's database. `proven`: this login has worked before.

        Raises ConnectionLost for errors that may pass, and PermanentError for those that a person must fix; once
        proven, only the former.
        """
        try:
            if self._tokens is None:
                return login_in_time(lambda: self._attempt(proven=proven), self._seconds, self._stop, self._doing)
            token = login_in_time(self._tokens.get, TOKEN_TIMEOUT + 1, self._stop, f"{self._doing} as {self._who}")
            return login_in_time(lambda: self._by_token(token, proven=proven), self._seconds, self._stop, self._doing)
        except PermanentError as error:
            if not proven:
                raise
            raise ConnectionLost(error.message, hint=error.hint) from error
        except ConnectionLost as error:
            if not proven or error.hint not in (NO_ANSWER, HANGS):
                raise
            # It was SQL Server, and now nobody answers: each of these hints is a guess, and would be another line about the same outage.
            raise ConnectionLost(error.message) from error

    @property
    def _who(self) -> str:
        """In errors."""
        address = self._address
        if address.identity is None:
            return f"user {address.user!r}"
        return "the identity" + (f" with client id {address.user}" if address.user else "")

    @property
    def _doing(self) -> str:
        return f"connecting to SQL Server {self.where}"

    def _attempt(self, *, proven: bool) -> Any:
        if said := _words.held(self._key):
            raise refused(said, self._doing, self._who, self._address.database, proven=proven)
        end = time.monotonic() + self._seconds
        host, port, name = self._way(end)
        try:
            with (
                closing(Wire()) as wire,
                patient(patience := Patience(self._left(end), self._stop, wire)),
                driver_file(self._address.host, self._told(host, port, name), self._left(end)),
            ):
                opened = self._driver(port, end, self._address.user, self._address.password.get_secret_value())
                _words.forget(self._key)
                return opened
        except OF_THE_DRIVER as error:
            if patience.over is not None:
                raise late(self._doing, self._seconds) from error
            raise self._error(error, port, proven=proven) from error

    def _by_token(self, token: str, *, proven: bool) -> Any:
        end = time.monotonic() + self._seconds
        address = self._address
        line = self._greeted(address.host, self._port(end), end)
        relay = Relay(line, address.host, token, lambda host, port: self._greeted(host, port, end))
        try:
            with (
                closing(Wire()) as wire,
                patient(patience := Patience(self._left(end), self._stop, wire)),
                driver_file(address.host, {"host": "127.0.0.1", "encryption": "off", **self._packets}, self._left(end)),
            ):
                return self._driver(relay.port, end, "token", relay.secret)
        except OF_THE_DRIVER as error:
            relay.give_up()
            if patience.over is not None:
                raise late(self._doing, self._seconds) from error
            raise self._of_relay(relay, error, proven=proven) from error
        except DStreamError:
            relay.give_up()
            raise

    def _of_relay(self, relay: Relay, error: Exception, *, proven: bool) -> DStreamError:
        if relay.error is not None:
            return relay.error
        if relay.answer is None or not relay.answer.refusals:
            return ConnectionLost(f"{self._doing}: the connection broke while logging in")
        if self._tokens is not None:
            self._tokens.forget()
        refusals, database = relay.answer.refusals, self._address.database
        return refused(refusals, self._doing, self._who, database, proven=proven, by_token=True)

    def _greeted(self, host: str, port: int, end: float) -> Line:
        """A line to that server, ready for a token. Its certificate must be for the address's name or, after a
        redirection, for that host."""
        address = self._address
        try:
            return self._trusted(address, host, port, end)
        except PermanentError:
            if host == address.host or "host_name_in_certificate" in address.options:
                raise
            return self._trusted(replace(address, host=host), host, port, end)

    def _trusted(self, address: SqlAddress, host: str, port: int, end: float) -> Line:
        line = Line.to(host, port, self._doing, end, self._seconds)
        try:
            greet(line, address, to_log_in=True)
        except Untrusted as why:
            line.close()
            raise self._untrusted(why) from why
        except BaseException:
            line.close()
            raise
        return line

    def _port(self, end: float) -> int:
        address = self._address
        refuse_what_fits_no_line(address.host, address.instance or "", wanted_name(address))
        if address.instance and address.port is None:
            return port_of(address.host, address.instance, self._doing, self._left(end))
        return address.port or 1433

    def _way(self, end: float) -> tuple[str, int, str | None]:
        """The IP address that answers, its port, and the name in its certificate, if that is verified."""
        address, port = self._address, self._port(end)
        with closing(Line.to(address.host, port, self._doing, end, self._seconds)) as line:
            try:
                return line.peer, port, greet(line, address).name
            except Untrusted as why:
                raise self._untrusted(why) from why

    def _told(self, host: str, port: int, name: str | None) -> dict[str, str]:
        """The section of the driver's file."""
        address = self._address
        told = {"host": host, "port": str(port), "encryption": _ENCRYPTION[address.encryption], **self._packets}
        if name is not None:
            trusted = held(authorities(address).read_bytes())
            told |= {"ca file": trusted, "check certificate hostname": "yes", "certificate hostname": name}
        return told

    @property
    def _packets(self) -> dict[str, str]:
        size = self._address.options.get("packet_size")
        return {} if size is None else {"initial block size": size}

    def _driver(self, port: int, end: float, user: str, password: str) -> Any:
        address = self._address
        return pymssql.connect(
            server=address.host,
            port=str(port),
            user=user,
            password=password,
            database=address.database,
            autocommit=True,
            appname=self._application,
            login_timeout=max(1, math.ceil(self._left(end))),
            timeout=QUERY_TIMEOUT,
            tds_version="7.4",
            conn_properties=_SESSION_TEXT,
        )

    @property
    def _application(self) -> str:
        return self._address.options.get("app_name", _APPLICATION)

    def _left(self, end: float) -> float:
        return max(0.1, end - time.monotonic())

    def _error(self, error: Exception, port: int, *, proven: bool) -> DStreamError:
        """The meaning of the driver's remarks. Number and text of a failed connect may belong to an earlier one in the
        process."""
        said = str(error)
        if "DB-Lib error message 20018" in said:  # the server has refused the login
            return self._refused(port, proven=proven)
        if "DB-Lib error message 20003" in said:
            return late(self._doing, self._seconds)
        if self._address.verified and not re.search("DB-Lib error message 200(04|06|17)|connection properties", said):
            return ConnectionLost(
                f"{self._doing}: the driver does not trust the server, which presented a valid certificate a moment ago",
                hint=f"check whether another server sometimes answers, with a certificate that is not for {wanted_name(self._address)}",
            )
        return ConnectionLost(f"{self._doing}: the connection broke while logging in", hint=BROKE)

    def _refused(self, port: int, *, proven: bool) -> DStreamError:
        said = _words.of(self._key, lambda: self._said(port))
        _words.refused(self._key, said)
        return refused(said, self._doing, self._who, self._address.database, proven=proven)

    @property
    def _key(self) -> Hashable:
        address = self._address
        return address.host, address.instance, address.port, address.user, address.password, address.database

    def _said(self, port: int) -> Sequence[Refusal]:
        address = self._address
        answer = self._asked(address, address.host, port)
        if answer.route is not None and not answer.refusals:
            host, port = answer.route
            try:
                answer = self._asked(address, host, port)
            except PermanentError:  # that host has a certificate of its own
                answer = self._asked(replace(address, host=host), host, port)
        return answer.refusals

    def _asked(self, address: SqlAddress, host: str, port: int) -> Answer:
        """The present answer to the login there, from a server that is verified as `address` requires."""
        end = time.monotonic() + self._seconds
        with closing(Line.to(host, port, self._doing, end, self._seconds)) as line:
            try:
                greeting = greet(line, address, to_log_in=True)
            except Untrusted as why:
                raise self._untrusted(why) from why
            return ask(line, address, self._application, login_only=greeting.login_only)

    def _untrusted(self, why: Untrusted) -> PermanentError:
        address = self._address
        if not address.verified:
            return PermanentError(
                f"{self._doing}: no encrypted connection: {why}",
                hint="enable encryption on the server, or set encrypt=optional or encrypt=disable",
            )
        if isinstance(why, Unencrypted):
            unverified = "" if address.identity is not None else ", or set encrypt=optional: data then travels in clear"
            return PermanentError(
                f"{self._doing}: no encrypted connection to a trusted server: {why}",
                hint=f"enable encryption on the server{unverified}",
            )
        return PermanentError(
            f"{self._doing}: no encrypted connection to a trusted server: {why}",
            hint=(
                f"check that an authority in {authorities(address)} signed its certificate for {wanted_name(address)}. For another authority, "
                "set certificate=FILE; for another name, set HostNameInCertificate="
                + ("" if address.encryption == "strict" else "; TrustServerCertificate=true turns verification off")
            ),
        )
