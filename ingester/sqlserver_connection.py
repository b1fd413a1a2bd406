"""A connection to SQL Server for polling, and what its errors mean. The only way from the ingester to pymssql.

Connections are in autocommit: an open read transaction would block sp_cdc_disable_table and hold the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymssql

from common.errors import DStreamError, PermanentError, TransientError
from common.sqladdress import SqlAddress
from ingester.queries import P

LOGIN_TIMEOUT = 10
"""Seconds to wait for a login: long enough for a failover's listener, short enough to say soon that nobody is there."""

QUERY_TIMEOUT = 120
"""Seconds before a query counts as hung. The driver then drops the connection; the next use opens another."""

_ENCRYPTION = {"disable": "off", "optional": "request", "mandatory": "require", "strict": "require"}
_LOGIN_REFUSED = {18452, 18456, 18470, 18486, 18487, 18488}
_RIGHTS = {229, 230, 262, 297, 300, 371, 15247, 916}
_SYNTAX_OR_OBJECT = {102, 156, 207, 208, 2812, 4104}


class Connection:
    """One connection, opened at first use and again after it was lost. Not thread-safe."""

    def __init__(self, address: SqlAddress, *, application: str = "dstream ingester") -> None:
        self._address = address
        self._application = application
        self._connection: Any = None

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of the only result set."""
        return self.result_sets(sql, parameters)[0]

    def result_sets(self, sql: str, parameters: Sequence[object] = ()) -> list[list[tuple[Any, ...]]]:
        """All rows of every result set of a batch."""
        with self._cursor() as cursor:
            cursor.execute(_rendered(sql, parameters))
            found = [cursor.fetchall()] if cursor.description else []
            while cursor.nextset():
                found.append(cursor.fetchall())
            return found

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement; the number of rows it touched, asked for in words since SET NOCOUNT may be a server's default."""
        return int(self.result_sets(f"{sql}\nSELECT @@ROWCOUNT", parameters)[-1][0][0])

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except pymssql.Error:  # it was lost already
                return

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        try:
            if self._connection is None:
                self._connection = self._open()
            with self._connection.cursor() as cursor:
                yield cursor
        except pymssql.Error as error:
            translated = self.translate(error)
            if isinstance(translated, TransientError):
                self.close()
            raise translated from error

    def _open(self) -> Any:
        address = self._address
        server = f"{address.host}\\{address.instance}" if address.instance else address.host
        return pymssql.connect(
            server=server,
            port=str(address.port or 1433),
            user=address.user,
            password=address.password.get_secret_value(),
            database=address.database,
            autocommit=True,
            appname=self._application,
            login_timeout=LOGIN_TIMEOUT,
            timeout=QUERY_TIMEOUT,
            tds_version="7.4",
            encryption=_ENCRYPTION.get(address.encrypt or ""),
        )

    def translate(self, error: pymssql.Error) -> DStreamError:
        """Which of our errors `error` is: the edge between the driver and the rest."""
        number, text = _number_and_text(error)
        unreachable = "DB-Lib error message 20009" in str(
            error
        )  # the number may be that of an earlier connection's error
        where = f"{self._address.host}:{self._address.port or 1433}"
        if unreachable:
            return TransientError(
                f"connecting to SQL Server {where}: the server cannot be reached", hint="check host, port and firewall"
            )
        # the server says 4060 and then 18456, and the driver reports the later number with both texts
        if number == 4060 or "Cannot open database" in text:
            return PermanentError(
                f"connecting to SQL Server {where}: cannot open database {self._address.database!r} as {self._address.user!r}",
                hint="check the database's name, and that the login has a user in it",
            )
        if number in _LOGIN_REFUSED or "Login failed" in text:
            return PermanentError(
                f"connecting to SQL Server {where}: login refused for user {self._address.user!r}",
                hint="check user and password in ingester.db_connection_string",
            )
        if number in _RIGHTS:
            return PermanentError(
                f"SQL Server {where}: permission denied: {text}",
                hint="the login needs SELECT on schema cdc, and ALTER or write rights on dbo.cdc_offsets",
            )
        if number in _SYNTAX_OR_OBJECT:
            return PermanentError(f"SQL Server {where}: error {number}: {text}")
        return TransientError(f"SQL Server {where}: error {number}: {text}")


def is_error(error: BaseException, number: int) -> bool:
    """Whether `error` was translated from SQL Server's error `number`."""
    cause = error.__cause__
    return isinstance(cause, pymssql.Error) and _number_and_text(cause)[0] == number


def _rendered(sql: str, parameters: Sequence[object]) -> str:
    """`sql` with its parameters as literals, which is what the driver does as well, but for two traps of its: it finds its
    placeholders inside quoted names, and it sends bytes that happen to be ASCII as a varchar."""
    parts = sql.split(P)
    if len(parts) != len(parameters) + 1:
        raise ValueError(f"{len(parts) - 1} parameters are wanted and {len(parameters)} were given")
    return parts[0] + "".join(_literal(value) + part for value, part in zip(parameters, parts[1:], strict=True))


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"0x{value.hex()}"
        case int():
            return str(int(value))
        case str():
            return "N'" + value.replace("'", "''") + "'"
    raise TypeError(f"no literal for {type(value).__name__}")


def _number_and_text(error: pymssql.Error) -> tuple[int, str]:
    """The driver nests (number, text), with its own remarks appended to the server's text."""
    arguments: Any = error.args
    while arguments and isinstance(arguments[0], tuple):
        arguments = arguments[0]
    number = arguments[0] if arguments and isinstance(arguments[0], int) else 0
    raw = arguments[1] if len(arguments) > 1 else (arguments[0] if arguments else "")
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    return number, text.split("DB-Lib error message")[0].strip().replace("\n", " ")
