"""What a person can do at SQL Server, as sentences and statements to run: rights to grant, tables to put under CDC.
Pure.

Each is written once: the ingester logs it, and `dstream check` reports it.
"""

from __future__ import annotations

from common.names import TRANSACTIONS, TableName
from ingester.source import CaptureInstance, Hints, TableState
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql.literal import literal

ENABLE_DATABASE = "EXEC sys.sp_cdc_enable_db, as sysadmin or db_owner"
ENABLE_AGAIN = "EXEC sys.sp_cdc_enable_db, then sys.sp_cdc_enable_table for each table"

_USER = "to the login's user"
READ_SCHEMA_CDC = f"GRANT SELECT ON SCHEMA::cdc {_USER}"
READ_TIMES = f"GRANT SELECT ON OBJECT::cdc.lsn_time_mapping, or on SCHEMA::cdc, {_USER}"
READ_SOURCE = (
    f"GRANT SELECT on the source table's captured columns {_USER}, and add it to the capture instance's gating role"
)
MAKE_OFFSETS = (
    f"create dbo.cdc_offsets beforehand (docs/install.md), or GRANT CREATE TABLE, and ALTER ON SCHEMA::dbo, {_USER}"
)
UPGRADE_OFFSETS = f"GRANT ALTER ON OBJECT::dbo.cdc_offsets {_USER}, for the first start: the table of an older installation lacks columns"
ADD_OWNERS = f"GRANT ALTER ON OBJECT::dbo.cdc_offsets {_USER}, for the ingester's next start; or add the column (docs/install.md)"
USE_OFFSETS = f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets {_USER}"
OFFSETS_UNSEEN = "dbo.cdc_offsets does not exist, or this login may not see it"
SEE_OFFSETS = f"if it exists, {USE_OFFSETS}; else create it (docs/install.md), then the same GRANT"
READ_OFFSETS = f"GRANT SELECT ON OBJECT::dbo.cdc_offsets {_USER}, once the table exists"
MAKE_MOVES = (
    f"if dbo.cdc_offset_moves exists, GRANT SELECT, INSERT ON OBJECT::dbo.cdc_offset_moves {_USER}; else create it beforehand "
    f"(docs/install.md), or GRANT CREATE TABLE, and ALTER ON SCHEMA::dbo, {_USER}"
)
USE_MOVES = f"GRANT SELECT ON OBJECT::dbo.cdc_offset_moves {_USER}"
WRITE_MOVES = f"GRANT SELECT, INSERT ON OBJECT::dbo.cdc_offset_moves {_USER}"
SET_OFFSETS = f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets {_USER}; {WRITE_MOVES}"
MAKE_SNAPSHOTS = (
    f"if dbo.cdc_snapshots exists, GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots {_USER}; else create it beforehand "
    f"(docs/install.md), or GRANT CREATE TABLE, and ALTER ON SCHEMA::dbo, {_USER}"
)
USE_SNAPSHOTS = f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_snapshots {_USER}"
MAKE_PAUSES = (
    f"if dbo.cdc_pauses exists, GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_pauses {_USER}; else create it beforehand "
    f"(docs/install.md), or GRANT CREATE TABLE, and ALTER ON SCHEMA::dbo, {_USER}"
)
USE_PAUSES = f"GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_pauses {_USER}"
READ_PAUSES = f"GRANT SELECT ON OBJECT::dbo.cdc_pauses {_USER}"
SEE_PAUSES = f"if dbo.cdc_pauses does not exist, create it (docs/install.md); then {READ_PAUSES}"
MAKE_SCHEMAS = (
    f"if dbo.cdc_schemas exists, GRANT SELECT, INSERT ON OBJECT::dbo.cdc_schemas {_USER}; else create it beforehand "
    f"(docs/install.md), or GRANT CREATE TABLE, and ALTER ON SCHEMA::dbo, {_USER}"
)
USE_SCHEMAS = f"GRANT SELECT, INSERT ON OBJECT::dbo.cdc_schemas {_USER}"
SEE_SCANS = f"GRANT VIEW DATABASE STATE {_USER}"
SCANS_ALONE = "EXEC sys.sp_cdc_start_job N'capture': without the job nothing is captured while no ingester runs, and the log grows"
BESIDE_THE_JOB = (
    "remove low_latency, and let the job itself scan more often: EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 1, "
    "then sys.sp_cdc_stop_job and sys.sp_cdc_start_job"
)
START_JOB = "EXEC sys.sp_cdc_start_job N'capture'; check that SQL Server Agent is running"
ADD_JOB = "EXEC sys.sp_cdc_add_job N'capture'; each server of an availability group needs jobs of its own"
SCAN_MORE = "raise @maxtrans and @maxscans of the capture job (sys.sp_cdc_change_job)"
SEE_JOBS = "USE msdb; CREATE USER [dstream] FOR LOGIN [dstream]; GRANT SELECT ON OBJECT::dbo.cdc_jobs TO [dstream]"

_CAPTURE_HOLDS = (
    "the capture of a large transaction holds {} until it commits; ALTER DATABASE ... SET READ_COMMITTED_SNAPSHOT ON lets readers pass. "
    "Otherwise see sys.dm_tran_locks for who holds it"
)

ROWS_LOCKED = (
    "the snapshot goes on as soon as the rows are free; sys.dm_tran_locks and sys.dm_exec_requests show who holds them. "
    "ALTER DATABASE ... SET READ_COMMITTED_SNAPSHOT ON lets readers pass"
)


def read_table(table: TableName) -> str:
    """The right that a snapshot needs: on the table itself, its captured columns and its key."""
    return f"GRANT SELECT ON OBJECT::{table.quoted} {_USER}: a snapshot reads the table itself"


def scan_log(user: str) -> str:
    """`user`: of the database."""
    return f"run {_inside(rights.join_role(user, rights.SCANNER))}, or remove low_latency"


UNMASK = f"GRANT UNMASK {_USER}"
ROWS_FILTERED = (
    "while a snapshot runs, rows must not be hidden: ALTER SECURITY POLICY ... WITH (STATE = OFF), or DROP FILTER PREDICATE for this table; "
    "otherwise take no snapshot of it"
)


class SqlServerHints:
    """The port's hints in T-SQL."""

    def absence(self, table: TableName, state: TableState) -> str | None:
        if table == TRANSACTIONS and not state.instances:
            return "no configured table is under CDC yet, so there are no transactions to send events about"
        if not state.exists and state.renamed is not None:
            return (
                f"table {table.key} is now named {state.renamed.key}; rename it back, or configure the new name "
                "(which starts at its low watermark)"
            )
        if not state.exists:
            return f"table {table.key} does not exist in the database, or this login may not see it (GRANT SELECT ON {table.quoted})"
        if state.instances:
            return None
        enable_table = _enable(table)
        if not state.database_has_cdc:
            return (
                f"table {table.key} cannot be read: Change Data Capture is off for the whole database; enable it with "
                f"EXEC sys.sp_cdc_enable_db (as sysadmin, in Azure SQL Database as db_owner), then {enable_table}"
            )
        return f"table {table.key} is not under CDC; enable it with {enable_table}"

    def capture_again(self, instance: CaptureInstance) -> str:
        return _inside(rights.enable_table(instance.table, instance=f"{instance.name}_2"))

    def drop(self, instance: CaptureInstance) -> str:
        return _inside(rights.disable_table(instance.table, instance.name))

    def first_start(self, table: TableName) -> str:
        return f"DELETE FROM dbo.cdc_offsets WHERE table_name = {literal(table.key)}"

    @property
    def locked(self) -> str:
        return _CAPTURE_HOLDS.format("it")

    @property
    def capture_holds(self) -> str:
        return _CAPTURE_HOLDS.format("cdc.lsn_time_mapping")


HINTS: Hints = SqlServerHints()


def _enable(table: TableName) -> str:
    return _inside(rights.enable_table(table))


def _inside(statement: str) -> str:
    """A statement inside a sentence."""
    return statement.removesuffix(";")
