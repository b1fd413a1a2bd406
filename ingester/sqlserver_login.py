"""Logging in to SQL Server with pymssql, and what it means when that fails.

The driver says the same words of many things, so a refusal is asked about again where that tells them apart.
"""

from __future__ import annotations

import re
import socket
from typing import Any

import pymssql

from common.errors import ConnectionLost, DStreamError, PermanentError
from common.sqladdress import SqlAddress
from ingester.sqlserver_driver_file import authorities, configured, verified
from ingester.sqlserver_errors import not_ready, number_and_text

LOGIN_TIMEOUT = 10
"""Seconds to wait for a login: long enough for a failover's listener, short enough to say soon that nobody is there."""

QUERY_TIMEOUT = 120
"""Seconds before a query counts as hung. The driver then drops the connection; the next use opens another."""

_ENCRYPTION = {"disable": "off", "optional": "request", "mandatory": "require"}
"""In the driver's words; without one it does as for "optional": the login encrypted if the server can. "strict" (TDS 8.0) it only takes from
its file."""

_APPLICATION = "dstream ingester"
"""What a connection calls itself where the address does not say (`app name`)."""
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
    ]
)
"""What the driver sets for a session, and that no statement opens a transaction, which a server's "user options" may ask for.
https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-user-options-server-configuration-option"""


class Login:
    """How to get into the database of `address`. Not thread-safe."""

    def __init__(self, address: SqlAddress) -> None:
        self._address = address

    def open(self) -> Any:
        """A connection of the driver's to the address's database. Raises pymssql.Error, and PermanentError for what it cannot be told."""
        return self._open(self._address.database)

    @property
    def where(self) -> str:
        return f"{self._address.host}:{self._address.port or 1433}"

    def _open(self, database: str) -> Any:
        address = self._address
        trusted_only = verified(address)
        server = f"{address.host}\\{address.instance}" if address.instance else address.host
        return pymssql.connect(
            server=configured(address) if trusted_only else server,
            port=str(address.port or 1433),
            user=address.user,
            password=address.password.get_secret_value(),
            database=database,
            autocommit=True,
            appname=address.options.get("app_name", _APPLICATION),
            login_timeout=LOGIN_TIMEOUT,
            timeout=QUERY_TIMEOUT,
            tds_version="7.4",
            conn_properties=_SESSION_TEXT,
            encryption=None if trusted_only else _ENCRYPTION.get(address.encrypt or ""),
        )

    def error(self, error: pymssql.Error, *, proven: bool) -> DStreamError:
        """What the driver's remarks mean; the number of a failed connect may be that of an earlier error in the process.

        `proven`: this login has worked before. What may heal is a ConnectionLost.
        """
        said, doing = str(error), f"connecting to SQL Server {self.where}"
        if "DB-Lib error message 20018" in said:  # the server had something to say, and that was no
            return self._refused(doing, error, proven=proven)
        if "DB-Lib error message 20003" in said:
            return ConnectionLost(f"{doing}: no answer within {LOGIN_TIMEOUT} s", hint="is this a SQL Server's port?")
        if "DB-Lib error message 20009" in said:
            return ConnectionLost(f"{doing}: the server cannot be reached", hint="check host, port and firewall")
        if "DB-Lib error message" not in said and not _resolves(self._address.host):
            return ConnectionLost(
                f"{doing}: its name is not known", hint="check the host's name, and this machine's DNS"
            )
        if verified(self._address) and not re.search("DB-Lib error message 200(04|06|17)", said):
            return ConnectionLost(f"{doing}: no encrypted connection to a server that can be trusted", hint=self._trust)
        return ConnectionLost(
            f"{doing}: the connection broke while logging in",
            hint="does the server offer the encryption that is asked for?",
        )

    @property
    def _trust(self) -> str:
        """All that FreeTDS tells alike: wrong authority, wrong name, no encryption; and a peer that hangs up at once."""
        name = self._address.options.get("host_name_in_certificate", self._address.host)
        return f"is its certificate signed by one in {authorities(self._address)} and made for {name}, and does it encrypt?"

    def _refused(self, doing: str, error: pymssql.Error, *, proven: bool) -> DStreamError:
        """A login that is refused because of its database looks the same, so it is tried without one."""
        user, database = self._address.user, self._address.database
        number, text = number_and_text(error)
        if not_ready(number, text, str(error)):
            return ConnectionLost(
                f"{doing}: refused for now" + (f": error {number}: {text}" if text else ""),
                hint="the server or the database is starting, failing over or out of resources",
            )
        if proven:
            return ConnectionLost(
                f"{doing}: login refused for user {user!r}, which worked before",
                hint="it will while the server fails over; if its password or its rights were changed, restart with the new ones",
            )
        try:
            self._open("").close()
        except pymssql.Error:
            return PermanentError(
                f"{doing}: login refused for user {user!r}",
                hint="check user and password in ingester.db_connection_string",
            )
        return PermanentError(
            f"{doing}: cannot open database {database!r} as user {user!r}",
            hint="check the database's name, that it is online, and that the login has a user in it",
        )


def _resolves(host: str) -> bool:
    """The driver says nothing at all of a name that it cannot find; it looks it up at each connect, and so follows one that moves."""
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
