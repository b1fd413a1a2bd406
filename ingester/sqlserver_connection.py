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
_APPLICATION = "dstream ingester"
_RIGHTS = {229, 230, 262, 297, 300, 371, 15247, 916}
_SYNTAX_OR_OBJECT = {102, 156, 207, 208, 2812, 4104}


class Connection:
    """One connection, opened at first use and again after it was lost. Not thread-safe.

    `proven`: this login has worked before. From then on a refusal is a server that is failing over or recovering, and transient.
    """

    def __init__(self, address: SqlAddress, *, proven: bool = False) -> None:
        self._address = address
        self._proven = proven
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
            with self._opened().cursor() as cursor:
                yield cursor
        except pymssql.Error as error:
            translated = self.translate(error)
            if isinstance(translated, TransientError):
                self.close()
            raise translated from error

    def _opened(self) -> Any:
        if self._connection is None:
            try:
                self._connection = self._open(self._address.database)
            except pymssql.Error as error:
                raise self._connect_error(str(error)) from error
            self._proven = True
        return self._connection

    def _open(self, database: str) -> Any:
        address = self._address
        server = f"{address.host}\\{address.instance}" if address.instance else address.host
        return pymssql.connect(
            server=server,
            port=str(address.port or 1433),
            user=address.user,
            password=address.password.get_secret_value(),
            database=database,
            autocommit=True,
            appname=_APPLICATION,
            login_timeout=LOGIN_TIMEOUT,
            timeout=QUERY_TIMEOUT,
            tds_version="7.4",
            encryption=_ENCRYPTION.get(address.encrypt or ""),
        )

    def translate(self, error: pymssql.Error) -> DStreamError:
        """Which of our errors `error` of a statement is: the edge between the driver and the rest."""
        number, text = _number_and_text(error)
        where = f"SQL Server {self._where}"
        if number in _RIGHTS:
            return PermanentError(
                f"{where}: permission denied: {text}",
                hint="the login needs SELECT on schema cdc, and ALTER or write rights on dbo.cdc_offsets",
            )
        if number in _SYNTAX_OR_OBJECT:
            return PermanentError(f"{where}: error {number}: {text}")
        return TransientError(f"{where}: error {number}: {text}")

    @property
    def _where(self) -> str:
        return f"{self._address.host}:{self._address.port or 1433}"

    def _connect_error(self, said: str) -> DStreamError:
        """What the driver's remarks mean; number and text of a failed connect may be those of an earlier error in the process."""
        doing = f"connecting to SQL Server {self._where}"
        if "DB-Lib error message 20009" in said:
            return TransientError(f"{doing}: the server cannot be reached", hint="check host, port and firewall")
        if "DB-Lib error message 20003" in said:
            return TransientError(f"{doing}: no answer within {LOGIN_TIMEOUT} s", hint="is this a SQL Server's port?")
        if "DB-Lib error message 20018" in said:  # the server had something to say, and that was no
            return self._refused(doing)
        return TransientError(
            f"{doing}: the connection broke while logging in",
            hint="does the server offer the encryption that is asked for?",
        )

    def _refused(self, doing: str) -> DStreamError:
        """A login that is refused because of its database looks the same, so it is tried without one."""
        user, database = self._address.user, self._address.database
        if self._proven:
            return TransientError(f"{doing}: login refused for user {user!r}, which worked before")
        try:
            self._open("").close()
        except pymssql.Error:
            return PermanentError(
                f"{doing}: login refused for user {user!r}",
                hint="check user and password in ingester.db_connection_string",
            )
        return PermanentError(
            f"{doing}: cannot open database {database!r} as user {user!r}",
            hint="check the database's name, and that the login has a user in it",
        )


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
