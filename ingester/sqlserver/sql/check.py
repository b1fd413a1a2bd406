"""The T-SQL of `dstream check` that the ingester itself does not need. Nothing here changes anything.

https://learn.microsoft.com/sql/t-sql/functions/has-perms-by-name-transact-sql
"""

from __future__ import annotations

from ingester.sqlserver.sql.changes import P
from ingester.sqlserver.sql.offsets import COLUMNS

SERVER = """\
SELECT CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(128)), CAST(SERVERPROPERTY(N'Edition') AS nvarchar(128)), DB_NAME()"""

WHO = "SELECT SUSER_SNAME(), USER_NAME()"

SEES_EVERY_TABLE = "SELECT HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'SELECT')"

GATING_ROLES = f"""\
SELECT DISTINCT ct.role_name FROM cdc.change_tables AS ct WHERE ct.source_object_id = OBJECT_ID({P}, N'U') AND ct.role_name IS NOT NULL"""

TABLE_COLUMNS = f"SELECT c.name FROM sys.columns AS c WHERE c.object_id = OBJECT_ID({P}, N'U') ORDER BY c.column_id"

MAY_MAKE_OFFSETS = """\
SELECT HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'CREATE TABLE'), HAS_PERMS_BY_NAME(N'dbo', N'SCHEMA', N'ALTER')"""

OFFSETS_RIGHTS = ("SELECT", "INSERT", "UPDATE", "ALTER")

MAY_USE_OFFSETS = "SELECT " + ", ".join(
    f"HAS_PERMS_BY_NAME(N'dbo.cdc_offsets', N'OBJECT', N'{right}')" for right in OFFSETS_RIGHTS
)

OFFSETS_COLUMNS_THERE = "SELECT " + ", ".join(f"COL_LENGTH(N'dbo.cdc_offsets', N'{name}')" for name in COLUMNS)
"""For each column that an older installation's table may lack, in that order; NULL if it does."""

MAY_HAVE_SENT = f"SELECT COUNT(*) FROM dbo.cdc_offsets WHERE destination = {P} AND last_command_id IS NOT NULL"
"""An offset that an ingester has moved has all of its parts."""

OFFSET_KNOWN = f"SELECT COUNT(*) FROM dbo.cdc_offsets WHERE table_name = {P}"
