"""The T-SQL that reads the rows of tables for snapshots. Values are parameters; names are quoted; a condition was checked before.

Everything is read at READ COMMITTED, without hints about locks: a dirty read could show what is rolled back, and READPAST would leave
rows out. A statement waits five seconds for another session's lock, in its own scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.names import quote_name
from ingester.sqlserver.sql import changes
from ingester.sqlserver.sql.changes import P, Parameters, Statement
from ingester.sqlserver.sql.columns import STAMP
from ingester.sqlserver.sql.history.base_table import SqlServerTable
from ingester.sqlserver.sql.history.keys import known_form
from ingester.sqlserver.sql.history.ranges import ordering, ranges

LOCK_SECONDS = 5
_WAIT = f"SET LOCK_TIMEOUT {LOCK_SECONDS * 1000}"
"""https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql"""

TABLE = f"""\
SELECT OBJECT_SCHEMA_NAME(t.object_id) AS schema_name, t.name
FROM sys.tables AS t
WHERE t.object_id = {P} AND CONVERT(nvarchar(12), t.object_id) + N' ' + CONVERT(nvarchar(23), t.create_date, 126) = {P}"""

COLUMNS = f"""\
SELECT c.column_id, c.name, cc.column_name,
       TYPE_NAME(CASE WHEN c.system_type_id = 240 THEN c.user_type_id ELSE c.system_type_id END) AS type_name,
       c.max_length, c.precision, c.scale, c.collation_name, c.is_nullable, c.is_computed, c.is_masked
FROM sys.columns AS c
LEFT JOIN (SELECT captured.column_id, captured.column_name FROM cdc.captured_columns AS captured
           JOIN cdc.change_tables AS ct ON ct.object_id = captured.object_id WHERE ct.capture_instance = {P}) AS cc
       ON cc.column_id = c.column_id
WHERE c.object_id = {P}
ORDER BY c.column_id"""
"""A column keeps its id for life: one that was dropped and added again has another, and is not captured."""

INDEXES = f"""\
SELECT i.name, i.is_primary_key, ic.column_id, ic.is_descending_key, ic.partition_ordinal
FROM sys.indexes AS i JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
WHERE i.object_id = {P} AND i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND i.is_hypothetical = 0
  AND i.type IN (1, 2) AND ic.key_ordinal > 0
ORDER BY i.index_id, ic.key_ordinal"""
"""1 and 2: clustered and nonclustered; indexes of other types have no order. A unique index that is partitioned has the
partitioning column in its key.
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-indexes-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-index-columns-transact-sql"""

ROW_FILTERS = f"""\
SELECT DISTINCT SCHEMA_NAME(policy.schema_id) AS schema_name, policy.name
FROM sys.security_predicates AS predicate JOIN sys.security_policies AS policy ON policy.object_id = predicate.object_id
WHERE predicate.target_object_id = {P} AND predicate.predicate_type = 0 AND policy.is_enabled = 1
ORDER BY policy.name"""
"""Security policies whose filters hide rows of the table, also from its owner. Shown to logins with VIEW DEFINITION on them.
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-security-policies-transact-sql"""

MAY_UNMASK = f"""\
SELECT CASE WHEN HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'UNMASK') = 1 OR HAS_PERMS_BY_NAME({P}, N'OBJECT', N'UNMASK') = 1
            THEN 1 ELSE 0 END AS may"""
"""To other logins the server returns masked values without a word.
https://learn.microsoft.com/sql/relational-databases/security/dynamic-data-masking"""

SIZE = f"""\
SELECT SUM(ps.row_count), SUM(ps.used_page_count) * 8192
FROM sys.dm_db_partition_stats AS ps WHERE ps.object_id = {P} AND ps.index_id IN (0, 1)"""
"""Needs VIEW DATABASE STATE.
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-partition-stats-transact-sql"""

ROWS_ALONE = f"SELECT SUM(p.rows), NULL FROM sys.partitions AS p WHERE p.object_id = {P} AND p.index_id IN (0, 1)"

CAPTURED_AFTER = f"""\
SELECT COUNT(*) FROM (
    SELECT TOP (1) tm.start_lsn FROM cdc.lsn_time_mapping AS tm WHERE tm.tran_end_time > DATEADD(minute, {P}, CONVERT(datetime, {P}, 126))
) AS found"""

LAST_SCAN = f"""\
SELECT TOP (1) s.session_id, s.empty_scan_count,
       CASE WHEN s.start_time > DATEADD(minute, {P}, CONVERT(datetime, {P}, 126)) THEN 1 ELSE 0 END AS later
FROM sys.dm_cdc_log_scan_sessions AS s
WHERE s.session_id <> 0 AND s.end_time IS NOT NULL
ORDER BY s.session_id DESC"""
"""Needs VIEW DATABASE STATE.
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions"""

ROW, END = 1, 0
"""What the first column of a result set says: a row of the table, or what was read after the last one."""

_END = f"""\
SELECT {END} AS [__$row], s.stamp, CONVERT(nvarchar(23), GETDATE(), 126) AS moment
FROM ({STAMP}) AS s"""


@dataclass(frozen=True, slots=True)
class PageText:
    """Which rows of `table` to read: the first `rows` of those in (after, upto], values in the order of its keys.

    `selected`: of the table called ct.
    """

    table: SqlServerTable
    selected: Sequence[str]
    rows: int
    after: Sequence[str] | None = None
    upto: Sequence[str] | None = None
    where: str | None = None


def end(table: SqlServerTable) -> Statement:
    """(END, stamp, the server's time), for rows that were not read to their end."""
    return _END, (table.object_id,)


def page(wanted: PageText) -> Statement:
    """The rows, a result set a range, then the stamp of the columns and the time. A range is read only if rows are still wanted."""
    keys, table = wanted.table.keys, wanted.table
    text, values = f"{_WAIT};\nDECLARE @left bigint = {P};\n", (wanted.rows,)
    parts: list[str] = []
    given: Parameters = values
    for condition, some in ranges(keys, wanted.after, wanted.upto, "ct"):
        parts.append(
            f"SELECT TOP (@left) {ROW} AS [__$row], {', '.join(wanted.selected)}\n"
            f"FROM {_from(table)}{_where(condition, wanted.where)}\nORDER BY {ordering(keys, 'ct')};\n"
        )
        given = (*given, *some)
    return f"{text}{_COUNTED.join(parts)}{_END}", (*given, table.object_id)


_COUNTED = "SET @left = @left - @@ROWCOUNT;\nIF @left > 0\n"


ENDS_OF_A_PASS = 2
"""How often `pass_over` says the stamp and the time. Fewer: the statement was ended before its last row."""


def pass_over(wanted: PageText) -> Statement:
    """The stamp and the time, all rows without an order, and the stamp and the time once more."""
    table = wanted.table
    return (
        f"{_WAIT};\n{_END};\nSELECT {ROW} AS [__$row], {', '.join(wanted.selected)}\n"
        f"FROM {_from(table)}{_where('', wanted.where)};\n{_END}"
    ), (table.object_id, table.object_id)


def bounds(wanted: PageText, most: int) -> Statement:
    """(number, key) of the last row of each of the first `most` runs of rows, and of the row behind each.

    At most one row more than the runs hold is read, and of the index alone if there is no condition. Numbers count from 1.
    """
    keys, rows = wanted.table.keys, wanted.rows
    names = [quote_name(column.name) for column in keys]
    limit = rows * most + 1
    parts: list[str] = []
    given: Parameters = ()
    for number, (condition, some) in enumerate(ranges(keys, wanted.after, wanted.upto, "ct")):
        parts.append(
            f"SELECT * FROM (SELECT TOP ({P}) {number} AS [__$range], {', '.join(f'ct.{name}' for name in names)}\n"
            f"FROM {_from(wanted.table)}{_where(condition, wanted.where)}\nORDER BY {ordering(keys, 'ct')}) AS r{number}"
        )
        given = (*given, limit, *some)
    order = f"ct.[__$range], {ordering(keys, 'ct')}"
    selected = ", ".join(known_form(c).select.format(f"ct.{name}") for c, name in zip(keys, names, strict=True))
    return (
        f"{_WAIT};\nSELECT ct.[__$number], {selected}\nFROM (SELECT ROW_NUMBER() OVER (ORDER BY {order}) AS [__$number], "
        f"{', '.join(f'ct.{name}' for name in names)}\n"
        f"FROM (SELECT TOP ({P}) * FROM (\n{' UNION ALL '.join(parts)}\n) AS ct ORDER BY {order}) AS ct) AS ct\n"
        f"WHERE ct.[__$number] % {P} = 0 OR (ct.[__$number] - 1) % {P} = 0\nORDER BY ct.[__$number]"
    ), (limit, *given, rows, rows)


def compiled(table: SqlServerTable, where: str) -> Statement:
    """No row, and an error if `where` is not a condition on one row of the table."""
    return f"{_WAIT};\nSELECT TOP ({P}) 1 AS found FROM {_from(table)}{_where('', where)}", (0,)


def changed_keys(change_table: str, selected: Sequence[str], after: Statement, most: int) -> Statement:
    """The distinct keys, at most `most`, of all captured rows that are `after` a position. As they are sent: to a column's collation some are equal
    that are not."""
    condition, values = after
    return (
        f"{_WAIT};\nDECLARE @last binary(10) = sys.fn_cdc_get_max_lsn();\n"
        f"SELECT DISTINCT TOP ({P}) {', '.join(f'{one} AS c{number}' for number, one in enumerate(selected))}\n"
        f"FROM [cdc].{quote_name(change_table)} AS ct WHERE {condition} AND ct.[__$start_lsn] <= @last"
    ), (most, *values)


def quick(question: str, *values: object) -> Statement:
    """A question to the catalog, which waits only shortly: a session that alters a table locks its description."""
    return f"{changes.SHORT_WAIT};\n{question}", values


def _from(table: SqlServerTable) -> str:
    """The index is named, so that the server's estimates never choose a scan and a sort for each page."""
    hint = f" WITH (INDEX ({quote_name(table.index)}))" if table.index is not None else ""
    return f"{table.name.quoted} AS ct{hint}"


def _where(range_: str, condition: str | None) -> str:
    """An operator's condition is between line breaks and parentheses, which `check` has found to be balanced."""
    both = [one for one in (range_, f"(\n{condition}\n)" if condition is not None else "") if one]
    return f"\nWHERE {' AND '.join(both)}" if both else ""
