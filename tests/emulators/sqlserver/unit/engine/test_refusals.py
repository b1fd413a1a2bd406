"""What every SQL Server has and this one has not is error 50001 with its name, so that nobody takes it for a mistake of his own."""

from __future__ import annotations

import re

import pytest

from .conftest import Client


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT * FROM msdb.dbo.sysjobhistory", "msdb.dbo.sysjobhistory"),
        ("SELECT * FROM msdb.dbo.backupset", "msdb.dbo.backupset"),
        ("SELECT * FROM sys.dm_os_performance_counters", "sys.dm_os_performance_counters"),
        ("SELECT * FROM sys.dm_exec_sql_text(0x00)", "sys.dm_exec_sql_text"),
        ("SELECT * FROM sys.fn_dblog(NULL, NULL)", "sys.fn_dblog"),
        ("SELECT * FROM sys.sysprocesses", "sys.sysprocesses"),
        ("SELECT * FROM sysobjects", "dbo.sysobjects"),
        ("SELECT * FROM sys.stats", "sys.stats"),
        ("SELECT * FROM INFORMATION_SCHEMA.COLUMN_PRIVILEGES", "column_privileges"),
        ("SELECT * FROM OPENJSON('[1]')", "OPENJSON"),
        ("SELECT * FROM CHANGETABLE(CHANGES t, 0) AS c", "CHANGETABLE"),
        ("SELECT 1 FROM t WHERE CONTAINS(v, 'x')", "CONTAINS"),
        ("SELECT 1 FROM t WHERE FREETEXT(v, 'x')", "FREETEXT"),
        (
            "SELECT * FROM t LEFT JOIN t AS u JOIN t AS w ON u.id = w.id ON t.id = u.id",
            "a join inside another one's table",
        ),
        ("(SELECT id FROM t) ORDER BY id DESC", "ORDER behind a query in brackets"),
        (
            "SELECT id FROM t GROUP BY id HAVING EXISTS (SELECT 1 FROM t AS u WHERE u.id = MAX(t.id))",
            "an aggregate of the query around a subquery",
        ),
        ("SELECT * FROM t PIVOT (SUM(id) FOR v IN ([a])) AS p", "PIVOT"),
        ("SELECT * FROM (SELECT id, v FROM t) s PIVOT (COUNT(id) FOR v IN ([a])) p", "PIVOT"),
        ("SELECT * FROM t JOIN (SELECT id, v FROM t) s PIVOT (COUNT(id) FOR v IN ([a])) p ON 1 = 1", "PIVOT"),
        ("SELECT * FROM t, (SELECT id, v FROM t) s PIVOT (COUNT(id) FOR v IN ([a])) p", "PIVOT"),
        ("SELECT * FROM (VALUES (1, 2)) s (id, v) PIVOT (COUNT(id) FOR v IN ([2])) p", "PIVOT"),
        ("SELECT 1 WHERE EXISTS (SELECT * FROM (SELECT id, v FROM t) s PIVOT (COUNT(id) FOR v IN ([a])) p)", "PIVOT"),
        (
            "WITH c AS (SELECT * FROM (SELECT id, v FROM t) s PIVOT (COUNT(id) FOR v IN ([a])) p) SELECT * FROM c",
            "PIVOT",
        ),
        ("DELETE t FROM (SELECT id, v FROM t) s PIVOT (COUNT(id) FOR v IN ([a])) p", "PIVOT"),
        ("SELECT * FROM (SELECT id FROM t) s UNPIVOT (a FOR b IN ([id])) p", "UNPIVOT"),
        ("SELECT * FROM (SELECT id FROM t) s TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT id FROM t GROUP BY id WITH ROLLUP", "ROLLUP"),
        ("SELECT id FROM t GROUP BY id WITH CUBE ORDER BY id", "CUBE"),
        ("WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r", "recursive WITH (r)"),
        (
            "WITH r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM R) DELETE t WHERE id IN (SELECT n FROM r)",
            "recursive WITH",
        ),
        ("UPDATE t SET id = 1 WHERE CURRENT OF c", "WHERE CURRENT OF"),
        ("DELETE FROM t WHERE CURRENT OF GLOBAL c", "WHERE CURRENT OF"),
        ("SELECT NEXT VALUE FOR dbo.s", "NEXT VALUE FOR (NEXT VALUE FOR dbo.s)"),
        ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY id) OVER () FROM t", "PERCENTILE_CONT ... WITHIN GROUP"),
        ("SELECT id FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE on a table"),
        ("CREATE TABLE x (a datetime2 GENERATED ALWAYS AS ROW START NOT NULL)", "GENERATED ALWAYS on a column"),
        ("CREATE TABLE x (a int MASKED WITH (FUNCTION = 'default()'))", "MASKED WITH on a column"),
        ("SELECT id FROM t FOR JSON PATH", "FOR XML, FOR JSON or FOR BROWSE in SELECT"),
        ("SELECT id FROM t WHERE id IS DISTINCT FROM 1", "IS DISTINCT FROM as a condition"),
        ("SELECT SUM(id) OVER w FROM t WINDOW w AS (ORDER BY id)", "WINDOW in SELECT"),
        ("SELECT * FROM (t JOIN t AS u ON t.id = u.id)", "a join in brackets"),
        ("SELECT CAST(v AS xml).value('.', 'int') FROM t", "a method call"),
        ("SELECT v || v FROM t", "the operator ||"),
        ("WITH c AS (SELECT id FROM t) INSERT c (id) VALUES (2)", "INSERT through a common table expression"),
        (
            "WITH c AS (SELECT id FROM t) MERGE C USING t ON t.id = c.id WHEN MATCHED THEN DELETE;",
            "MERGE through a common table expression",
        ),
        ("EXEC sp_cursoropen 1, N'SELECT 1'", "sp_cursoropen"),
        ("EXEC sp_cursorfetch 1, 2, 3, 4", "sp_cursorfetch"),
        ("EXEC msdb.dbo.sp_start_job N'cdc.demo_capture'", "sp_start_job"),
        ("EXEC sys.sp_addextendedproperty N'a', N'b'", "sp_addextendedproperty"),
        ("EXEC master..xp_cmdshell 'dir'", "xp_cmdshell"),
        ("SET FMTONLY ON IF 1 = 1 SELECT 1", "FMTONLY"),
        ("BULK INSERT t FROM 'x'", "BULK INSERT"),
        ("CREATE PROCEDURE p AS SELECT 1", "CREATE PROCEDURE"),
        ("CREATE OR ALTER PROCEDURE p AS SELECT 1", "PROCEDURE"),
        ("CREATE TRIGGER r ON t AFTER INSERT AS SELECT 1", "CREATE TRIGGER"),
        ("CREATE FUNCTION f() RETURNS int AS BEGIN RETURN 1 END", "CREATE FUNCTION"),
        ("DECLARE c CURSOR FOR SELECT 1", "cursor"),
        ("UPDATE STATISTICS t", "UPDATE STATISTICS"),
        ("DISABLE TRIGGER r ON t", "DISABLE TRIGGER"),
        ("EXECUTE AS USER = 'dbo'", "EXECUTE AS"),
        ("REVERT", "REVERT"),
        ("CREATE TABLE x (a sql_variant)", "sql_variant"),
        ("SELECT CAST(NULL AS hierarchyid)", "hierarchyid"),
        ("CREATE TABLE x (a geography)", "geography"),
        ("CREATE TABLE x (a geometry)", "geometry"),
        ("ALTER TABLE t SET (SYSTEM_VERSIONING = ON)", "SET"),
        ("SELECT id FROM t FOR SYSTEM_TIME ALL", "SYSTEM_TIME"),
    ],
)
def test_it_is_refused_by_name(client: Client, sql: str, name: str) -> None:
    client.run("CREATE TABLE t (id int, v nvarchar(10))")
    number, text = client.error(sql)
    assert number == 50001
    assert name.lower() in text.lower()


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT * FROM sys.no_such_view", 208),
        ("SELECT * FROM msdb.dbo.no_such_table", 208),
        ("SELECT * FROM dbo.no_such_function(1)", 208),
        ("EXEC sp_no_such_procedure", 2812),
        ("CREATE TABLE x (a no_such_type)", 2715),
    ],
)
def test_what_nobody_has_is_still_unknown(client: Client, sql: str, number: int) -> None:
    assert client.error(sql)[0] == number


def test_names_of_refused_things_may_be_used_for_ones_own(client: Client) -> None:
    client.run("CREATE TABLE dbo.sysjobhistory (id int) CREATE TABLE dbo.sysobjects ([contains] int, openjson int)")
    assert client.rows("SELECT [contains], openjson FROM sysobjects") == []
    assert client.rows("SELECT id FROM dbo.sysjobhistory") == []


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (" UNION ALL ".join(["SELECT 1"] * 501), "SELECTs under UNION|nested so deeply"),
        (f"SELECT CONCAT({', '.join(['1'] * 254)})", "more than a hundred arguments"),
    ],
    ids=["UNION", "CONCAT"],
)
def test_limits_of_the_storage_are_named(client: Client, sql: str, name: str) -> None:
    """SQL Server has no limit of SELECTs, and CONCAT takes 254 arguments."""
    number, text = client.error(sql)
    assert number == 50001
    assert re.search(name, text)


def test_the_server_is_known_by_its_own_name(client: Client) -> None:
    client.run("CREATE TABLE t (id int) INSERT EMULATOR.demo.dbo.t VALUES (1) UPDATE emulator.demo..t SET id = 2")
    assert client.rows("SELECT id FROM [EMULATOR].demo.dbo.t") == [(2,)]
    client.run("EXEC emulator.demo.dbo.sp_executesql N'DELETE EMULATOR.demo.dbo.t'")
    assert client.rows("SELECT id FROM t") == []


def test_a_select_list_has_an_end(client: Client) -> None:
    """https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server : 4,096 columns"""
    assert client.error(f"SELECT {', '.join(['1'] * 4097)}")[0] == 1056
