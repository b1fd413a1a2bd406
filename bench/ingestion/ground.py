"""What an ingester is measured on: both emulators as processes, tables under CDC, a backlog in their change tables.

The backlog is written by INSERT ... SELECT from a table that is not captured, in transactions of 5,000 rows: nothing is quicker here.
"""

from __future__ import annotations

import time
from typing import Any, Final

from pydantic import SecretStr

from common.azure_amqp.address import ServiceBusAddress, read_address
from common.names import Origin, TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Bus, Emulators, Login

DATABASE: Final = "bench"
TRANSACTION_ROWS: Final = 5000
_STATEMENT_ROWS: Final = 500
_CAPTURED_AFTER: Final = 600.0

COLUMNS: Final = """\
Id INT NOT NULL PRIMARY KEY, Big BIGINT, Name NVARCHAR(50), Code VARCHAR(20), Amount DECIMAL(18,4), Price MONEY,
Ratio FLOAT, Seen DATETIME2(7), Guid UNIQUEIDENTIFIER, Flag BIT"""
"""10 mixed columns."""


def origin() -> Origin:
    """Of the tables here."""
    return Origin("localhost", DATABASE)


def sql_address(login: Login) -> SqlAddress:
    """For the ingester's own connections."""
    return SqlAddress(login.host, login.port, None, login.database, login.user, SecretStr(login.password))


class Ground:
    """The emulators, and a client of the database. `with` starts and stops it."""

    def __init__(self, *, capture_interval: float = 0.2, bus: Bus | None = None) -> None:
        self.capture_interval = capture_interval
        self.emulators = Emulators(database=DATABASE, capture_interval=capture_interval, bus=bus or Bus())

    def __enter__(self) -> Ground:
        self.emulators.start()
        self._client = self.emulators.login.connect()
        self.cursor: Any = self._client.cursor()
        self.cursor.execute("EXEC sys.sp_cdc_enable_db")
        self.cursor.execute(f"CREATE TABLE dbo.Seed ({COLUMNS})")
        for first in range(0, TRANSACTION_ROWS, _STATEMENT_ROWS):
            values = ", ".join(map(_row, range(first, first + _STATEMENT_ROWS)))
            self.cursor.execute(f"INSERT INTO dbo.Seed VALUES {values}")
        return self

    def __exit__(self, *details: object) -> None:
        self._client.close()
        self.emulators.stop()

    @property
    def bus(self) -> ServiceBusAddress:
        """The namespace."""
        return read_address(self.emulators.bus_connection_string)

    def table(self, name: str, columns: str = COLUMNS) -> TableName:
        """A new table under CDC."""
        self.cursor.execute(f"CREATE TABLE dbo.{name} ({columns})")
        self.cursor.execute(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{name}', @role_name = NULL"
        )
        return TableName("dbo", name)

    def fill(self, table: TableName, rows: int, *, one_transaction: bool = False) -> None:
        """Write `rows` rows of the mixed columns and wait until they are captured."""
        if one_transaction:
            self.cursor.execute("BEGIN TRANSACTION")
        for first in range(0, rows, TRANSACTION_ROWS):
            self.cursor.execute(
                f"INSERT INTO {table.quoted} SELECT Id + {first}, Big, Name, Code, Amount, Price, Ratio, Seen, Guid, Flag "
                f"FROM dbo.Seed WHERE Id < {rows - first}"
            )
        if one_transaction:
            self.cursor.execute("COMMIT TRANSACTION")
        self.captured(table, rows)

    def captured(self, table: TableName, rows: int) -> None:
        """Wait until a table's change table holds `rows` rows."""
        deadline = time.monotonic() + _CAPTURED_AFTER
        while time.monotonic() < deadline:
            self.cursor.execute(f"SELECT COUNT(*) FROM cdc.{table.schema}_{table.table}_CT")
            if self.cursor.fetchone()[0] == rows:
                return
            time.sleep(0.2)
        raise SystemExit(f"{table.key} was not captured within {_CAPTURED_AFTER:.0f} s")


def _row(n: int) -> str:
    return (
        f"({n}, {n * 7919}, N'name {n}', 'code-{n % 997}', {n}.1234, {n % 1000}.5, {n}.25e0, "
        f"'2026-11-21T10:00:00.1234567', '6F9619FF-8B86-D011-B42D-{n:012X}', {n % 2})"
    )
