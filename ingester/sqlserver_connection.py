"""A connection to SQL Server for polling, and what its errors mean. The only way from the ingester to pymssql.

Connections are in autocommit: an open read transaction would block sp_cdc_disable_table and hold the log.

Encrypt=mandatory and strict verify the server's certificate, as SqlClient does. pymssql has no parameter for that, but FreeTDS in it reads
"ca file" from the file that FREETDSCONF names, so this module keeps one, with a section for every such server. The driver is given the
section's name, not the host's: should the file be gone, it finds nobody, instead of somebody unverified.
https://www.freetds.org/userguide/freetdsconf.html
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymssql

from common.errors import DStreamError, PermanentError, TransientError
from common.sqladdress import SqlAddress
from ingester.queries import P
from ingester.sqlserver_errors import RIGHTS, meaning, not_ready
from ingester.sqlserver_waiting import Patience, patient, wait

LOGIN_TIMEOUT = 10
"""Seconds to wait for a login: long enough for a failover's listener, short enough to say soon that nobody is there."""

QUERY_TIMEOUT = 120
"""Seconds before a query counts as hung. The driver then drops the connection; the next use opens another."""

_ENCRYPTION = {"disable": "off", "optional": "request", "mandatory": "require"}
"""In the driver's words; without one it does as for "optional": the login encrypted if the server can. "strict" (TDS 8.0) it only takes from
its file."""

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_TRUSTS_ANY = "true"
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


pymssql.set_wait_callback(wait)


class Connection:
    """One connection, opened at first use and again after it was lost. Not thread-safe.

    `proven`: this login has worked before. From then on a refusal is a server that is failing over or recovering, and transient.
    `stop`: when it is set, a statement that waits for the server is soon given up.
    """

    def __init__(
        self,
        address: SqlAddress,
        *,
        proven: bool = False,
        query_seconds: float = QUERY_TIMEOUT,
        stop: threading.Event | None = None,
    ) -> None:
        self._address = address
        self._query_seconds = query_seconds
        self._stop = stop
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

    def rows_until(
        self, sql: str, parameters: Sequence[object], enough: Callable[[tuple[Any, ...]], bool]
    ) -> tuple[list[list[tuple[Any, ...]]], bool]:
        """The result sets of a batch as far as they are wanted, and whether that is all of it.

        Rows are fetched one by one and asked about: the first that is `enough` is the last. What the server still has to send is
        cancelled with the next statement (the driver sends an attention), so no more than what was fetched is ever held.
        """
        with self._cursor() as cursor:
            cursor.execute(_rendered(sql, parameters))
            found: list[list[tuple[Any, ...]]] = []
            more = cursor.description is not None or cursor.nextset()
            while more:
                found.append(rows := [])
                while (row := cursor.fetchone()) is not None:
                    rows.append(row)
                    if enough(row):
                        return found, False
                more = cursor.nextset()
            return found, True

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
        patience = Patience(self._query_seconds, self._stop)
        try:
            with patient(patience), self._opened().cursor() as cursor:
                yield cursor
        except pymssql.Error as error:
            translated = self.translate(error)
            if patience.over is not None:
                translated = TransientError(f"SQL Server {self._where}: {patience.over}")
            if isinstance(translated, TransientError):
                self.close()
            raise translated from error

    def _opened(self) -> Any:
        if self._connection is None:
            try:
                self._connection = self._open(self._address.database)
            except pymssql.Error as error:
                raise self._connect_error(error) from error
            self._proven = True
        return self._connection

    def _open(self, database: str) -> Any:
        address = self._address
        verified = _verified(address)
        server = f"{address.host}\\{address.instance}" if address.instance else address.host
        return pymssql.connect(
            server=_configured(address) if verified else server,
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
            encryption=None if verified else _ENCRYPTION.get(address.encrypt or ""),
        )

    def translate(self, error: pymssql.Error) -> DStreamError:
        """Which of our errors `error` of a statement is: the edge between the driver and the rest."""
        return meaning(*_number_and_text(error), f"SQL Server {self._where}")

    @property
    def _where(self) -> str:
        return f"{self._address.host}:{self._address.port or 1433}"

    def _connect_error(self, error: pymssql.Error) -> DStreamError:
        """What the driver's remarks mean; the number of a failed connect may be that of an earlier error in the process."""
        said, doing = str(error), f"connecting to SQL Server {self._where}"
        if "DB-Lib error message 20018" in said:  # the server had something to say, and that was no
            return self._refused(doing, error)
        if "DB-Lib error message 20003" in said:
            return TransientError(f"{doing}: no answer within {LOGIN_TIMEOUT} s", hint="is this a SQL Server's port?")
        if "DB-Lib error message 20009" in said:
            return TransientError(f"{doing}: the server cannot be reached", hint="check host, port and firewall")
        if "DB-Lib error message" not in said and not _resolves(self._address.host):
            return TransientError(
                f"{doing}: its name is not known", hint="check the host's name, and this machine's DNS"
            )
        if _verified(self._address) and not re.search("DB-Lib error message 200(04|06|17)", said):
            return TransientError(f"{doing}: no encrypted connection to a server that can be trusted", hint=self._trust)
        return TransientError(
            f"{doing}: the connection broke while logging in",
            hint="does the server offer the encryption that is asked for?",
        )

    @property
    def _trust(self) -> str:
        """All that FreeTDS tells alike: wrong authority, wrong name, no encryption; and a peer that hangs up at once."""
        name = self._address.options.get("host_name_in_certificate", self._address.host)
        return f"is its certificate signed by one in {_authorities(self._address)} and made for {name}, and does it encrypt?"

    def _refused(self, doing: str, error: pymssql.Error) -> DStreamError:
        """A login that is refused because of its database looks the same, so it is tried without one."""
        user, database = self._address.user, self._address.database
        number, text = _number_and_text(error)
        if not_ready(number, text, str(error)):
            return TransientError(
                f"{doing}: refused for now" + (f": error {number}: {text}" if text else ""),
                hint="the server or the database is starting, failing over or out of resources",
            )
        if self._proven:
            return TransientError(
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


def _verified(address: SqlAddress) -> bool:
    """Whether the server's certificate is looked at; strict encryption leaves no choice."""
    trusting = address.options.get("trust_server_certificate") == _TRUSTS_ANY
    return address.encrypt == "strict" or (address.encrypt == "mandatory" and not trusting)


def _authorities(address: SqlAddress) -> Path:
    """The certificates to trust: the address's own, else the system's. Raises PermanentError when there are none."""
    if (given := address.options.get("server_certificate")) is not None:
        if not Path(given).is_file():
            raise PermanentError(
                f"verifying the server's certificate: there is no file {given}", hint="see certificate="
            )
        return Path(given).absolute()
    known = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    for path in known:
        if path is not None and Path(path).is_file():
            return Path(path)
    raise PermanentError(
        "verifying the server's certificate: this machine has no bundle of certificate authorities",
        hint="name a file with certificate=FILE in the connection string, or say TrustServerCertificate=true",
    )


class _DriverConfiguration:
    """The freetds.conf of this process, one section a verified server; gone when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._directory = Path()
        self._sections: dict[str, str] = {}

    def section(self, port: int, settings: Mapping[str, str]) -> str:
        """The name to give to the driver for these settings; the driver adds the port to it, and so does the section."""
        text = "".join(f"{key} = {value}\n" for key, value in settings.items())
        name = f"dstream-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        with self._lock:
            self._own()
            if name not in self._sections:
                self._sections[name] = f"[{name}:{port}]\n{text}"
                self._write()
        return name

    def link(self, path: Path) -> Path:
        """A path to the same file without the blanks and signs that FreeTDS would trip over."""
        with self._lock:
            self._own()
            link = self._directory / hashlib.sha256(bytes(path)).hexdigest()[:16]
            if not link.is_symlink():
                link.symlink_to(path)
            return link

    def _own(self) -> None:
        """A directory of this very process: a forked one (Spark's workers) must not lose its file when its parent ends."""
        if self._process != os.getpid():
            self._process, self._sections = os.getpid(), {}
            self._directory = Path(tempfile.mkdtemp(prefix="dstream-freetds-"))
            atexit.register(_remove, self._process, self._directory)

    def _write(self) -> None:
        file, new = self._directory / "freetds.conf", self._directory / "new.conf"
        new.write_text("\n".join(self._sections.values()))
        new.replace(file)
        os.environ["FREETDSCONF"] = str(file)


_driver_configuration = _DriverConfiguration()


def _remove(process: int, directory: Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def _configured(address: SqlAddress) -> str:
    """The server under the name that its section in the driver's file has. Raises PermanentError for what fits no such file."""
    port = address.port or 1433
    settings = {
        "host": address.host,
        **({"instance": address.instance} if address.instance and not address.port else {"port": str(port)}),
        "encryption": "strict" if address.encrypt == "strict" else "require",
        "ca file": str(_driver_configuration.link(_authorities(address))),
        "check certificate hostname": "yes",
    }
    if (name := address.options.get("host_name_in_certificate")) is not None:
        settings["certificate hostname"] = name
    if any(re.search(r"[\x00-\x20;#\[\]]", value) for value in settings.values()):
        raise PermanentError(f"connecting to SQL Server {address.host!r}: the driver cannot take such a host name")
    return _driver_configuration.section(port, settings)


def is_error(error: BaseException, number: int) -> bool:
    """Whether `error` was translated from SQL Server's error `number`."""
    cause = error.__cause__
    return isinstance(cause, pymssql.Error) and _number_and_text(cause)[0] == number


def lacks_rights(error: BaseException) -> bool:
    """Whether `error` was translated from one of SQL Server's refusals for want of a permission."""
    return any(is_error(error, number) for number in RIGHTS)


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
