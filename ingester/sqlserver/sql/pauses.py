"""The T-SQL of dbo.cdc_pauses, where a row is a pause: of now until `resumed_at` is set, and then of the past. Values are parameters."""

from __future__ import annotations

from ingester.sqlserver.sql.changes import SHORT_WAIT, P, Statement

TABLE_MISSING = "SELECT CASE WHEN OBJECT_ID(N'dbo.cdc_pauses', N'U') IS NULL THEN 1 ELSE 0 END"

RIGHTS = "SELECT " + ", ".join(
    f"HAS_PERMS_BY_NAME(N'dbo.cdc_pauses', N'OBJECT', N'{right}')" for right in ("SELECT", "INSERT", "UPDATE")
)

CREATE = """\
IF OBJECT_ID(N'dbo.cdc_pauses', N'U') IS NULL
CREATE TABLE dbo.cdc_pauses (
    id BIGINT IDENTITY(1,1) NOT NULL PRIMARY KEY,
    table_name NVARCHAR(255) NOT NULL,
    paused_at DATETIME2(3) NOT NULL,
    paused_by NVARCHAR(128) NOT NULL,
    paused_host NVARCHAR(128) NULL,
    reason NVARCHAR(1000) NULL,
    resumed_at DATETIME2(3) NULL,
    resumed_by NVARCHAR(128) NULL,
    resumed_host NVARCHAR(128) NULL,
    resume_reason NVARCHAR(1000) NULL
)"""

PAUSED = f"""\
{SHORT_WAIT};
IF OBJECT_ID(N'dbo.cdc_pauses', N'U') IS NOT NULL
SELECT p.table_name, CONVERT(varchar(23), p.paused_at, 126) AS at, p.paused_by, p.paused_host, p.reason
FROM dbo.cdc_pauses AS p WHERE p.resumed_at IS NULL"""
"""No result set where there is no such table, or where this login may not know of it."""


def ended(key: str) -> Statement:
    """The last pause of a table that is over; in any case of its name."""
    return (
        f"{SHORT_WAIT};\n"
        "SELECT TOP (1) p.table_name, CONVERT(varchar(23), p.resumed_at, 126) AS at, p.resumed_by, p.resumed_host, p.resume_reason\n"
        f"FROM dbo.cdc_pauses AS p WHERE LOWER(p.table_name) = {P} AND p.resumed_at IS NOT NULL ORDER BY p.id DESC"
    ), (key,)


def pause(key: str, reason: str | None) -> Statement:
    """One row if the table was not paused. Of two at the same moment one waits for the other."""
    return (
        "INSERT INTO dbo.cdc_pauses (table_name, paused_at, paused_by, paused_host, reason)\n"
        f"SELECT {P}, SYSUTCDATETIME(), ORIGINAL_LOGIN(), HOST_NAME(), {P} WHERE NOT EXISTS (\n"
        f"SELECT 1 FROM dbo.cdc_pauses WITH (UPDLOCK, HOLDLOCK) WHERE table_name = {P} AND resumed_at IS NULL)"
    ), (key, reason, key)


def resume(key: str, reason: str | None) -> Statement:
    """One row if the table was paused."""
    return (
        "UPDATE dbo.cdc_pauses SET resumed_at = SYSUTCDATETIME(), resumed_by = ORIGINAL_LOGIN(), resumed_host = HOST_NAME(),\n"
        f"    resume_reason = {P} WHERE table_name = {P} AND resumed_at IS NULL"
    ), (reason, key)
