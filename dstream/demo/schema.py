"""The demo's database: four tables under CDC, one in a schema of its own and one with every type."""

from __future__ import annotations

from typing import Any

from common.errors import PermanentError
from common.names import TableName
from dstream.emulators import Login

CUSTOMERS = TableName("dbo", "Customers")
ORDERS = TableName("sales", "Orders")
ORDER_LINES = TableName("dbo", "OrderLines")
EVERYTHING = TableName("dbo", "Everything")
TABLES = (CUSTOMERS, ORDERS, ORDER_LINES, EVERYTHING)

KEYS: dict[TableName, tuple[str, ...]] = {
    CUSTOMERS: ("CustomerId",),
    ORDERS: ("OrderId",),
    ORDER_LINES: ("OrderId", "LineNumber"),
    EVERYTHING: ("Id",),
}

EVERYTHING_COLUMNS = """\
    Id INT NOT NULL PRIMARY KEY,
    Version INT NOT NULL,
    ABit BIT NULL,
    ATinyint TINYINT NULL,
    ASmallint SMALLINT NULL,
    AnInt INT NULL,
    ABigint BIGINT NULL,
    ADecimal DECIMAL(38,10) NULL,
    ANumeric NUMERIC(9,4) NULL,
    AMoney MONEY NULL,
    ASmallmoney SMALLMONEY NULL,
    AFloat FLOAT NULL,
    AReal REAL NULL,
    AChar CHAR(10) NULL,
    AVarchar VARCHAR(50) NULL,
    AVarcharMax VARCHAR(MAX) NULL,
    AText TEXT NULL,
    ANchar NCHAR(10) NULL,
    ANvarchar NVARCHAR(50) NULL,
    ANvarcharMax NVARCHAR(MAX) NULL,
    AnNtext NTEXT NULL,
    AnXml XML NULL,
    ADate DATE NULL,
    ATime TIME(7) NULL,
    AShortTime TIME(0) NULL,
    ADatetime DATETIME NULL,
    ASmalldatetime SMALLDATETIME NULL,
    ADatetime2 DATETIME2(7) NULL,
    AnOffset DATETIMEOFFSET(3) NULL,
    ABinary BINARY(8) NULL,
    AVarbinary VARBINARY(50) NULL,
    AVarbinaryMax VARBINARY(MAX) NULL,
    AnImage IMAGE NULL,
    AGuid UNIQUEIDENTIFIER NULL,
    ARowversion ROWVERSION"""

_MARGIN = 1_000_000
"""More Versions than a workload uses after the last one that is still seen in a table."""

_CREATE = (
    "CREATE SCHEMA sales",
    """\
CREATE TABLE dbo.Customers (
    CustomerId INT NOT NULL PRIMARY KEY,
    Name NVARCHAR(100) NOT NULL,
    Email VARCHAR(200) NULL,
    Balance DECIMAL(18,2) NOT NULL,
    Version INT NOT NULL
)""",
    """\
CREATE TABLE sales.Orders (
    OrderId INT NOT NULL PRIMARY KEY,
    CustomerId INT NOT NULL,
    Status NVARCHAR(20) NOT NULL,
    Total MONEY NOT NULL,
    PlacedAt DATETIME2(7) NOT NULL,
    Version INT NOT NULL
)""",
    """\
CREATE TABLE dbo.OrderLines (
    OrderId INT NOT NULL,
    LineNumber INT NOT NULL,
    Sku VARCHAR(20) NOT NULL,
    Quantity SMALLINT NOT NULL,
    Price DECIMAL(10,2) NOT NULL,
    Version INT NOT NULL,
    CONSTRAINT PK_OrderLines PRIMARY KEY (OrderId, LineNumber)
)""",
    f"CREATE TABLE dbo.Everything (\n{EVERYTHING_COLUMNS}\n)",
    "EXEC sys.sp_cdc_enable_db",
)


def create(login: Login) -> None:
    """Create the tables and enable CDC for them."""
    with login.connect() as connection, connection.cursor() as cursor:
        for statement in _CREATE:
            cursor.execute(statement)
        for table in TABLES:
            cursor.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = %s, @source_name = %s, @role_name = NULL",
                (table.schema, table.table),
            )


_USER_TABLES = """\
SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.is_ms_shipped = 0 AND s.name <> N'cdc'"""
_DSTREAMS = frozenset(
    {"dbo.cdc_offsets", "dbo.cdc_offset_moves", "dbo.cdc_snapshots", "dbo.cdc_pauses", "dbo.systranschemas"}
)
"""DStream's own tables, and the one that Change Data Capture makes outside its schema."""
_NAMED = 5


def create_or_continue(login: Login) -> int:
    """Create the tables unless they exist; the highest Version that an earlier workload may have used, 0 for new tables.

    Its last transactions may have been deletes, or have been rolled back: a margin covers their Versions. Raises PermanentError, and changes
    nothing, in a database that is not the demo's own.
    """
    with login.connect() as connection, connection.cursor() as cursor:
        if not _there(cursor, login.database):
            create(login)
            return 0
        newest = 0
        for table in TABLES:
            for name in (table.quoted, f"cdc.{table.schema}_{table.table}_CT"):
                cursor.execute(f"SELECT MAX(Version) FROM {name}")
                newest = max(newest, cursor.fetchone()[0] or 0)
    return newest + _MARGIN if newest else 0


def _there(cursor: Any, database: str) -> bool:
    """Whether the demo's tables are in the database. It may have nothing else in it: real tables can have the same names."""
    cursor.execute(_USER_TABLES)
    found = {f"{schema}.{name}" for schema, name in cursor.fetchall()} - _DSTREAMS
    ours = {table.key for table in TABLES}
    if others := sorted(found - ours):
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        raise _foreign(database, f"has other tables: {', '.join(others[:_NAMED])}{more}")
    if not found:
        return False
    if missing := sorted(ours - found):
        raise _foreign(database, f"has some of the demo's tables, and not {', '.join(missing)}")
    for table in TABLES:
        cursor.execute("SELECT COL_LENGTH(%s, N'Version')", (table.key,))
        if cursor.fetchone()[0] is None:
            raise _foreign(database, f"has a table {table.key} without the column Version, which is not the demo's")
    return True


def _foreign(database: str, why: str) -> PermanentError:
    return PermanentError(
        f"attaching to the database {database}: it {why}; nothing was changed",
        hint="the demo writes and deletes rows: give it an empty database for itself alone",
    )
