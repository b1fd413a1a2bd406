"""Items 84 to 88: how the catalog writes expressions, what procedures make of names, and what is refused by its own name."""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.contract.client import Database
from tests.emulators.sqlserver.contract.labels import item

DEFAULTS = [
    ("decimal(5, 1)", "200.1", "((200.1))"),
    ("varchar(10)", "'x'", "('x')"),
    ("varchar(10)", "('it''s')", "('it''s')"),
    ("nvarchar(10)", "N'x'", "(N'x')"),
    ("int", "-1", "((-1))"),
    ("int", "((5))", "((5))"),
    ("int", "1 + 2", "((1)+(2))"),
    ("datetime", "GETDATE()", "(getdate())"),
    ("datetime", "CURRENT_TIMESTAMP", "(getdate())"),
    ("int", "NULL", "(NULL)"),
    ("int", "CAST('7' AS int)", "(CONVERT([int],'7'))"),
    ("datetime", "DATEADD(dd, 1, GETDATE())", "(dateadd(day,(1),getdate()))"),
    ("int", "1 & 3", "((1)&(3))"),
    ("int", "007", "((7))"),
    ("int", "1 - 2 - 3", "(((1)-(2))-(3))"),
    ("decimal(5, 1)", ".5", "((0.5))"),
    ("bigint", "2147483648", "((2147483648.))"),
    ("float", "1e2", "((1.0000000000000000e+002))"),
]
CHECKS = [
    ("n > 0 AND v IS NOT NULL", "([n]>(0) AND [v] IS NOT NULL)"),
    ("v IN ('a', 'b')", "([v]='b' OR [v]='a')"),
    ("n BETWEEN 1 AND 5", "([n]>=(1) AND [n]<=(5))"),
    ("(n = 1 OR n = 2) AND v != 'x'", "(([n]=(1) OR [n]=(2)) AND [v]<>'x')"),
    ("v LIKE 'a%'", "([v] like 'a%')"),
    ("v NOT LIKE 'a%' AND n NOT IN (1, 2)", "(NOT [v] like 'a%' AND NOT ([n]=(2) OR [n]=(1)))"),
    ("v LIKE 'a!%' ESCAPE '!'", "([v] like 'a!%' escape '!' )"),
    ("n NOT BETWEEN 1 AND 5", "(NOT ([n]>=(1) AND [n]<=(5)))"),
    ("NOT (v IS NULL)", "(NOT [v] IS NULL)"),
    ("n & 3 = 1", "(([n]&(3))=(1))"),
    ("n | 3 ^ 4 > 1", "((([n]|(3))^(4))>(1))"),
    ("n + 1 * 2 > 0", "(([n]+(1)*(2))>(0))"),
    ("n * 2 * 3 > 0", "(([n]*(2))*(3)>(0))"),
    ("-n < 0", "(( -[n])<(0))"),
    ("~n = 0", "(~[n]=(0))"),
    ("n > 0 OR n IN (-1, -2)", "([n]>(0) OR ([n]=(-2) OR [n]=(-1)))"),
    ("DATEDIFF(dd, v, GETDATE()) > 0", "(datediff(day,[v],getdate())>(0))"),
    ("TRY_CONVERT(int, v) IS NULL", "(TRY_CAST([v] AS [int]) IS NULL)"),
    ("v COLLATE Latin1_General_BIN = 'x'", "(([v]) collate Latin1_General_BIN='x')"),
    ("CASE WHEN n > 0 THEN 1 END = 1", "(case when [n]>(0) then (1)  end=(1))"),
    ("IIF(n > 0, 1, 0) = 1", "(case when [n]>(0) then (1) else (0) end=(1))"),
]
TEMPORAL = (
    "CREATE TABLE dbo.u (n int NOT NULL PRIMARY KEY, a datetime2 GENERATED ALWAYS AS ROW START NOT NULL, "
    "b datetime2 GENERATED ALWAYS AS ROW END NOT NULL, PERIOD FOR SYSTEM_TIME (a, b)) WITH (SYSTEM_VERSIONING = ON)"
)
COLUMNS_OF = "EXEC sp_columns_100 {table}, {owner}, NULL, NULL, @ODBCVer = 3"


@pytest.fixture
def table(database: Database) -> Database:
    """A database with a table, dbo.t, that has no rows."""
    database.run("CREATE TABLE dbo.t (n int NOT NULL PRIMARY KEY, v varchar(10) NULL)")
    return database


@item(84, "measured")
@pytest.mark.parametrize(("kind", "written", "shown"), DEFAULTS)
def test_a_default_is_spelled_as_the_server_spells_it(database: Database, kind: str, written: str, shown: str) -> None:
    """In every place that shows it: literals in parentheses if they are numbers, functions in lower case, one pair around it all.

    Source: Debezium SqlServerDefaultValueConverter and its tests, which read these texts; tests of msduck, which hold
    definitions that a server gave.
    """
    database.run(f"CREATE TABLE dbo.t (n int NOT NULL, d {kind} NULL DEFAULT {written})")
    assert database.column("SELECT definition FROM sys.default_constraints") == [shown]
    listed = "SELECT COLUMN_DEFAULT FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = N't' AND COLUMN_NAME = N'd'"
    assert database.column(listed) == [shown]


@item(84, "measured")
@pytest.mark.parametrize(("written", "shown"), CHECKS)
def test_a_condition_is_spelled_as_the_server_spells_it(table: Database, written: str, shown: str) -> None:
    """Names in brackets; IN and BETWEEN become comparisons.

    Source: Database Administrators Stack Exchange 212047, the output of sys.check_constraints; scripts of databases by SSMS;
    tests of msduck, which hold definitions that a server gave.
    """
    table.run(f"ALTER TABLE dbo.t ADD CONSTRAINT ck CHECK ({written})")
    assert table.column("SELECT definition FROM sys.check_constraints") == [shown]


@item(84, "measured")
def test_computed_columns_and_filters_are_spelled_so_too(table: Database) -> None:
    """Both in the form of a check.

    Source: scripts of databases by SSMS; Microsoft, "sys.computed_columns (Transact-SQL)", "sys.indexes (Transact-SQL)".
    """
    table.run("ALTER TABLE dbo.t ADD twice AS n * 2 + 1")
    table.run("CREATE INDEX ix ON dbo.t (n) WHERE v IS NOT NULL")
    assert table.column("SELECT definition FROM sys.computed_columns") == ["([n]*(2)+(1))"]
    assert table.column("SELECT filter_definition FROM sys.indexes WHERE name = N'ix'") == ["([v] IS NOT NULL)"]


@item(85, "documented")
def test_a_column_is_renamed_without_saying_that_it_is_one(table: Database) -> None:
    """Where the name is that of one object or column. Else 15225, or 15248 with the type that was given.

    Source: Microsoft, "sp_rename (Transact-SQL)", @objtype is NULL by default; errors, 15225 and 15248.
    """
    table.run("EXEC sp_rename N'dbo.t.v', N'w'")
    table.run("EXEC sp_rename 't.w', 'x'")
    assert table.column("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.t') ORDER BY column_id") == [
        "n",
        "x",
    ]
    table.run("EXEC sp_rename N'dbo.t', N'u'")
    assert table.value("SELECT COUNT(*) FROM dbo.u") == 0
    assert table.error("EXEC sp_rename N'dbo.u.gone', N'y'").number == 15225
    assert table.error("EXEC sp_rename N'dbo.u.gone', N'y', N'COLUMN'").number == 15248


@item(85, "measured")
def test_disabling_all_instances_of_a_table_that_has_none(persons: Database) -> None:
    """Nothing happens; a named instance is missed.

    Source: Debezium TestHelper, disableTableCdc; Microsoft, "sys.sp_cdc_disable_table (Transact-SQL)".
    """
    call = "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'{}'"
    persons.run(call.format("all"))
    persons.run(call.format("all"))
    assert persons.error(call.format("dbo_Persons")).number == 22985


@item(86, "documented")
def test_arguments_of_a_table_function_may_be_defaults(database: Database) -> None:
    """A new database has no extended properties.

    Source: Microsoft, "sys.fn_listextendedproperty (Transact-SQL)".
    """
    for name in ("fn_listextendedproperty", "sys.fn_listextendedproperty"):
        sql = f"SELECT objtype, name FROM {name}(NULL, DEFAULT, default, NULL, default, default, default)"
        assert database.rows(sql) == []


@item(86, "documented")
def test_table_functions_of_the_system_need_no_schema(database: Database) -> None:
    """Where their page calls them so.

    Source: Microsoft, "sys.fn_helpcollations (Transact-SQL)", examples; "sys.fn_listextendedproperty (Transact-SQL)", examples.
    """
    for name in ("fn_helpcollations", "sys.fn_helpcollations"):
        assert database.column(f"SELECT name FROM {name}() WHERE name = N'Latin1_General_BIN2'") == [
            "Latin1_General_BIN2"
        ]


@item(86, "documented")
def test_a_window_function_needs_its_window(table: Database) -> None:
    """10753, and 195 only for what no server has.

    Source: Microsoft, "Database engine events and errors", 195 and 10753.
    """
    assert table.error("SELECT ROW_NUMBER() FROM dbo.t").number == 10753
    assert table.error("SELECT NO_SUCH_FUNCTION(1)").number == 195


@item(87, "measured")
def test_a_pattern_of_the_catalog_procedures_has_brackets_and_no_escape(database: Database) -> None:
    """A backslash is a letter; drivers put wildcards that are meant literally into brackets.

    Source: Debezium, tables with special names, as mssql-jdbc asks for their columns; Microsoft, "sp_columns (Transact-SQL)".
    """
    database.run(r"CREATE SCHEMA [s_\%]]/]")
    database.run(r"CREATE TABLE [s_\%]]/].[P_\%]]/] (n int NOT NULL)")
    database.run("CREATE TABLE dbo.Px (n int NOT NULL)")
    asked = COLUMNS_OF.format(table=r"N'P[_]\[%]]/'", owner=r"N's[_]\[%]]/'")
    assert [row[3] for row in database.rows(asked)] == ["n"]
    assert database.rows(COLUMNS_OF.format(table="N'P[_]'", owner="N'dbo'")) == []
    assert [row[2] for row in database.rows(COLUMNS_OF.format(table="N'P_'", owner="N'dbo'"))] == ["Px"]


@item(88, "documented")
@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("CREATE TABLE dbo.u (n int REFERENCES dbo.t (n) ON DELETE CASCADE)", "ON DELETE CASCADE"),
        ("CREATE SEQUENCE dbo.s AS int START WITH 1", "CREATE SEQUENCE"),
        ("CREATE SYNONYM dbo.s FOR dbo.t", "CREATE SYNONYM"),
        ("CREATE TYPE dbo.k FROM int", "CREATE TYPE"),
        ("SELECT n FROM dbo.t FOR JSON PATH", "FOR"),
        ("SELECT n FROM dbo.t FOR XML PATH", "FOR"),
        ("SELECT JSON_VALUE(N'{}', '$.a')", "JSON_VALUE"),
        ("SELECT FORMAT(1, 'N')", "FORMAT"),
        ("SELECT PARSE('1' AS int)", "PARSE"),
        ("SELECT FILEPROPERTY(N'nowhere', N'SpaceUsed')", "FILEPROPERTY"),
        ("EXEC sp_help N'dbo.t'", "sp_help"),
        ("EXEC sp_who", "sp_who"),
        ("EXEC sp_helptrigger N'dbo.t'", "sp_helptrigger"),
        ("EXEC sp_helplanguage", "sp_helplanguage"),
        ("EXEC sp_helpsort", "sp_helpsort"),
        ("EXEC sp_validname N'x'", "sp_validname"),
        ("SELECT DATABASEPROPERTY(N'master', N'IsReadOnly')", "DATABASEPROPERTY"),
        ("SELECT traceid FROM sys.fn_trace_getinfo(0)", "fn_trace_getinfo"),
        ("SELECT NodeName FROM sys.fn_virtualservernodes()", "fn_virtualservernodes"),
        ("DECLARE c CURSOR LOCAL FOR SELECT n FROM dbo.t", "CURSOR"),
        ("SELECT session_id FROM sys.dm_tran_session_transactions", "sys.dm_tran_session_transactions"),
        ("DECLARE @v sql_variant", "sql_variant"),
        (TEMPORAL, "GENERATED"),
    ],
    ids=lambda value: None if " " in value else value,
)
def test_what_is_not_there_is_refused_by_its_name(table: Database, sql: str, name: str) -> None:
    """A real server answers; the emulator says 50001 and what it does not have, and no error that sends a client astray.

    Source: Microsoft, "Transact-SQL reference (Database Engine)".
    """
    if table.server.real:
        table.run(sql)
        return
    error = table.error(sql)
    assert error.number == 50001
    assert name in error.text


@item(88, "documented")
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO dbo.w VALUES (1, 'a')",
        "UPDATE dbo.w SET v = 'b'",
        "UPDATE x SET v = 'b' FROM dbo.w AS x",
        "DELETE FROM dbo.w",
        "DELETE x FROM dbo.w AS x",
    ],
)
def test_a_change_through_a_view_is_refused_by_its_name(table: Database, sql: str) -> None:
    """And not as one of a table that is not there.

    Source: Microsoft, "CREATE VIEW (Transact-SQL)", updatable views.
    """
    table.run("EXEC (N'CREATE VIEW dbo.w AS SELECT n, v FROM dbo.t')")
    if table.server.real:
        table.run(sql)
        return
    error = table.error(sql)
    assert error.number == 50001
    assert "through a view" in error.text
