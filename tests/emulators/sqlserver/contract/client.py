"""The two drivers behind one face: what a test of the contract sees of a database. Imitates neither and hides no error.

pymssql (FreeTDS) sends batches with the parameters written into the text; python-tds sends sp_executesql with typed parameters
and transaction-manager requests. Both take %s as placeholder.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pymssql
import pytds

from common.sqladdress import SqlAddress

DRIVERS = ("pymssql", "pytds")
PATIENCE = 60.0
"""Seconds that a capture job may take, and sessions to end."""
ORDER = "ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"

_Answer = TypeVar("_Answer")
_numbers = itertools.count(1)
_ENCRYPTION = {"disable": "off", "optional": "request", "mandatory": "require", "strict": "require"}


class Refused(Exception):
    """What the server answered instead; `severity` and `state` only where the driver tells (python-tds)."""

    def __init__(self, number: int, text: str, severity: int | None = None, state: int | None = None) -> None:
        super().__init__(number, text)
        self.number, self.text, self.severity, self.state = number, text, severity, state


@dataclass(frozen=True, slots=True)
class Server:
    """Where the tests run: the emulator, or a real server."""

    address: SqlAddress
    real: bool

    def connect(self, driver: str, database: str, **options: Any) -> Any:
        """A connection of the driver itself, in autocommit unless `options` say otherwise."""
        address, options = self.address, {"autocommit": True, **options}
        user, password = address.user, options.pop("password", address.password.get_secret_value())
        host = f"{address.host}\\{address.instance}" if address.instance else address.host
        if driver == "pymssql":
            return pymssql.connect(
                server=host,
                port=str(address.port or 1433),
                user=user,
                password=password,
                database=database,
                encryption=_ENCRYPTION.get(address.encrypt or ""),
                **options,
            )
        return pytds.connect(
            dsn=host,
            port=address.port,
            user=user,
            password=password,
            database=database,
            cafile=address.options.get("server_certificate"),
            validate_host=address.options.get("trust_server_certificate") != "true",
            disable_connect_retry=True,
            **options,
        )


class Connection:
    """One connection to one database, through one driver."""

    def __init__(self, server: Server, driver: str, database: str, **options: Any) -> None:
        self.server, self.driver, self.database = server, driver, database
        self.raw = refusing(lambda: server.connect(driver, database, **options))

    def run(self, sql: str, *parameters: Any) -> None:
        """Execute, and read to the end whatever comes. Raises Refused."""
        self.sets(sql, *parameters)

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of the first result set. Raises Refused, also for an error after them."""
        return next((rows for _, rows in self.sets(sql, *parameters)), [])

    def named(self, sql: str, *parameters: Any) -> list[dict[str, Any]]:
        """The rows of the first result set, by column name."""
        for names, rows in self.sets(sql, *parameters):
            return [dict(zip(names, row, strict=True)) for row in rows]
        return []

    def columns(self, sql: str, *parameters: Any) -> list[str]:
        """The column names of the first result set."""
        return next((names for names, _ in self.sets(sql, *parameters)), [])

    def column(self, sql: str, *parameters: Any) -> list[Any]:
        return [row[0] for row in self.rows(sql, *parameters)]

    def value(self, sql: str, *parameters: Any) -> Any:
        ((found,),) = self.rows(sql, *parameters)
        return found

    def error(self, sql: str, *parameters: Any) -> Refused:
        """The error that a statement ends with; AssertionError when it does not."""
        try:
            self.sets(sql, *parameters)
        except Refused as refused:
            return refused
        raise AssertionError(f"not refused: {sql}")

    def sets(self, sql: str, *parameters: Any) -> list[tuple[list[str], list[tuple[Any, ...]]]]:
        """Every result set of a batch: column names and rows."""
        return refusing(lambda: self._sets(sql, [self._spelled(value) for value in parameters]))

    def _sets(self, sql: str, parameters: Sequence[Any]) -> list[tuple[list[str], list[tuple[Any, ...]]]]:
        found = []
        with self.raw.cursor() as cursor:
            cursor.execute(sql, tuple(parameters) or None) if parameters else cursor.execute(sql)
            while True:
                if cursor.description:
                    found.append(([column[0] for column in cursor.description], [tuple(r) for r in cursor.fetchall()]))
                if not cursor.nextset():
                    return found

    def _spelled(self, value: Any) -> Any:
        """pymssql writes bytes that are all ASCII as a varchar, python-tds sends bytes as one."""
        if not isinstance(value, bytes):
            return value
        return bytearray(value) if self.driver == "pymssql" else pytds.Binary(value)

    def close(self) -> None:
        self.raw.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Database(Connection):
    """A database made for one test, dropped on `drop`, with a first connection to it."""

    def __init__(self, server: Server, driver: str) -> None:
        name = f"contract_{os.getpid()}_{next(_numbers)}"
        with Connection(server, driver, "master") as master:
            master.run(f"CREATE DATABASE {name}")
        self._others: list[Connection] = []
        super().__init__(server, driver, name)

    def another(self, **options: Any) -> Connection:
        """One more connection, closed with the database."""
        self._others.append(Connection(self.server, self.driver, self.database, **options))
        return self._others[-1]

    def reopen(self) -> None:
        """A new first connection, where the server has ended the one before."""
        with suppress(Exception):
            self.close()
        self.raw = refusing(lambda: self.server.connect(self.driver, self.database))

    def drop(self) -> None:
        """Close every connection and remove the database, its capture job included."""
        for connection in (*self._others, self):
            with suppress(Exception):  # one that a test left dead
                connection.close()
        with Connection(self.server, self.driver, "master") as master:
            if master.value(
                f"SELECT COUNT(*) FROM sys.databases WHERE name = N'{self.database}' AND is_cdc_enabled = 1"
            ):
                master.run(f"USE {self.database} EXEC sys.sp_cdc_disable_db")
                master.run("USE master")
            master.run(f"ALTER DATABASE {self.database} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
            patiently(lambda: master.run(f"DROP DATABASE {self.database}"), 3702)  # sessions take a moment to end

    def enable(self, table: str = "Persons", **arguments: str) -> None:
        """sys.sp_cdc_enable_table for a table of dbo; `arguments` are T-SQL."""
        given = "".join(f", @{name} = {value}" for name, value in {"role_name": "NULL", **arguments}.items())
        self.run(f"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{table}'{given}")

    def scan(self) -> None:
        """One scan of the log, unless the capture job has it (22903)."""
        try:
            self.run("EXEC sys.sp_cdc_scan")
        except Refused as busy:
            if busy.number != 22903:
                raise

    def captured(self, rows: int, instance: str = "dbo_Persons") -> None:
        """Wait until the change table has this many rows; AssertionError when it gets others."""
        self.until(
            lambda: self.value(f"SELECT COUNT(*) FROM cdc.[{instance}_CT]") >= rows, f"{rows} rows in {instance}"
        )
        assert self.value(f"SELECT COUNT(*) FROM cdc.[{instance}_CT]") == rows

    def settled(self) -> None:
        """Wait until everything that was committed so far is captured, seen by a change to a table of its own."""
        if self.value("SELECT OBJECT_ID(N'dbo.settled')") is None:
            self.run("CREATE TABLE dbo.settled (n int NOT NULL)")
            self.enable("settled")
        before = self.value("SELECT COUNT(*) FROM cdc.dbo_settled_CT")
        self.run("INSERT INTO dbo.settled VALUES (1)")
        self.captured(before + 1, "dbo_settled")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Scan and look again until `condition` holds. AssertionError when it takes too long."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.scan()
            if condition():
                return
            assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s in vain for {what}"
            time.sleep(0.05 if not self.server.real else 0.5)

    def changes(self, columns: str, instance: str = "dbo_Persons") -> list[tuple[Any, ...]]:
        """The change table's rows in the order of the log."""
        return self.rows(f"SELECT {columns} FROM cdc.[{instance}_CT] {ORDER}")

    def all_changes(
        self, columns: str, instance: str = "dbo_Persons", row_filter: str = "all"
    ) -> list[tuple[Any, ...]]:
        """What the function gives for everything that there is."""
        return self.rows(
            "DECLARE @from binary(10), @to binary(10) "
            f"SET @from = sys.fn_cdc_get_min_lsn(N'{instance}') SET @to = sys.fn_cdc_get_max_lsn() "
            f"SELECT {columns} FROM cdc.[fn_cdc_get_all_changes_{instance}](@from, @to, N'{row_filter}') "
            "ORDER BY [__$start_lsn], [__$seqval], [__$operation]"
        )


def patiently(act: Callable[[], None], number: int) -> None:
    """Do it again for a while as long as it is refused with this number. Raises Refused."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except Refused as refused:
            if refused.number != number or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def refusing(act: Callable[[], _Answer]) -> _Answer:
    """What `act` returns; an error with a number, of either driver, as Refused."""
    try:
        return act()
    except pymssql.Error as error:
        raise _of_pymssql(error) from error
    except pytds.tds_base.DatabaseError as error:
        raise Refused(error.number, error.text, error.severity, error.state) from error


def _of_pymssql(error: pymssql.Error) -> Refused:
    arguments = error.args[0] if error.args and isinstance(error.args[0], tuple) else error.args
    number, text = arguments if len(arguments) == 2 else (0, str(error))
    return Refused(number, text.decode() if isinstance(text, bytes) else str(text))
