"""The T-SQL, one named text a question. Values travel as parameters; names are quoted as QUOTENAME does, never pasted.

Every text is read under READ COMMITTED, without hints: a dirty read of a change table could show rows of a scan that rolls back.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.names import TableName, quote_name

Parameters = tuple[object, ...]

P = "\x00"
"""Where a parameter goes. The driver's own %s would also be found inside a name; no name can hold a NUL."""

SERVER_TIME_ZONE = "SELECT CURRENT_TIMEZONE_ID()"
"""The server's zone, as AT TIME ZONE understands it (SQL Server 2022, Azure SQL); older servers answer with error 195."""

CDC_ENABLED = "SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()"

CAPTURE_INSTANCES = """\
SELECT ct.source_object_id, OBJECT_SCHEMA_NAME(ct.source_object_id) AS source_schema, OBJECT_NAME(ct.source_object_id) AS source_name,
       ct.capture_instance, ISNULL(OBJECT_NAME(ct.object_id), ct.capture_instance + N'_CT') AS change_table, ct.object_id, ct.start_lsn,
       COL_LENGTH(N'cdc.' + QUOTENAME(OBJECT_NAME(ct.object_id)), N'__$command_id') AS command_id_length
FROM cdc.change_tables AS ct
ORDER BY ct.create_date, ct.object_id"""
"""The name of a table is told to those only who have a right on it."""

CATALOG_STAMP = "SELECT COUNT(*) AS instances, MAX(create_date) AS newest FROM cdc.change_tables"
"""Changes when a capture instance is made or dropped."""

INSTANCE_KNOWN = f"SELECT COUNT(*) FROM cdc.change_tables WHERE capture_instance = {P}"

LOW_WATERMARK = f"SELECT sys.fn_cdc_get_min_lsn({P}) AS low_watermark"

MAY_READ_THE_LOGS_TIMES = "SELECT HAS_PERMS_BY_NAME(N'cdc.lsn_time_mapping', N'OBJECT', N'SELECT')"
"""sys.fn_cdc_get_max_lsn answers NULL before the first capture, and to those who may not look."""

TABLES_A_STATEMENT = 100
"""How many tables one statement asks for: a batch may hold any number of statements, a plan should not hold any number of tables."""


def tables_found(tables: Sequence[TableName]) -> tuple[str, Parameters]:
    """(number in `tables`, object id or NULL) of each. The server resolves the names itself: only its collation knows which are equal."""
    statements = []
    for first in range(0, len(tables), TABLES_A_STATEMENT):
        rows = ", ".join(f"({number}, {P})" for number in range(first, min(first + TABLES_A_STATEMENT, len(tables))))
        statements.append(
            f"SELECT wanted.number, OBJECT_ID(wanted.name, N'U') FROM (VALUES {rows}) AS wanted (number, name)"
        )
    return ";\n".join(statements), tuple(table.quoted for table in tables)


def after(has_command_id: bool, command_id: int) -> str:
    """The rows of a change table past a position whose command id is `command_id`; the other parts are parameters.

    Written as a ladder of comparisons so that the clustered index of a change table can seek to the first row. What was captured
    before an upgrade added the column holds NULL there: it counts as 0 and sorts first in its transaction, and a comparison with a
    NULL would leave the rest of that transaction out.
    """
    operation = f"(ct.[__$seqval] > {P} OR (ct.[__$seqval] = {P} AND ct.[__$operation] > {P}))"
    if not has_command_id:
        return f"(ct.[__$start_lsn] > {P} OR (ct.[__$start_lsn] = {P} AND {operation}))"
    larger, equal = f"ct.[__$command_id] > {P}", f"ct.[__$command_id] = {P}"
    if command_id < 0:
        larger = f"({larger} OR ct.[__$command_id] IS NULL)"
    elif command_id == 0:
        equal = f"({equal} OR ct.[__$command_id] IS NULL)"
    return f"(ct.[__$start_lsn] > {P} OR (ct.[__$start_lsn] = {P} AND ({larger} OR ({equal} AND {operation}))))"


def below(border: bool) -> str:
    """Added to `after`: not the rows from the border on, if there is one."""
    return f" AND ct.[__$start_lsn] < {P}" if border else ""


def probe(changes: Sequence[tuple[str, str]]) -> str:
    """How far capture has come, and of each (change table, condition) its low watermark and whether it holds anything in the window.

    One batch whatever their number; the last result set is the catalog's stamp. The max LSN is taken by a statement of its own, before
    the rows are looked at: in a single SELECT a capture scan could commit between the two, and the table would be called idle up to an
    LSN whose rows nobody looked for. The stamp comes after it: an instance that is made later starts after that LSN.
    """
    statements = ["DECLARE @max_lsn binary(10) = sys.fn_cdc_get_max_lsn()"]
    for first in range(0, len(changes), TABLES_A_STATEMENT):
        statements.append(
            "\nUNION ALL ".join(
                f"SELECT {P} AS capture_instance, @max_lsn AS max_lsn, sys.fn_cdc_get_min_lsn({P}) AS low_watermark, "
                f"CASE WHEN EXISTS (SELECT 1 FROM [cdc].{quote_name(change_table)} AS ct "
                f"WHERE {condition} AND ct.[__$start_lsn] <= @max_lsn) THEN 1 ELSE 0 END AS pending"
                for change_table, condition in changes[first : first + TABLES_A_STATEMENT]
            )
        )
    return ";\n".join([*statements, CATALOG_STAMP])


def function_probe(requests: Sequence[tuple[str, str, str]]) -> str:
    """`probe` for those who may call the published functions only: of each (capture instance, first LSN, condition).

    A function answers error 313 to a window that is not within its bounds, so it is asked about one that is: below the low watermark
    there is a gap to be told, and nothing to look for. An empty first LSN stands for the low watermark.
    """
    statements = ["DECLARE @max_lsn binary(10) = sys.fn_cdc_get_max_lsn(), @low binary(10), @from binary(10)"]
    for instance, first, condition in requests:
        answer = f"SELECT {P} AS capture_instance, @max_lsn AS max_lsn, @low AS low_watermark, "
        statements += [
            f"SET @low = sys.fn_cdc_get_min_lsn({P})",
            f"SET @from = {first or '@low'}",
            (
                f"IF @low > 0x00000000000000000000 AND @low <= @from AND @from <= @max_lsn\n{answer}"
                f"CASE WHEN EXISTS (SELECT 1 FROM {_function(instance)}(@from, @max_lsn, N'all') AS ct "
                f"WHERE {condition} OR {_NO_PLACE}) THEN 1 ELSE 0 END AS pending\nELSE {answer}0 AS pending"
            ),
        ]
    return ";\n".join([*statements, CATALOG_STAMP])


def page(
    change_table: str,
    columns: Sequence[str],
    *,
    rows: int,
    has_command_id: bool,
    after_command_id: int,
    before_images: bool,
    inclusive: bool,
    zone: str | None,
) -> str:
    """`rows` rows of a window in position order, then the low watermark, which is read when the rows have been.

    Parameters: the position to begin after, the window's last LSN (itself in it if `inclusive`), the capture instance.
    Before images are left out on the server unless they are wanted: an update's after image holds every column.
    """
    return (
        f"SELECT TOP ({rows}) {selected_of(command_id_of(has_command_id), columns, zone)}\n"
        f"FROM [cdc].{quote_name(change_table)} AS ct {TIMES}\n"
        f"WHERE {after(has_command_id, after_command_id)} AND ct.[__$start_lsn] {'<=' if inclusive else '<'} {P}{_images(before_images)}\n"
        f"ORDER BY {order_of(has_command_id)};\n{LOW_WATERMARK}"
    )


def function_page(
    capture_instance: str,
    columns: Sequence[str],
    *,
    rows: int,
    after_transaction: bool,
    before_images: bool,
    inclusive: bool,
    zone: str | None,
) -> str:
    """`page` through the published function, which has no command id, and no rows outside the low watermark and the max LSN: error 313.

    Parameters: the LSN to begin at (or after, with `after_transaction`), the window's last LSN, the position to begin after, the
    capture instance. WITH TIES, so that rows which only a command id could tell apart are seen together. No rows come back for an
    empty window, not even a result set.
    https://learn.microsoft.com/sql/relational-databases/system-functions/cdc-fn-cdc-get-all-changes-capture-instance-transact-sql
    """
    first, last = first_lsn(after_transaction), P if inclusive else f"sys.fn_cdc_decrement_lsn({P})"
    return (
        f"DECLARE @from binary(10) = {first}, @to binary(10) = {last};\n"
        f"IF @from <= @to\nSELECT TOP ({rows}) WITH TIES {selected_of('0', columns, zone)}\n"
        f"FROM {_function(capture_instance)}(@from, @to, N'all update old') AS ct {TIMES}\n"
        f"WHERE {after(has_command_id=False, command_id=0)}{_images(before_images)} OR {_NO_PLACE}\n"
        f"ORDER BY {_BY_SEQVAL};\n{LOW_WATERMARK}"
    )


def first_lsn(after_transaction: bool) -> str:
    """The LSN that a function's window begins at: the parameter, or the one after it."""
    return f"sys.fn_cdc_increment_lsn({P})" if after_transaction else P


_BY_COMMAND = "ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation]"
_BY_SEQVAL = "ct.[__$start_lsn], ct.[__$seqval], ct.[__$operation]"
_NO_PLACE = "ct.[__$start_lsn] IS NULL"
"""A published function tells who may not read its source table so, by a row of NULLs: never to be left out, and taken for nothing to read."""
TIMES = "LEFT JOIN cdc.lsn_time_mapping AS tm ON tm.start_lsn = ct.[__$start_lsn]"


def selected_of(command: str, columns: Sequence[str], zone: str | None) -> str:
    """What is selected of a row, whatever it is read through: its place in the log, and `columns`."""
    meta = ("ct.[__$start_lsn]", f"{command} AS [__$command_id]", "ct.[__$seqval]", "ct.[__$operation]")
    return ", ".join([*meta, "ct.[__$update_mask]", f"{_commit_time(zone)} AS [__$commit_time]", *columns])


def command_id_of(has_command_id: bool) -> str:
    """The command id of a row; see `after` for those of an older server."""
    return "ISNULL(ct.[__$command_id], 0)" if has_command_id else "0"


def order_of(has_command_id: bool) -> str:
    """Position order."""
    return _BY_COMMAND if has_command_id else _BY_SEQVAL


def _images(before_images: bool) -> str:
    return "" if before_images else " AND ct.[__$operation] <> 3"


def _function(capture_instance: str) -> str:
    return f"[cdc].{quote_name('fn_cdc_get_all_changes_' + capture_instance)}"


def _commit_time(zone: str | None) -> str:
    """lsn_time_mapping keeps the server's local time without a zone; today's offset would be wrong for rows of the other half of the year."""
    if zone is None:
        return "CONVERT(varchar(23), DATEADD(minute, -DATEPART(TZOFFSET, SYSDATETIMEOFFSET()), tm.tran_end_time), 121)"
    quoted = zone.replace("'", "''")
    return f"CONVERT(varchar(23), CAST(tm.tran_end_time AT TIME ZONE N'{quoted}' AT TIME ZONE N'UTC' AS datetime2(3)), 121)"
