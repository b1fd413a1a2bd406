"""The demo's changes as rows of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from common.errors import ConfigurationError
from common.names import TableName
from dstream.demo.destinations.program import Program, found, free_port
from dstream.demo.reading import RowReader
from dstream.demo.schema import KEYS

_INSTALL = "apt install postgresql, or name a server that runs: --server postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_ROLE, _PASSWORD, _DATABASE = "dstream", "DStream-local-1", "demo"
_NOT_THERE = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)


class PostgresDestination:
    """`server`: the URL of a database that runs; None: a server is started."""

    ingester = "shape {\nschema_events = true\ninitial_schema_events = true\n}\n"

    def __init__(self, server: str | None) -> None:
        self._program = None if server else Program("postgres", unprivileged=True)
        given = urlsplit(server or f"postgresql://{_ROLE}:{_PASSWORD}@127.0.0.1:{free_port()}/{_DATABASE}")
        if given.scheme not in ("postgresql", "postgres") or not given.hostname or not given.username:
            raise ConfigurationError(["--server must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE"])
        self._login: dict[str, Any] = {
            "host": given.hostname,
            "port": given.port or 5432,
            "user": given.username,
            "password": given.password or "",
            "dbname": given.path.strip("/") or _DATABASE,
        }
        self.where = f"{given.hostname}:{self._login['port']}"

    def start(self) -> None:
        if self._program is None:
            return
        folders = [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]
        initdb = found("initdb", _INSTALL, *folders)
        password, data = self._program.write("password", _PASSWORD), self._program.folder / "data"
        made = [str(initdb), "-D", str(data), "-U", _ROLE, "--pwfile", str(password), "--auth=scram-sha-256"]
        self._program.run([*made, "--no-sync", "-E", "UTF8", "--locale=C"])
        options = ["-c", f"unix_socket_directories={self._program.folder}", "-c", "fsync=off"]
        command = [str(initdb.with_name("postgres")), "-D", str(data), "-h", "127.0.0.1"]
        self._program.start([*command, "-p", str(self._login["port"]), *options], self._answers)
        with self._connected("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_DATABASE)))

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
            f'password = "{login["password"]}"\ntls = "disable"\n'
        )

    def reader(self) -> PostgresReader:
        return PostgresReader(self._connected())

    def died(self) -> bool:
        return self._program is not None and self._program.died()

    def stop(self) -> None:
        if self._program is not None:
            self._program.stop()


class PostgresReader(RowReader):
    """Reads whole tables: the demo's are small."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        super().__init__(KEYS, "Version")
        self._connection = connection

    def rows(self, table: TableName) -> Mapping[tuple[str, ...], int]:
        columns = [sql.Identifier(name.lower()) for name in (*KEYS[table], "Version")]
        place = sql.Identifier(table.schema.lower(), table.table.lower())
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(columns), place)
        try:
            found = self._connection.execute(query).fetchall()
        except _NOT_THERE:  # the first change has not come yet
            return {}
        return {tuple(map(str, row[:-1])): row[-1] for row in found}

    def start(self) -> None:
        """The connection is there already."""

    def stop(self) -> None:
        self._connection.close()
