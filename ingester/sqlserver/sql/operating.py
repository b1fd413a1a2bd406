"""The T-SQL of `dstream status` and `dstream offsets`. Only MOVE and CREATE_MOVES change anything."""

from __future__ import annotations

from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import LogPosition
from ingester.sqlserver.sql.changes import P, Parameters, Statement, after, window
from ingester.sqlserver.sql.offsets import OWNER
from ingester.sqlserver.sql.parts import not_past


def stored(*, owners: bool, times: bool) -> str:
    """Each offset, with the local time of the newest transaction up to it. `times`: whether the log's times are read."""
    committed = "NULL" if not times else _COMMITTED
    return f"""\
SELECT o.table_name, o.last_lsn, o.last_command_id, o.last_seq, o.last_operation, o.epoch, o.source_object,
       {f"o.{OWNER}" if owners else "NULL"} AS owner,
       CONVERT(varchar(23), {committed}, 121) AS committed, CONVERT(varchar(23), o.updated_at, 121) AS updated
FROM dbo.cdc_offsets AS o"""


IGNORES_CASE = "SELECT CASE WHEN N'a' = N'A' THEN 1 ELSE 0 END"
"""Of the database's collation, which its names and the column of names have."""

_COMMITTED = """\
(SELECT TOP (1) tm.tran_end_time FROM cdc.lsn_time_mapping AS tm WHERE tm.start_lsn <= o.last_lsn ORDER BY tm.start_lsn DESC)"""


def lag(number: int, instance: ChangeTable, start: LogPosition, before: LogPosition | None, most: int) -> Statement:
    """(number, changes after `start`, seconds since the oldest of them was committed), one row. No more than `most` are
    counted."""
    rows, values = window(start, None if before is None else before.lsn, instance.has_command_id)
    return (
        f"SELECT {P} AS number, COUNT(*) AS changes, DATEDIFF(second, MIN(tm.tran_end_time), GETDATE()) AS seconds\n"
        f"FROM (SELECT TOP ({P}) ct.[__$start_lsn] AS lsn FROM {instance.rows_from} AS ct\n"
        f"WHERE {rows} AND ct.[__$operation] <> 3 ORDER BY ct.[__$start_lsn]) AS found\n"
        f"LEFT JOIN cdc.lsn_time_mapping AS tm ON tm.start_lsn = found.lsn"
    ), (number, most, *values)


def locked(number: int) -> Statement:
    """In place of `lag` for a change table that another session holds exclusively."""
    return f"SELECT {P} AS number, NULL AS changes, NULL AS seconds", (number,)


def count(instance: ChangeTable, start: LogPosition, upto: LogPosition, most: int) -> Statement:
    """The number of changes in (start, upto], no more than `most`."""
    (begun, first), (ended, last) = after(start, instance.has_command_id), not_past(upto, instance.has_command_id)
    return (
        f"SELECT COUNT(*) AS changes FROM (SELECT TOP ({P}) ct.[__$start_lsn] AS lsn "
        f"FROM {instance.rows_from} AS ct\n"
        f"WHERE {begun} AND {ended} AND ct.[__$operation] <> 3 ORDER BY ct.[__$start_lsn]) AS found"
    ), (most, *first, *last)


LOCAL_IN_ZONE = f"""\
SELECT CONVERT(nvarchar(23), CONVERT(datetime, CONVERT(datetime2(3), {P}, 126) AT TIME ZONE N'UTC' AT TIME ZONE {P}), 126)"""
"""A time in UTC as the server's local time. In the hour that occurs twice in autumn both passes have the same text."""

FIRST_FROM = f"SELECT sys.fn_cdc_map_time_to_lsn(N'smallest greater than or equal', CONVERT(datetime, {P}, 126)) AS lsn"
LAST_UNTIL = f"SELECT sys.fn_cdc_map_time_to_lsn(N'largest less than or equal', CONVERT(datetime, {P}, 126)) AS lsn"
LAST_BEFORE = f"SELECT sys.fn_cdc_map_time_to_lsn(N'largest less than', CONVERT(datetime, {P}, 126)) AS lsn"
"""https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-map-time-to-lsn-transact-sql"""

MOVES_MISSING = "SELECT CASE WHEN OBJECT_ID(N'dbo.cdc_offset_moves', N'U') IS NULL THEN 1 ELSE 0 END"

NEEDED_OF_MOVES = ("SELECT", "INSERT")

RIGHTS_OF_MOVES = "SELECT " + ", ".join(
    f"HAS_PERMS_BY_NAME(N'dbo.cdc_offset_moves', N'OBJECT', N'{right}')" for right in NEEDED_OF_MOVES
)

MAY_MAKE_MOVES = "SELECT HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'CREATE TABLE'), " + ", ".join(
    f"HAS_PERMS_BY_NAME(N'dbo', N'SCHEMA', N'{right}')" for right in ("ALTER", *NEEDED_OF_MOVES)
)
"""Creating a table in a schema that belongs to somebody else gives no right to use it."""

SEES_ALL_TABLES = f"""\
SELECT CASE WHEN 1 IN ({", ".join(f"HAS_PERMS_BY_NAME(N'dbo', N'SCHEMA', N'{right}')" for right in ("SELECT", "ALTER", "VIEW DEFINITION"))})
       THEN 1 ELSE 0 END"""
"""Whether a table of schema dbo that this login does not see is not there: the server hides those it has no right on.
https://learn.microsoft.com/sql/relational-databases/security/metadata-visibility-configuration"""

CREATE_MOVES = """\
IF OBJECT_ID(N'dbo.cdc_offset_moves', N'U') IS NULL
CREATE TABLE dbo.cdc_offset_moves (
    id BIGINT IDENTITY(1,1) NOT NULL PRIMARY KEY,
    table_name NVARCHAR(255) NOT NULL,
    moved_at DATETIME2(3) NOT NULL,
    login_name NVARCHAR(128) NOT NULL,
    host_name NVARCHAR(128) NULL,
    from_lsn VARBINARY(10) NULL,
    from_command_id INT NULL,
    from_seq VARBINARY(10) NULL,
    from_operation INT NULL,
    to_lsn VARBINARY(10) NOT NULL,
    to_command_id INT NOT NULL,
    to_seq VARBINARY(10) NOT NULL,
    to_operation INT NOT NULL,
    epoch BIGINT NOT NULL,
    reason NVARCHAR(1000) NULL
)"""


def move(
    key: str, epoch: int | None, to: tuple[object, ...], source: str | None, reason: str | None
) -> tuple[str, Parameters]:
    """Move an offset and raise its epoch, with a row of dbo.cdc_offset_moves, all or nothing. One row if it was moved.

    `epoch` None: there was no offset.
    """
    text = f"""\
SET XACT_ABORT ON;
DECLARE @begun TABLE (lsn VARBINARY(10) NULL, command_id INT NULL, seq VARBINARY(10) NULL, operation INT NULL, epoch BIGINT NOT NULL);
BEGIN TRANSACTION;
INSERT INTO dbo.cdc_offsets (table_name, last_lsn, epoch, updated_at)
SELECT {P}, NULL, 0, GETDATE() WHERE {P} = 1 AND NOT EXISTS (SELECT 1 FROM dbo.cdc_offsets WHERE table_name = {P});
UPDATE dbo.cdc_offsets
SET last_lsn = {P}, last_command_id = {P}, last_seq = {P}, last_operation = {P}, epoch = epoch + 1,
    source_object = ISNULL({P}, source_object), updated_at = GETDATE()
OUTPUT deleted.last_lsn, deleted.last_command_id, deleted.last_seq, deleted.last_operation, inserted.epoch INTO @begun
WHERE table_name = {P} AND epoch = {P};
INSERT INTO dbo.cdc_offset_moves (table_name, moved_at, login_name, host_name, from_lsn, from_command_id, from_seq,
    from_operation, to_lsn, to_command_id, to_seq, to_operation, epoch, reason)
SELECT {P}, SYSUTCDATETIME(), ORIGINAL_LOGIN(), HOST_NAME(), b.lsn, b.command_id, b.seq, b.operation,
       {P}, {P}, {P}, {P}, b.epoch, {P} FROM @begun AS b;
COMMIT TRANSACTION;
SELECT epoch FROM @begun"""
    first = 1 if epoch is None else 0
    return text, (key, first, key, *to, source, key, epoch or 0, key, *to, reason)


def moves(key: str | None, most: int) -> tuple[str, Parameters]:
    """The newest moves first, of one table or of all."""
    which, values = ("", ()) if key is None else (f"WHERE m.table_name = {P}\n", (key,))
    return (
        f"SELECT TOP ({P}) m.table_name, CONVERT(varchar(23), m.moved_at, 126), m.login_name, m.host_name,\n"
        "       m.from_lsn, m.from_command_id, m.from_seq, m.from_operation,\n"
        "       m.to_lsn, m.to_command_id, m.to_seq, m.to_operation, m.reason\n"
        f"FROM dbo.cdc_offset_moves AS m\n{which}ORDER BY m.id DESC"
    ), (most, *values)
