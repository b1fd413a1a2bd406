"""Functions and @@ variables whose value depends on the session, the catalog or the clock: their arguments and result types.

The session computes them (engine/environment.py). SERVERPROPERTY is sql_variant on the real server, here nvarchar(128).
"""

from __future__ import annotations

from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.types import BIGINT, DATETIME, GUID, INT, SYSNAME

_IDENTITY = SqlType("numeric", None, 38, 0)
_SMALLINT = SqlType("smallint")
_WIDE = SqlType("nvarchar", 4000)
_NOW2 = SqlType("datetime2", None, None, 7)
NOW_OFFSET = SqlType("datetimeoffset", None, None, 7)

SESSION_FUNCTIONS: dict[str, tuple[int, int, SqlType]] = {
    "GETDATE": (0, 0, DATETIME),
    "CURRENT_TIMESTAMP": (0, 0, DATETIME),
    "GETUTCDATE": (0, 0, DATETIME),
    "SYSDATETIME": (0, 0, _NOW2),
    "SYSUTCDATETIME": (0, 0, _NOW2),
    "SYSDATETIMEOFFSET": (0, 0, NOW_OFFSET),
    "CURRENT_TIMEZONE_ID": (0, 0, SqlType("varchar", 255)),
    "CURRENT_TIMEZONE": (0, 0, SqlType("varchar", 255)),
    "NEWID": (0, 0, GUID),
    "NEWSEQUENTIALID": (0, 0, GUID),
    "DB_NAME": (0, 1, SYSNAME),
    "DB_ID": (0, 1, INT),
    "OBJECT_ID": (1, 2, INT),
    "OBJECT_NAME": (1, 2, SYSNAME),
    "OBJECT_SCHEMA_NAME": (1, 2, SYSNAME),
    "SCHEMA_NAME": (0, 1, SYSNAME),
    "SCHEMA_ID": (0, 1, INT),
    "COL_LENGTH": (2, 2, _SMALLINT),
    "COL_NAME": (2, 2, SYSNAME),
    "TYPE_NAME": (1, 1, SYSNAME),
    "TYPE_ID": (1, 1, INT),
    "SERVERPROPERTY": (1, 1, SYSNAME),
    "SCOPE_IDENTITY": (0, 0, _IDENTITY),
    "IDENT_CURRENT": (1, 1, _IDENTITY),
    "SUSER_SNAME": (0, 1, SYSNAME),
    "SUSER_NAME": (0, 1, SYSNAME),
    "SYSTEM_USER": (0, 0, SYSNAME),
    "ORIGINAL_LOGIN": (0, 0, SYSNAME),
    "USER_NAME": (0, 1, SYSNAME),
    "CURRENT_USER": (0, 0, SYSNAME),
    "SESSION_USER": (0, 0, SYSNAME),
    "USER": (0, 0, SYSNAME),
    "HOST_NAME": (0, 0, SYSNAME),
    "APP_NAME": (0, 0, SYSNAME),
    "HAS_DBACCESS": (1, 1, INT),
    "IS_SRVROLEMEMBER": (1, 2, INT),
    "IS_MEMBER": (1, 1, INT),
    "IS_ROLEMEMBER": (1, 2, INT),
    "HAS_PERMS_BY_NAME": (3, 5, INT),
    "ERROR_NUMBER": (0, 0, INT),
    "ERROR_MESSAGE": (0, 0, _WIDE),
    "ERROR_SEVERITY": (0, 0, INT),
    "ERROR_STATE": (0, 0, INT),
    "ERROR_LINE": (0, 0, INT),
    "ERROR_PROCEDURE": (0, 0, SYSNAME),
    "XACT_STATE": (0, 0, _SMALLINT),
    "ROWCOUNT_BIG": (0, 0, BIGINT),
}
WITHOUT_PARENTHESES = frozenset(("CURRENT_TIMESTAMP", "SYSTEM_USER", "CURRENT_USER", "SESSION_USER", "USER"))

GLOBALS: dict[str, SqlType] = {
    "VERSION": SqlType("nvarchar", 300),
    "ROWCOUNT": INT,
    "TRANCOUNT": INT,
    "ERROR": INT,
    "IDENTITY": _IDENTITY,
    "SPID": _SMALLINT,
    "SERVERNAME": SYSNAME,
    "SERVICENAME": SYSNAME,
    "LANGUAGE": SYSNAME,
    "LOCK_TIMEOUT": INT,
    "MAX_PRECISION": SqlType("tinyint"),
    "MICROSOFTVERSION": INT,
    "DATEFIRST": SqlType("tinyint"),
    "TEXTSIZE": INT,
    "DBTS": SqlType("varbinary", 8),
    "NESTLEVEL": INT,
    "OPTIONS": INT,
    "FETCH_STATUS": INT,
}
"""@@ variables."""

UNBOUNDED = SqlType("nvarchar", MAX)
