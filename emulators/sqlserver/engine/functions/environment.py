"""What session functions and @@ variables return. Reads the session and the catalogs; changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from emulators.sqlserver.engine.functions.identity import Identity
from emulators.sqlserver.engine.functions.lock_procedures import LockProcedures
from emulators.sqlserver.engine.functions.object_lookup import ObjectLookup, split_name
from emulators.sqlserver.engine.functions.properties import SERVER_NAME, Properties
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.functions.functions import stored_size
from emulators.sqlserver.tsql.values.temporal import moment_of, write
from emulators.sqlserver.tsql.values.types import DATETIME

VERSION = "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64) - SQL Server emulator: T-SQL subset over SQLite"
OPTIONS = 5496
"""@@OPTIONS of a session with the defaults of ODBC and OLE DB: ANSI_WARNINGS, ANSI_PADDING, ANSI_NULLS, QUOTED_IDENTIFIER ...

https://learn.microsoft.com/sql/t-sql/functions/options-transact-sql
"""
_DATETIME2 = SqlType("datetime2", None, None, 7)
_OFFSET = SqlType("datetimeoffset", None, None, 7)
TYPE_IDS = {
    "image": 34,
    "text": 35,
    "uniqueidentifier": 36,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "datetimeoffset": 43,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "smalldatetime": 58,
    "real": 59,
    "money": 60,
    "datetime": 61,
    "float": 62,
    "ntext": 99,
    "bit": 104,
    "decimal": 106,
    "numeric": 108,
    "smallmoney": 122,
    "bigint": 127,
    "varbinary": 165,
    "varchar": 167,
    "binary": 173,
    "char": 175,
    "timestamp": 189,
    "nvarchar": 231,
    "nchar": 239,
    "xml": 241,
    "sysname": 256,
}
"""system_type_id of sys.types (sysname: its user_type_id)."""


def type_id(kind: SqlType) -> int:
    return TYPE_IDS["timestamp" if kind.name == "rowversion" else kind.name]


class Environment:
    """The values for one session."""

    def __init__(self, session: StatementSession) -> None:
        self.session = session
        self._objects = ObjectLookup(session)
        self._calls: dict[str, Callable[..., Value]] = {
            "NEWID": lambda: str(uuid.uuid4()).upper(),
            "NEWSEQUENTIALID": lambda: str(uuid.uuid1()).upper(),
            "DB_NAME": self._db_name,
            "DB_ID": self._db_id,
            "OBJECT_ID": self._object_id,
            "OBJECT_NAME": self._object_name,
            "OBJECT_SCHEMA_NAME": self._object_schema,
            "SCHEMA_NAME": self._schema_name,
            "SCHEMA_ID": self._schema_id,
            "COL_LENGTH": self._col_length,
            "COL_NAME": self._col_name,
            "TYPE_NAME": lambda number: next((name for name, n in TYPE_IDS.items() if n == number), None),
            "TYPE_ID": lambda name: TYPE_IDS.get(str(name).lower()),
            **Properties(session, self._objects).calls,
            "ORIGINAL_DB_NAME": lambda: self.session.login_request.database or "master",
            "CONTEXT_INFO": lambda: None,
            "CURRENT_TRANSACTION_ID": lambda: 1000 + self.session.session_id,
            "HOST_ID": lambda: "1         ",
            "IDENT_SEED": lambda table: self._identity_part(table, 0),
            "IDENT_INCR": lambda table: self._identity_part(table, 1),
            "SCOPE_IDENTITY": lambda: self.session.identity,
            "IDENT_CURRENT": self._ident_current,
            "HOST_NAME": lambda: self.session.login_request.host,
            "APP_NAME": lambda: self.session.login_request.application,
            **Identity(session, self._objects).calls,
            **LockProcedures(session).calls,
            "XACT_STATE": lambda: -1 if self.session.transaction.doomed else int(self.session.transaction.count > 0),
            "ROWCOUNT_BIG": lambda: self.session.row_count,
            "CURRENT_TIMEZONE_ID": lambda: "UTC",
            "CURRENT_TIMEZONE": lambda: "(UTC) Coordinated Universal Time",
        }

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        found = self._calls.get(name)
        if found is not None:
            return found(*arguments)
        if name.startswith("ERROR_"):
            return self._caught(name)
        return self._time(name)

    def _time(self, name: str) -> Value:
        """The server's clock is UTC; one statement sees one time."""
        kind = _OFFSET if name == "SYSDATETIMEOFFSET" else _DATETIME2 if name.startswith("SYS") else DATETIME
        return write(moment_of(self.session.statement_time), kind)

    def _caught(self, name: str) -> Value:
        error = self.session.caught
        if error is None:
            return None
        values: dict[str, Value] = {
            "ERROR_NUMBER": error.number,
            "ERROR_MESSAGE": error.message,
            "ERROR_SEVERITY": error.severity,
            "ERROR_STATE": error.state,
            "ERROR_LINE": error.line,
            "ERROR_PROCEDURE": error.procedure or None,
        }
        return values[name]

    def global_value(self, name: str) -> Value:
        session = self.session
        values: dict[str, Callable[[], Value]] = {
            "VERSION": lambda: VERSION,
            "ROWCOUNT": lambda: session.row_count,
            "TRANCOUNT": lambda: session.transaction.count,
            "ERROR": lambda: session.last_error,
            "IDENTITY": lambda: session.identity,
            "SPID": lambda: session.session_id,
            "SERVERNAME": lambda: SERVER_NAME,
            "SERVICENAME": lambda: "MSSQLSERVER",
            "LANGUAGE": lambda: "us_english",
            "LOCK_TIMEOUT": lambda: session.settings.lock_timeout,
            "MAX_PRECISION": lambda: 38,
            "MICROSOFTVERSION": lambda: 0x100003E8,
            "DATEFIRST": lambda: 7,
            "TEXTSIZE": lambda: 2147483647,
            "DBTS": lambda: session.current().row_version.to_bytes(8, "big"),
            "NESTLEVEL": lambda: 0,
            "OPTIONS": lambda: OPTIONS | (512 if session.settings.nocount else 0),
            "FETCH_STATUS": lambda: 0,
            "LANGID": lambda: 0,
            "MAX_CONNECTIONS": lambda: 32767,
            "CURSOR_ROWS": lambda: 0,
            "PROCID": lambda: 0,
            "REMSERVER": lambda: None,
        }
        found = values.get(name)
        if found is None:
            raise unsupported(f"@@{name}")
        return found()

    # -- catalog

    def _db_name(self, number: Value = -1) -> Value:
        if number == -1:
            return self.session.database
        found = self._objects.database(number)
        return found.name if found else None

    def _db_id(self, name: Value = "") -> Value:
        found = self.session.engine.find(str(name) or self.session.database) if name is not None else None
        return found.database_id if found else None

    def _object_id(self, name: Value, kind: Value = None) -> Value:
        entry = self._objects.entry_by_name(name)
        wanted = str(kind).strip().upper() if kind is not None else ""
        if entry is None:
            return self._view_id(name, wanted) or self._constraint_id(name)
        return entry.table.object_id if wanted in ("", "U", "S" if entry.table.system else "U") else None

    def _view_id(self, name: Value, kind: str) -> Value:
        parts = split_name(str(name)) if name is not None else None
        if parts is None or kind not in ("", "V"):
            return None
        catalog = self.session.current().catalog_for(self.session)
        found = catalog.view(parts[-2] if len(parts) > 1 and parts[-2] else "dbo", parts[-1])
        return found.object_id if found is not None else None

    def _constraint_id(self, name: Value) -> Value:
        parts = split_name(str(name)) or ("",)
        catalog = self.session.current().catalog_for(self.session)
        wanted = parts[-1].lower()
        for entry in catalog.tables.values():
            for constraint, number in entry.constraints.items():
                if constraint.lower() == wanted:
                    return number
        return None

    def _object_name(self, number: Value, database: Value = -1) -> Value:
        entry = self._objects.entry_by_id(number, database)
        return entry.table.name if entry else None

    def _object_schema(self, number: Value, database: Value = -1) -> Value:
        entry = self._objects.entry_by_id(number, database)
        return entry.table.schema if entry else None

    def _schema_name(self, number: Value = 1) -> Value:
        catalog = self._objects.catalog()
        return next((name for name, n in catalog.schemas.items() if n == number), None) if catalog else None

    def _schema_id(self, name: Value = "dbo") -> Value:
        catalog = self._objects.catalog()
        found = catalog.schema(str(name)) if catalog and name is not None else None
        return catalog.schemas[found] if catalog and found else None

    def _col_length(self, table: Value, column: Value) -> Value:
        entry = self._objects.entry_by_name(table)
        found = entry.column(str(column)) if entry else None
        return stored_size(found.type) if found else None

    def _col_name(self, number: Value, column: Value) -> Value:
        entry = self._objects.entry_by_id(number)
        return next((c.name for c in entry.table.columns if c.column_id == column), None) if entry else None

    def _identity_part(self, table: Value, part: int) -> Value:
        entry = self._objects.entry_by_name(table)
        return None if entry is None or entry.identity is None else str(entry.identity[part])

    def _ident_current(self, table: Value) -> Value:
        entry = self._objects.entry_by_name(table)
        if entry is None or entry.identity is None:
            return None
        return str(self.session.current().identities.get(entry.table.object_id, entry.identity[0]))
