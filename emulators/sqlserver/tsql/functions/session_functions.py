"""Functions and @@ variables whose value depends on the session, the catalog or the clock: their arguments and result types.

The session computes them (engine/functions/environment.py).
"""

from __future__ import annotations

from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.values.types import BIGINT, DATETIME, GUID, INT, SYSNAME

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
    "DATABASEPROPERTYEX": (2, 2, SYSNAME),
    "CONNECTIONPROPERTY": (1, 1, SYSNAME),
    "SESSIONPROPERTY": (1, 1, INT),
    "COLLATIONPROPERTY": (2, 2, INT),
    "OBJECTPROPERTY": (2, 2, INT),
    "OBJECTPROPERTYEX": (2, 2, SYSNAME),
    "COLUMNPROPERTY": (3, 3, INT),
    "INDEXPROPERTY": (3, 3, INT),
    "INDEX_COL": (3, 3, SYSNAME),
    "OBJECT_DEFINITION": (1, 1, SqlType("nvarchar", MAX)),
    "ORIGINAL_DB_NAME": (0, 0, SYSNAME),
    "CONTEXT_INFO": (0, 0, SqlType("varbinary", 128)),
    "CURRENT_TRANSACTION_ID": (0, 0, BIGINT),
    "SUSER_ID": (0, 1, INT),
    "SUSER_SID": (0, 2, SqlType("varbinary", 85)),
    "USER_ID": (0, 1, INT),
    "DATABASE_PRINCIPAL_ID": (0, 1, INT),
    "HOST_ID": (0, 0, SqlType("char", 10)),
    "IDENT_SEED": (1, 1, _IDENTITY),
    "IDENT_INCR": (1, 1, _IDENTITY),
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
    "APPLOCK_MODE": (3, 3, SqlType("nvarchar", 32)),
    "APPLOCK_TEST": (4, 4, _SMALLINT),
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
    "LANGID": _SMALLINT,
    "MAX_CONNECTIONS": INT,
    "CURSOR_ROWS": INT,
    "PROCID": INT,
    "REMSERVER": SYSNAME,
}
"""@@ variables."""
REFUSED_GLOBALS = frozenset(
    (
        *("CONNECTIONS", "CPU_BUSY", "IDLE", "IO_BUSY", "PACK_RECEIVED", "PACK_SENT", "PACKET_ERRORS", "TIMETICKS"),
        *("TOTAL_ERRORS", "TOTAL_READ", "TOTAL_WRITE"),
    )
)
"""https://learn.microsoft.com/sql/t-sql/functions/system-statistical-functions-transact-sql"""


def _typed(kind: SqlType, names: str) -> dict[str, SqlType]:
    return dict.fromkeys(names.lower().split(), kind)


_TINYINT = SqlType("tinyint")
_SERVER_INTEGERS = (
    "CollationID ComparisonStyle EngineEdition FilestreamConfiguredLevel FilestreamEffectiveLevel HadrManagerStatus "
    "IsAdvancedAnalyticsInstalled IsBigDataCluster IsClustered IsExternalAuthenticationOnly IsExternalGovernanceEnabled "
    "IsFullTextInstalled IsHadrEnabled IsIntegratedSecurityOnly IsLocalDB IsPolyBaseInstalled "
    "IsServerSuspendedForSnapshotBackup IsSingleUser IsTempDbMetadataMemoryOptimized IsXTPSupported LCID NumLicenses "
    "ProcessID SuspendedDatabaseCount"
)
_DATABASE_INTEGERS = (
    "ComparisonStyle IsAnsiNullDefault IsAnsiNullsEnabled IsAnsiPaddingEnabled IsAnsiWarningsEnabled "
    "IsArithmeticAbortEnabled IsAutoClose IsAutoCreateStatistics IsAutoCreateStatisticsIncremental IsAutoShrink "
    "IsAutoUpdateStatistics IsClone IsCloseCursorsOnCommitEnabled IsFulltextEnabled IsInStandBy "
    "IsLocalCursorsDefault IsMemoryOptimizedElevateToSnapshotEnabled IsMergePublished IsNullConcat "
    "IsNumericRoundAbortEnabled IsParameterizationForced IsQuotedIdentifiersEnabled IsPublished "
    "IsRecursiveTriggersEnabled IsSubscribed IsSyncWithBackup IsTornPageDetectionEnabled IsVerifiedClone "
    "IsXTPSupported LCID MaxSizeInBytes Version"
)
VARIANTS: dict[str, dict[str, SqlType]] = {
    "SERVERPROPERTY": {
        **_typed(INT, _SERVER_INTEGERS),
        **_typed(_TINYINT, "SqlCharSet SqlSortOrder"),
        "editionid": BIGINT,
        "resourcelastupdatedatetime": DATETIME,
    },
    "DATABASEPROPERTYEX": {**_typed(INT, _DATABASE_INTEGERS), "sqlsortorder": _TINYINT},
    "CONNECTIONPROPERTY": {"local_tcp_port": INT},
    "OBJECTPROPERTYEX": {
        **_typed(INT, "OwnerId SchemaId TableHasIdentity IsUserTable IsTable IsView IsProcedure IsMSShipped"),
        "cardinality": BIGINT,
    },
}
"""The base types of what is sql_variant on the real server, by lower-case property; nvarchar(128) where none is given.

Source: https://learn.microsoft.com/sql/t-sql/functions/serverproperty-transact-sql, .../databasepropertyex-transact-sql
"""

UNBOUNDED = SqlType("nvarchar", MAX)
