"""The T-SQL of dbo.cdc_schemas. Values are parameters.

Who adds a version reads the epoch of the table's offset in the same statement, WITH (REPEATABLEREAD), as the snapshots' statements do.
"""

from __future__ import annotations

from ingester.sqlserver.sql.changes import SHORT_WAIT, P, Statement

TABLE_MISSING = "SELECT CASE WHEN OBJECT_ID(N'dbo.cdc_schemas', N'U') IS NULL THEN 1 ELSE 0 END"

MAY_USE = f"""\
SELECT CASE WHEN {
    " AND ".join(f"HAS_PERMS_BY_NAME(N'dbo.cdc_schemas', N'OBJECT', N'{right}') = 1" for right in ("SELECT", "INSERT"))
} THEN 1 ELSE 0 END"""

MAY_MAKE = "SELECT HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'CREATE TABLE'), " + ", ".join(
    f"HAS_PERMS_BY_NAME(N'dbo', N'SCHEMA', N'{right}')" for right in ("ALTER", "SELECT", "INSERT")
)

CREATE = """\
IF OBJECT_ID(N'dbo.cdc_schemas', N'U') IS NULL
CREATE TABLE dbo.cdc_schemas (
    table_name NVARCHAR(255) NOT NULL,
    number INT NOT NULL,
    version NVARCHAR(12) NOT NULL,
    columns NVARCHAR(MAX) NOT NULL,
    epoch BIGINT NOT NULL,
    kept_at DATETIME2(3) NOT NULL,
    CONSTRAINT pk_cdc_schemas PRIMARY KEY (table_name, number)
)"""

LATEST = f"""\
{SHORT_WAIT};
SELECT TOP (1) s.number, s.version, s.columns FROM dbo.cdc_schemas AS s WHERE s.table_name = {P} ORDER BY s.number DESC"""

ALL = f"SELECT s.number, s.version, s.columns FROM dbo.cdc_schemas AS s WHERE s.table_name = {P} ORDER BY s.number"

KEPT = f"SELECT s.version FROM dbo.cdc_schemas AS s WHERE s.table_name = {P} AND s.number = {P}"


def keep(key: str, epoch: int, number: int, version: str, columns: str) -> Statement:
    """Adds nothing where the number is taken, or a newer owner has claimed the table."""
    return (
        f"{SHORT_WAIT};\n"
        "INSERT INTO dbo.cdc_schemas (table_name, number, version, columns, epoch, kept_at)\n"
        f"SELECT {P}, {P}, {P}, {P}, {P}, SYSUTCDATETIME()\n"
        f"WHERE EXISTS (SELECT 1 FROM dbo.cdc_offsets AS o WITH (REPEATABLEREAD) WHERE o.table_name = {P} AND o.epoch <= {P})\n"
        f"AND NOT EXISTS (SELECT 1 FROM dbo.cdc_schemas AS s WHERE s.table_name = {P} AND s.number = {P})"
    ), (key, number, version, columns, epoch, key, epoch, key, number)
