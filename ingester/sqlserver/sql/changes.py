"""The T-SQL, one named text a question. Values travel as parameters; names are quoted as QUOTENAME does, never pasted.

Every text is read under READ COMMITTED: a dirty read of a change table could show rows of a scan that rolls back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.names import TableName, quote_name
from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.position import LogPosition, Lsn

Parameters = tuple[object, ...]
Statement = tuple[str, Parameters]
"""A text and its parameters. The text says which table and which columns, never a value: so SQL Server makes one plan
of it."""

P = "\x00"
"""The place of a parameter. The driver would also find its own %s inside a name; no name can contain a NUL."""

SERVER_TIME_ZONE = "SELECT CURRENT_TIMEZONE_ID()"
OFFSET_IN_ZONE = f"SELECT DATEPART(TZOFFSET, CONVERT(datetime2(0), {P}, 121) AT TIME ZONE {P}) AS minutes"
OFFSET_NOW = "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) AS minutes"
"""The server's zone, as AT TIME ZONE understands it (SQL Server 2022, Azure SQL); older servers answer with error
195."""

CDC_ENABLED = "SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()"


def change_tables(of: str | None) -> Statement:
    """What to select capture instances from: all, or the one of this name."""
    if of is None:
        return "cdc.change_tables", ()
    return f"(SELECT * FROM cdc.change_tables WHERE capture_instance = {P})", (of,)


def capture_instances(of: str | None) -> Statement:
    """Only a login with a right on a table gets its name. `source` is its object id and creation date: a table keeps both when it is renamed or
    moved to another schema, and an id alone may be reused."""
    rows, parameters = change_tables(of)
    return (
        "SELECT ct.source_object_id, OBJECT_SCHEMA_NAME(ct.source_object_id) AS source_schema, OBJECT_NAME(ct.source_object_id) AS source_name,\n"
        "       ct.capture_instance, ISNULL(OBJECT_NAME(ct.object_id), ct.capture_instance + N'_CT') AS change_table, ct.object_id, ct.start_lsn,\n"
        "       COL_LENGTH(N'cdc.' + QUOTENAME(OBJECT_NAME(ct.object_id)), N'__$command_id') AS command_id_length,\n"
        "       CONVERT(nvarchar(12), ct.source_object_id) + N' ' + CONVERT(nvarchar(23), t.create_date, 126) AS source\n"
        f"FROM {rows} AS ct LEFT JOIN sys.tables AS t ON t.object_id = ct.source_object_id\n"
        "ORDER BY ct.create_date, ct.object_id"
    ), parameters


SERVER_TIME = "SELECT CONVERT(nvarchar(23), GETDATE(), 126) AS moment"

COMMITTED_AFTER = f"""\
SELECT COUNT(*) AS passed FROM cdc.lsn_time_mapping AS tm
WHERE tm.start_lsn = {P} AND tm.tran_end_time > DATEADD(minute, {P}, CONVERT(datetime, {P}, 126))"""
"""Both are local times of the server. The log has transactions in the order in which they end. The minutes are by how
much a local time may look later than another without being so: see `times.py`."""

COMMITTED = f"SELECT CONVERT(varchar(23), tm.tran_end_time, 121) AS committed FROM cdc.lsn_time_mapping AS tm WHERE tm.start_lsn = {P}"
"""In the server's local time."""

CATALOG_STAMP = "SELECT COUNT(*) AS instances, MAX(create_date) AS newest FROM cdc.change_tables"
"""Changes when a capture instance is created or dropped."""

INSTANCE_KNOWN = f"SELECT COUNT(*) FROM cdc.change_tables WHERE capture_instance = {P}"

LOW_WATERMARK = f"SELECT (SELECT start_lsn FROM cdc.change_tables WHERE capture_instance = {P}) AS low_watermark"
FUNCTION_LOW_WATERMARK = f"SELECT sys.fn_cdc_get_min_lsn({P}) AS low_watermark"
"""The same for logins that may call the published functions only. 0x00 where the login may not; the column says nothing
about rights.
https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-min-lsn-transact-sql"""

MAX_LSN = "DECLARE @last binary(10) = sys.fn_cdc_get_max_lsn(); SELECT @last AS max_lsn, 0 AS held"
MAX_LSN_HELD = "SELECT NULL AS max_lsn, 1 AS held"
"""In place of `MAX_LSN` if the newest row belongs to an uncommitted transaction of capture itself. A SELECT of the
function would already have begun its result when it meets the lock."""

MAY_READ_THE_LOGS_TIMES = "SELECT HAS_PERMS_BY_NAME(N'cdc.lsn_time_mapping', N'OBJECT', N'SELECT')"
"""sys.fn_cdc_get_max_lsn returns NULL before the first capture, and to logins without the right."""

TABLES_A_STATEMENT = 100
"""Tables in one statement: a batch may have any number of statements, but a plan should not have any number of
tables."""


def tables_found(tables: Sequence[TableName]) -> list[Statement]:
    """(number in `tables`, object id or NULL) of each. The server resolves the names: only its collation knows which
    are equal."""
    statements: list[Statement] = []
    for first in range(0, len(tables), TABLES_A_STATEMENT):
        some = tables[first : first + TABLES_A_STATEMENT]
        rows = ", ".join(f"({number}, {P})" for number in range(first, first + len(some)))
        statements.append(
            (
                f"{SHORT_WAIT};\nSELECT wanted.number, OBJECT_ID(wanted.name, N'U') FROM (VALUES {rows}) AS wanted (number, name)",
                tuple(table.quoted for table in some),
            )
        )
    return statements


def after(position: LogPosition, has_command_id: bool) -> Statement:
    """The rows of a change table past a position, and the condition's parameters.

    Most offsets are between two transactions, where one comparison is enough. Inside a transaction it takes a ladder of
    comparisons, in which SQL Server does not find a bound by itself: the comparison in front lets it seek in the
    clustered index, which begins with the LSN. Without it each page would read the table from its beginning.
    https://learn.microsoft.com/sql/relational-databases/sql-server-index-design-guide (seek predicates)

    Rows from before the upgrade that added the command id have NULL there. It counts as 0 and sorts first in its
    transaction; a comparison with NULL would leave out the rest of that transaction.
    """
    lsn, command, seqval = position.lsn.value, position.command_id, position.seqval
    if position == LogPosition.end_of(position.lsn):
        return f"ct.[__$start_lsn] > {P}", (lsn,)
    if position == LogPosition.before(position.lsn):
        return f"ct.[__$start_lsn] >= {P}", (lsn,)
    rest = f"(ct.[__$seqval] > {P} OR (ct.[__$seqval] = {P} AND ct.[__$operation] > {P}))"
    values: Parameters = (seqval, seqval, position.operation)
    if has_command_id:
        larger, equal = f"ct.[__$command_id] > {P}", f"ct.[__$command_id] = {P}"
        if command < 0:
            larger = f"({larger} OR ct.[__$command_id] IS NULL)"
        elif command == 0:
            equal = f"({equal} OR ct.[__$command_id] IS NULL)"
        rest, values = f"({larger} OR ({equal} AND {rest}))", (command, command, *values)
    ladder = f"(ct.[__$start_lsn] > {P} OR (ct.[__$start_lsn] = {P} AND {rest}))"
    return f"ct.[__$start_lsn] >= {P} AND {ladder}", (lsn, lsn, lsn, *values)


def until(upto: LogPosition) -> Statement:
    """The rows of a change table up to the border of a transaction."""
    return f"ct.[__$start_lsn] {'<=' if upto == LogPosition.end_of(upto.lsn) else '<'} {P}", (upto.lsn.value,)


def window(start: LogPosition, before: Lsn | None, has_command_id: bool) -> Statement:
    """The rows of a change table past a position, and below the border `before` if there is one."""
    begun, values = after(start, has_command_id)
    if before is None:
        return begun, values
    return f"{begun} AND ct.[__$start_lsn] < {P}", (*values, before.value)


SHORT_WAIT = "SET LOCK_TIMEOUT 1000"
"""In a text for sp_executesql: when that ends, also by an error, the session's own setting is restored.
https://learn.microsoft.com/sql/t-sql/statements/set-statements-transact-sql (Considerations)"""
SHORTER_WAIT = "SET LOCK_TIMEOUT 100"


def locked(number: int, found: int) -> Statement:
    """(number, found) for a change table that another session holds exclusively."""
    return f"SELECT {P} AS number, {P} AS found", (number, found)


def pending(number: int, table: ChangeTable, rows: Statement, last: Lsn) -> Statement:
    """(number, 1) if a change table has any of the `rows` up to `last`. Always the same text for a table."""
    condition, values = rows
    return (
        f"IF EXISTS (SELECT 1 FROM {table.rows_from} AS ct "
        f"WHERE {condition} AND ct.[__$start_lsn] <= {P}) SELECT {P} AS number, 1 AS found"
    ), (*values, last.value, number)


def function_pending(number: int, instance: str, start: LogPosition | None, rows: Statement, last: Lsn) -> Statement:
    """`pending` for logins that may call the published functions only; (number, -1) where they may not call this one.

    A function returns error 313 for a window outside its bounds, so the window is limited to them: below the low
    watermark there is a gap to report, and nothing to look for. Without a `start` the window begins at the low
    watermark.
    """
    condition, values = rows
    first = "@low" if start is None else first_lsn(start == LogPosition.end_of(start.lsn))
    return (
        f"DECLARE @low binary(10) = sys.fn_cdc_get_min_lsn({P}), @to binary(10) = {P}, @number int = {P}, @from binary(10);\n"
        f"SET @from = {first};\n"
        "IF ISNULL(@low, 0x00000000000000000000) = 0x00000000000000000000 SELECT @number AS number, -1 AS found\n"
        "ELSE IF @low <= @from AND @from <= @to\n"
        f"IF EXISTS (SELECT 1 FROM {function(instance)}(@from, @to, N'all') AS ct\n"
        f"WHERE {condition} OR {_NO_PLACE}) SELECT @number AS number, 1 AS found"
    ), (instance, last.value, number, *([] if start is None else [start.lsn.value]), *values)


def low_watermarks(instances: Sequence[str]) -> Statement:
    """(capture instance, low watermark) for each of `instances`, and perhaps for others.

    The list is padded to one of a few lengths, so that there are few texts; for a long list all instances are returned.
    The column has what sys.fn_cdc_get_min_lsn returns.
    https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-min-lsn-transact-sql
    """
    length = next((length for length in _LENGTHS if len(instances) <= length), None)
    if length is None or not instances:
        return _LOW_WATERMARKS, ()
    named = [*instances, *[instances[-1]] * (length - len(instances))]
    return f"{_LOW_WATERMARKS} WHERE capture_instance IN ({', '.join([P] * length)})", tuple(named)


_LOW_WATERMARKS = "SELECT capture_instance, start_lsn FROM cdc.change_tables"
_LENGTHS = (1, 4, 16, 64)


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """Which rows of a change table make a page: the first `rows` of the window (after, upto], with `columns` as they
    are selected. `beside`: an expression of bytes, never NULL, that is selected in one value with a row's place.

    Before images are left out on the server unless they are asked for: an update's after image holds every column.
    """

    table: ChangeTable
    columns: Sequence[str]
    after: LogPosition
    upto: LogPosition
    rows: int
    before_images: bool = False
    numbered: bool = False
    beside: str = ""


def page(query: RowsQuery) -> Statement:
    """Rows in position order, their commit times, then the low watermark, which is read when those have been."""
    table, selected = query.table, selected_of(command_id_of(query.table.has_command_id), query.beside, query.columns)
    rows, values = _first(query, selected)
    times, same = commit_times(query)
    return f"{rows};\n{times};\n{LOW_WATERMARK}", (*values, *same, table.name)


def _first(query: RowsQuery, selected: str) -> Statement:
    """The first rows of the window, in position order."""
    table = query.table
    (begun, first), (ended, last) = after(query.after, table.has_command_id), until(query.upto)
    return (
        f"SELECT TOP ({P}) {selected}\nFROM [cdc].{quote_name(table.change_table)} AS ct\n"
        f"WHERE {begun} AND {ended}{images(query.before_images)}\n"
        f"ORDER BY {order_of(table.has_command_id)}"
    ), (query.rows, *first, *last)


def commit_times(query: RowsQuery) -> Statement:
    """(LSN, commit time in the server's local time) of each transaction in the page."""
    rows, values = _first(query, "ct.[__$start_lsn]")
    return times_of(rows), values


def times_of(rows: str) -> str:
    """`commit_times` of the transactions in the `rows` of a query that selects their LSNs.

    The same rows are looked at once more, in the pages of the index that were just read, and nothing of them but the
    LSN. Their index has the order of LSNs, so that DISTINCT takes no sort, and only then each LSN is sought in
    cdc.lsn_time_mapping: once a transaction, where a join with the page would seek, format and send it with each row.
    Both sides have the order of a merge, which would read the whole table, and wait at its end for a transaction of
    capture: FORCESEEK forbids it.
    https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table (FORCESEEK)

    Between both statements cleanup may remove transactions. It has raised the low watermark before, which is read after
    both and shows it: then the page is not used.
    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-cleanup-change-table-transact-sql
    """
    return (
        f"SELECT tm.start_lsn, {LOCAL_TIME}\n"
        f"FROM (SELECT DISTINCT found.[__$start_lsn] FROM ({rows}) AS found) AS held\n"
        f"JOIN cdc.lsn_time_mapping AS tm WITH (FORCESEEK) ON tm.start_lsn = held.[__$start_lsn]"
    )


def function_page(query: RowsQuery) -> Statement:
    """`page` through the published function, which has no command id, and no rows outside the low watermark and the max
    LSN: error 313.

    WITH TIES, so that rows that differ in their command id only are read together. An empty window returns no rows, not
    even a result set.
    https://learn.microsoft.com/sql/relational-databases/system-functions/cdc-fn-cdc-get-all-changes-capture-instance-transact-sql
    """
    begun, window = _window_of_function(query)
    rows, values = _first_of_function(query, selected_of("0", query.beside, query.columns))
    lsns, same = _first_of_function(query, "ct.[__$start_lsn]")
    return (f"{begun}BEGIN\n{rows};\n{times_of(lsns)}\nEND;\n{FUNCTION_LOW_WATERMARK}"), (
        *window,
        *values,
        *same,
        query.table.name,
    )


def function_commit_times(query: RowsQuery) -> Statement:
    """`commit_times` of a function's page."""
    begun, window = _window_of_function(query)
    lsns, values = _first_of_function(query, "ct.[__$start_lsn]")
    return f"{begun}{times_of(lsns)}", (*window, *values)


def _window_of_function(query: RowsQuery) -> Statement:
    """What stands in front of a statement that needs a window that is not empty."""
    start, upto = query.after, query.upto
    first = first_lsn(start == LogPosition.end_of(start.lsn))
    last = P if upto == LogPosition.end_of(upto.lsn) else f"sys.fn_cdc_decrement_lsn({P})"
    text = f"DECLARE @from binary(10) = {first}, @to binary(10) = {last};\nIF @from <= @to\n"
    return text, (start.lsn.value, upto.lsn.value)


def _first_of_function(query: RowsQuery, selected: str) -> Statement:
    begun, values = after(query.after, has_command_id=False)
    return (
        f"SELECT TOP ({P}) WITH TIES {selected}\n"
        f"FROM {function(query.table.name)}(@from, @to, N'all update old') AS ct\n"
        f"WHERE {begun}{images(query.before_images)} OR {_NO_PLACE}\n"
        f"ORDER BY {_BY_SEQVAL}"
    ), (query.rows, *values)


def first_lsn(starttransaction: bool) -> str:
    """The LSN that a function's window begins at: the parameter, or the one after it."""
    return f"sys.fn_cdc_increment_lsn({P})" if starttransaction else P


_BY_COMMAND = "ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], ct.[__$operation]"
_BY_SEQVAL = "ct.[__$start_lsn], ct.[__$seqval], ct.[__$operation]"
_NO_PLACE = "ct.[__$start_lsn] IS NULL"
"""A published function returns a row of NULLs to a login that may not read its source table. It must not be filtered
out, which would look like nothing to read."""
LOCAL_TIME = "CONVERT(varchar(23), tm.tran_end_time, 121) AS committed"
"""In the server's local time (see times.py)."""


def selected_of(command: str, beside: str, columns: Sequence[str]) -> str:
    """The select list of a row, however it is read: its place in the log with what is `beside` it, as one value
    (pages/place.py), and `columns`."""
    parts = (
        "ct.[__$start_lsn]",
        f"CONVERT(binary(4), {command})",
        "ct.[__$seqval]",
        "CONVERT(binary(4), ct.[__$operation])",
        *([beside] if beside else []),
        "ISNULL(ct.[__$update_mask], CONVERT(binary(1), 0))",
    )
    return ", ".join([f"{' + '.join(parts)} AS [__$place]", *columns])


def command_id_of(has_command_id: bool) -> str:
    """The command id of a row; see `after` for rows of an older server."""
    return "ISNULL(ct.[__$command_id], 0)" if has_command_id else "0"


def order_of(has_command_id: bool) -> str:
    """Position order."""
    return _BY_COMMAND if has_command_id else _BY_SEQVAL


def images(before_images: bool) -> str:
    """The condition that leaves before images out."""
    return "" if before_images else " AND ct.[__$operation] <> 3"


def function(capture_instance: str) -> str:
    return f"[cdc].{quote_name('fn_cdc_get_all_changes_' + capture_instance)}"
