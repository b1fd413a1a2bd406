"""The T-SQL about the columns of change tables: which they are, and a stamp that shows whether they have changed.
Values are parameters.

ALTER COLUMN on a captured table also alters the change table, when capture gets to it: to a reader, at any moment. What
cdc.captured_columns has then is not documented, so types come from the change table itself.
https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server (Handling changes to source tables)
"""

from __future__ import annotations

from ingester.sqlserver.change_table import ChangeTable
from ingester.sqlserver.sql.changes import P, Statement, change_tables, function

_STAMP = """\
CONVERT(varchar(23), MAX(o.modify_date), 121) + '/' + CONVERT(varchar(20), SUM(CAST(c.column_id AS bigint)
    * (((CAST(c.max_length AS bigint) + 1) * 256 + c.system_type_id) * 2048 + c.precision * 32 + c.scale))) AS stamp"""
"""When the table was last altered, and a sum over its columns' types, for changes that do not update that date.

A page reads it after its rows. If it equals the one that was read before the columns, the table was not altered in
between: while a statement runs, its tables cannot be altered. It costs two lookups by the table's id, and no further
round trip.
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-objects-transact-sql (modify_date)
"""

_OF_A_TABLE = f"""\
FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id
WHERE c.object_id = {P}"""

STAMP = f"SELECT {_STAMP}\n{_OF_A_TABLE}"
"""NULL for a table that no longer exists, or that this login may not see."""


OWN_STAMP = f"({STAMP}) AS stamp"
"""In a select list."""

AS_READ = f"""\
(SELECT {_STAMP}
 FROM sys.columns AS c WITH (NOLOCK) JOIN sys.objects AS o WITH (NOLOCK) ON o.object_id = c.object_id WHERE c.object_id = {P}) AS stamp,
       (SELECT SUM(CASE WHEN cc.column_id IS NULL THEN 0 ELSE 1 END)
        FROM sys.columns AS s WITH (NOLOCK) LEFT JOIN cdc.captured_columns AS cc WITH (NOLOCK) ON cc.object_id = {P} AND cc.column_id = s.column_id
        WHERE s.object_id = {P}) AS still_there,
       (SELECT ct.object_id FROM cdc.change_tables AS ct WHERE ct.capture_instance = {P}) AS made_id"""
"""What shows whether a capture instance is still as it was read: its table's stamp, how many of its columns the source still has, and which change
table its name means.

DROP COLUMN leaves the change table as it is, with NULL in later rows. NULL for a source that this login may not see. NOLOCK: a session that alters
the source in a long transaction, or that makes capture instances in one, must not hold up the rows from before it. What it has changed by then shows
as a difference, and the catalog is read again, which waits for its end.
"""


def stamps(of: str | None) -> Statement:
    """Of change tables and of their sources. `of`: see change_tables."""
    rows, parameters = change_tables(of)
    return (
        f"SELECT c.object_id, {_STAMP}\n"
        "FROM sys.columns AS c JOIN sys.objects AS o ON o.object_id = c.object_id\n"
        f"WHERE c.object_id IN (SELECT ct.object_id FROM {rows} AS ct UNION ALL SELECT ct.source_object_id FROM {rows} AS ct)\n"
        "GROUP BY c.object_id"
    ), (*parameters, *parameters)


def returned(instance: ChangeTable, *, by_function: bool) -> Statement:
    """What the server returns of `instance`, column by column, or why it does not say.

    It takes the right to read the rows, and none to see the catalog. Until the schema changes the rows have these types.
    https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-exec-describe-first-result-set-transact-sql
    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql (Remarks)
    """
    rows = f"{function(instance.name)}(0x, 0x, N'all')" if by_function else instance.rows_from
    return _RETURNED, (f"SELECT * FROM {rows}",)


_RETURNED = f"""\
SELECT d.name, TYPE_NAME(CASE WHEN d.system_type_id = 240 THEN d.user_type_id ELSE d.system_type_id END) AS column_type,
       d.max_length, d.precision, d.scale, d.error_number, d.error_message
FROM sys.dm_exec_describe_first_result_set({P}, NULL, 0) AS d
ORDER BY d.column_ordinal"""


def captured(of: str | None) -> Statement:
    """Types, lengths, precisions and scales are those of the change table, or of the source if the login may not see the change table; 240 is
    the system type of all CLR types. `gone`: dropped from the source; a later column of the same name is another one, with another id. In Azure
    SQL Database names in sys may have another collation than those in cdc, and the server would refuse to compare them. `of`: see change_tables.
    """
    rows, parameters = change_tables(of)
    return (
        "SELECT cc.object_id, cc.column_name,\n"
        "       COALESCE(TYPE_NAME(CASE WHEN c.system_type_id = 240 THEN c.user_type_id ELSE c.system_type_id END),\n"
        "                TYPE_NAME(CASE WHEN s.system_type_id = 240 THEN s.user_type_id ELSE s.system_type_id END), cc.column_type) AS column_type,\n"
        "       cc.column_ordinal, cc.is_computed, ISNULL(c.max_length, s.max_length) AS max_length,\n"
        "       ISNULL(c.precision, s.precision) AS precision, ISNULL(c.scale, s.scale) AS scale, ic.index_ordinal,\n"
        "       CASE WHEN s.column_id IS NULL AND EXISTS (SELECT 1 FROM sys.columns AS v WHERE v.object_id = ct.source_object_id)\n"
        "            THEN 1 ELSE 0 END AS gone\n"
        "FROM cdc.captured_columns AS cc\n"
        f"JOIN {rows} AS ct ON ct.object_id = cc.object_id\n"
        "LEFT JOIN sys.columns AS c ON c.object_id = cc.object_id AND c.name = cc.column_name COLLATE DATABASE_DEFAULT\n"
        "LEFT JOIN sys.columns AS s ON s.object_id = ct.source_object_id AND s.column_id = cc.column_id\n"
        "LEFT JOIN cdc.index_columns AS ic ON ic.object_id = cc.object_id AND ic.column_id = cc.column_id\n"
        "ORDER BY cc.object_id, cc.column_ordinal"
    ), parameters


def added(of: str | None) -> Statement:
    """The source's columns that were added after all captured ones. Others were left out on purpose. `of`: see change_tables."""
    rows, parameters = change_tables(of)
    return (
        "SELECT ct.object_id, s.name\n"
        f"FROM {rows} AS ct JOIN sys.columns AS s ON s.object_id = ct.source_object_id\n"
        "WHERE s.column_id > (SELECT MAX(cc.column_id) FROM cdc.captured_columns AS cc WHERE cc.object_id = ct.object_id)\n"
        "ORDER BY ct.object_id, s.column_id"
    ), parameters
