"""The T-SQL that a database needs before the first start: users, rights, capture, the table of offsets. A person runs it, DStream never does.

One source for `dstream plan --sql`, `dstream doctor` and docs/install.md, which a test compares with it. `user` is a user of the database.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.names import TableName, quote_name
from ingester.sqlserver.sql import pauses, schemas, snapshots
from ingester.sqlserver.sql.literal import literal
from ingester.sqlserver.sql.offsets import COLUMNS, CREATE, OWNER, add_column
from ingester.sqlserver.sql.operating import CREATE_MOVES

PASSWORD = "$(DSTREAM_PASSWORD)"
"""A variable of sqlcmd, which takes it from the environment: the file has no secret, and no command line either.
https://learn.microsoft.com/sql/tools/sqlcmd/sqlcmd-use-scripting-variables"""

ENABLE_DATABASE = "EXEC sys.sp_cdc_enable_db;"

ADD_JOB = "EXEC sys.sp_cdc_add_job @job_type = N'capture';"
"""Starts it, too."""

START_JOB = "EXEC sys.sp_cdc_start_job @job_type = N'capture';"

SCAN_MORE = (
    "EXEC sys.sp_cdc_change_job @job_type = N'capture', @maxtrans = 5000, @maxscans = 100;",
    "EXEC sys.sp_cdc_stop_job @job_type = N'capture';",
    START_JOB,
)
"""Ten times the defaults. The job reads its settings when it starts."""

OF_FUNCTIONS = ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping")
"""Tables of schema cdc that `query_mode = "function"` reads."""

MAKE_OFFSETS = f"{CREATE};"

MAKE_MOVES = f"{CREATE_MOVES};"

MAKE_SNAPSHOTS = f"{snapshots.CREATE};"

MAKE_SCHEMAS = f"{schemas.CREATE};"

MAKE_PAUSES = f"{pauses.CREATE};"

SCANNER = "db_owner"
"""The role that sys.sp_cdc_scan needs. No smaller right is documented."""

LONGEST_KEPT = 4320
"""Minutes, SQL Server's default: three days."""


def login(user: str) -> str:
    name = quote_name(user)
    return f"IF SUSER_ID({literal(user)}) IS NULL CREATE LOGIN {name} WITH PASSWORD = N'{PASSWORD}';"


def user_of_login(user: str) -> str:
    name = quote_name(user)
    return f"IF USER_ID({literal(user)}) IS NULL CREATE USER {name} FOR LOGIN {name};"


def contained_user(user: str) -> str:
    """Azure SQL Database: a user with a password of its own."""
    return f"IF USER_ID({literal(user)}) IS NULL CREATE USER {quote_name(user)} WITH PASSWORD = N'{PASSWORD}';"


def user_of_identity(user: str) -> str:
    return f"IF USER_ID({literal(user)}) IS NULL CREATE USER {quote_name(user)} FROM EXTERNAL PROVIDER;"


def read_changes(user: str) -> str:
    return f"GRANT SELECT ON SCHEMA::cdc TO {quote_name(user)};"


def read_catalog(user: str) -> list[str]:
    """Instead of `read_changes`, with `query_mode = "function"`."""
    return [f"GRANT SELECT ON OBJECT::cdc.{table} TO {quote_name(user)};" for table in OF_FUNCTIONS]


def read_times(user: str) -> str:
    return f"GRANT SELECT ON OBJECT::cdc.lsn_time_mapping TO {quote_name(user)};"


def read_table(user: str, table: TableName) -> str:
    return f"GRANT SELECT ON OBJECT::{table.quoted} TO {quote_name(user)};"


def read_tables(user: str, schema: str | None) -> str:
    """For patterns: all tables of a schema; without one, the names of all tables of the database."""
    if schema is None:
        return f"GRANT VIEW DEFINITION TO {quote_name(user)};"
    return f"GRANT SELECT ON SCHEMA::{quote_name(schema)} TO {quote_name(user)};"


def use_offsets(user: str) -> str:
    return f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets TO {quote_name(user)};"


def use_moves(user: str) -> str:
    return f"GRANT SELECT, INSERT ON OBJECT::dbo.cdc_offset_moves TO {quote_name(user)};"


def use_snapshots(user: str) -> str:
    return f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots TO {quote_name(user)};"


def use_pauses(user: str) -> str:
    return f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_pauses TO {quote_name(user)};"


def use_schemas(user: str) -> str:
    return f"GRANT SELECT, INSERT ON OBJECT::dbo.cdc_schemas TO {quote_name(user)};"


def add_columns(lacking: Sequence[str] = (*COLUMNS, OWNER)) -> list[str]:
    return [f"{add_column(name)};" for name in lacking]


def see_scans(user: str) -> str:
    return f"GRANT VIEW DATABASE STATE TO {quote_name(user)};"


def see_jobs(user: str, made: str, database: str) -> list[str]:
    """In msdb, where SQL Server Agent keeps the jobs. `made`: the statement that makes the user there."""
    return [
        "USE msdb;",
        made,
        f"GRANT SELECT ON OBJECT::dbo.cdc_jobs TO {quote_name(user)};",
        f"USE {quote_name(database)};",
    ]


def see_jobs_of_service(user: str) -> str:
    """Azure SQL Database has the table of jobs in schema cdc."""
    return f"GRANT SELECT ON OBJECT::cdc.cdc_jobs TO {quote_name(user)};"


def enable_table(table: TableName, *, instance: str | None = None) -> str:
    named = f", @capture_instance = {literal(instance)}" if instance else ""
    return f"EXEC sys.sp_cdc_enable_table {_source(table)}, @role_name = NULL{named};"


def disable_table(table: TableName, instance: str) -> str:
    return f"EXEC sys.sp_cdc_disable_table {_source(table)}, @capture_instance = {literal(instance)};"


def join_role(user: str, role: str) -> str:
    return f"ALTER ROLE {quote_name(role)} ADD MEMBER {quote_name(user)};"


def keep_changes(minutes: int = LONGEST_KEPT) -> str:
    return f"EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = {minutes};"


def _source(table: TableName) -> str:
    return f"@source_schema = {literal(table.schema)}, @source_name = {literal(table.table)}"
