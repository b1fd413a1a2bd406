"""A client of CDC in a database of its own, and where to find the server: the real one that DSTREAM_TEST_SQLSERVER names
(sqlserver://user:password@host:port, with SQL Server Agent), or an emulator.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pymssql
import pytest

from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from tests.worlds.databases import drop

ORDER = "ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
PATIENCE = 30.0


class Client:
    """One connection in autocommit, to a database of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.database = f"cdc_{uuid.uuid4().hex[:12]}"
        with pymssql.connect(**options, autocommit=True) as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.database}")
        self.connection = self.connect()

    def connect(self) -> Any:
        return pymssql.connect(**self.options, database=self.database, autocommit=True)

    def run(self, sql: str, *parameters: Any) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return list(cursor.fetchall())

    def value(self, sql: str, *parameters: Any) -> Any:
        ((found,),) = self.rows(sql, *parameters)
        return found

    def error(self, sql: str, *parameters: Any) -> int:
        """The number of the error that a statement ends with."""
        with pytest.raises(pymssql.Error) as refused:
            self.rows(sql, *parameters)
        number: int = refused.value.args[0]
        return number

    def enable(self, table: str = "Persons", **arguments: str) -> None:
        given = "".join(f", @{name} = {value}" for name, value in arguments.items())
        self.run(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = %s, @role_name = NULL" + given, table
        )

    def captured(self, rows: int, instance: str = "dbo_Persons") -> None:
        """Wait until the change table has this many rows: by a scan of our own, or by the job that has the log (22903)."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.run("EXEC sys.sp_cdc_scan")
            except pymssql.Error as busy:
                if busy.args[0] != 22903:
                    raise
            found = self.value(f"SELECT COUNT(*) FROM cdc.[{instance}_CT]")
            if found >= rows:
                assert found == rows
                return
            assert time.monotonic() < deadline, f"{found} of {rows} rows captured"
            time.sleep(0.2)

    def changes(self, columns: str, instance: str = "dbo_Persons") -> list[Any]:
        return self.rows(f"SELECT {columns} FROM cdc.[{instance}_CT] {ORDER}")

    def close(self) -> None:
        self.run("EXEC sys.sp_cdc_disable_db")
        self.run("USE master")
        with self.connection.cursor() as cursor:
            drop(cursor, self.database)
        self.connection.close()


@contextmanager
def server() -> Iterator[dict[str, Any]]:
    """Where to connect: the real server, or an emulator that lives as long as the block."""
    address = os.environ.get("DSTREAM_TEST_SQLSERVER")
    if address:
        parts = urlsplit(address)
        yield {
            "server": parts.hostname or "",
            "port": str(parts.port or 1433),
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
        }
        return
    engine = build_engine(users={"sa": "secret"})
    try:
        with SqlServerEmulator(engine) as server:
            yield {"server": "127.0.0.1", "port": str(server.port), "user": "sa", "password": "secret"}
    finally:
        engine.close()


@contextmanager
def database_with_persons(options: dict[str, Any]) -> Iterator[Client]:
    """A database with CDC on and table Persons in it."""
    made = Client(options)
    try:
        made.run("EXEC sys.sp_cdc_enable_db")
        made.run(
            "CREATE TABLE dbo.Persons (ID int NOT NULL PRIMARY KEY, FirstName nvarchar(50) NULL, LastName nvarchar(50) NULL)"
        )
        yield made
    finally:
        made.close()
