"""The demo's changes as rows of PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import sql

from common.errors import ConfigurationError, PermanentError
from common.names import TableName
from dstream.demo.destinations.program import Program, found, free_port, run_name
from dstream.demo.reading import Row, RowReader
from dstream.demo.schema import KEYS

_INSTALL = "apt install postgresql, or name a server that runs: --server postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_ROLE, _PASSWORD, _DATABASE = "dstream", "DStream-local-1", "demo"
_PORT = 5432
_INSTALLED = Path("/usr/lib/postgresql")
_VARIABLE = "DSTREAM_DEMO_PASSWORD"
_NOT_THERE = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)


class PostgresDestination:
    """`server`: the URL of a database that runs; None: a server is started."""

    ingester = "shape {\nschema_events = true\ninitial_schema_events = true\n}\n"

    def __init__(self, server: str | None) -> None:
        self._program = None if server else Program("postgres", unprivileged=True)
        try:
            given = urlsplit(server or f"postgresql://{_ROLE}:{_PASSWORD}@127.0.0.1:{free_port()}/{_DATABASE}")
            port = given.port or _PORT
        except ValueError:
            given, port = urlsplit(""), 0
        if given.scheme not in ("postgresql", "postgres") or not given.hostname or not given.username:
            raise ConfigurationError(["--server must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE"])
        self._login: dict[str, Any] = {
            "host": given.hostname,
            "port": port,
            "user": unquote(given.username),
            "password": os.environ.get("PGPASSWORD", "") if given.password is None else unquote(given.password),
            "dbname": given.path.strip("/") or _DATABASE,
        }
        self._run = run_name().replace("-", "_")
        self.where = f"PostgreSQL at {given.hostname}:{self._login['port']}"

    def start(self) -> None:
        if self._program is None:
            self._reach()
            return
        folders = [path.parent for path in sorted(_INSTALLED.glob("*/bin/initdb"), reverse=True)]
        initdb = found("initdb", _INSTALL, *folders)
        password, data = self._program.write("password", _PASSWORD), self._program.folder / "data"
        made = [str(initdb), "-D", str(data), "-U", _ROLE, "--pwfile", str(password), "--auth=scram-sha-256"]
        self._program.run([*made, "--no-sync", "-E", "UTF8", "--locale=C"])
        options = ["-c", f"unix_socket_directories={self._program.folder}", "-c", "fsync=off"]
        command = [str(initdb.with_name("postgres")), "-D", str(data), "-h", "127.0.0.1"]
        self._program.start([*command, "-p", str(self._login["port"]), *options], self._answers)
        with self._connected("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_DATABASE)))

    def _reach(self) -> None:
        try:
            self._connected().close()
        except psycopg.OperationalError as error:
            raise PermanentError(f"connecting to {self.where}: {error}", hint="check --server") from error

    def _answers(self) -> bool:
        try:
            self._connected("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _connected(self, database: str | None = None) -> psycopg.Connection[tuple[Any, ...]]:
        login = {**self._login, "dbname": database or self._login["dbname"]}
        return psycopg.connect(**login, autocommit=True, connect_timeout=10)

    @property
    def block(self) -> str:
        login = self._login
        return (
            f'type = "postgres"\nhost = "{login["host"]}:{login["port"]}"\ndatabase = "{login["dbname"]}"\nuser = "{login["user"]}"\n'
            f'password = "{{{{ env("{_VARIABLE}") }}}}"\ntls = "disable"\ntable = "{self._run}_{{schema}}.{{table}}"\n'
        )

    @property
    def variables(self) -> Mapping[str, str]:
        return {_VARIABLE: self._login["password"]}

    def reader(self) -> PostgresReader:
        return PostgresReader(self._connected(), self._run)

    def died(self) -> bool:
        return self._program is not None and self._program.died()

    def stop(self) -> None:
        if self._program is not None:
            self._program.stop()


class PostgresReader(RowReader):
    """Reads whole tables: the demo's are small."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], run: str) -> None:
        super().__init__(KEYS, "Version")
        self._connection, self._run = connection, run

    def rows(self, table: TableName) -> Sequence[Row]:
        """Columns in lower case, and of the types that a message has as they are here."""
        place = sql.Identifier(f"{self._run}_{table.schema.lower()}", table.table.lower())
        try:
            cursor = self._connection.execute(sql.SQL("SELECT * FROM {}").format(place))
        except _NOT_THERE:  # the first change has not come yet
            return []
        except psycopg.Error as error:
            raise PermanentError(f"reading what arrives: {error}") from error
        names = [column.name for column in cursor.description or ()]
        return [
            {name: _as_in_messages(value) for name, value in zip(names, row, strict=True) if _comparable(value)}
            for row in cursor.fetchall()
        ]

    def start(self) -> None:
        """The connection is there already."""

    def stop(self) -> None:
        self._connection.close()


def _comparable(value: object) -> bool:
    """Dates, times and bytes are written in other ways in messages."""
    return value is None or isinstance(value, (bool, int, float, str, Decimal))


def _as_in_messages(value: object) -> object:
    return f"{value:f}" if isinstance(value, Decimal) else value
