"""Splitting batches, lifting literals, implied bounds."""

from __future__ import annotations

import pytest

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.planning import bounds
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.batch import parse_batch
from emulators.sqlserver.tsql.reading.definitions import CreateTable
from emulators.sqlserver.tsql.reading.trees import parse_query


def kinds(sql: str) -> list[str]:
    return [type(statement).__name__ for statement in parse_batch(sql)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1 SELECT 2", ["Select", "Select"]),
        (
            "BEGIN TRAN INSERT t VALUES (1) UPDATE t SET a = 1 COMMIT TRAN",
            ["BeginTransaction", "Insert", "Update", "CommitTransaction"],
        ),
        ("SELECT CASE WHEN a = 1 THEN 2 ELSE 3 END FROM t WITH (NOLOCK) DELETE t", ["Select", "Delete"]),
        ("SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3 SELECT 4", ["Select", "Select"]),
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a SELECT 2", ["Select", "Select"]),
        ("INSERT t SELECT a FROM u INSERT t DEFAULT VALUES", ["Insert", "Insert"]),
        ("EXEC a EXEC b 1, @x = N'y'", ["Execute", "Execute"]),
        ("sp_who", ["Execute"]),
        ("IF @@TRANCOUNT > 0 ROLLBACK TRAN", ["If"]),
        ("SET ARITHABORT ON;SET TEXTSIZE 2147483647;use [db]", ["SetOption", "SetOption", "Use"]),
        ("/* a /* b */ c */ PRINT 'x' -- SELECT", ["Print"]),
        ("SELECT a FROM t ORDER BY a OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY PRINT 1", ["Select", "Print"]),
        ("", []),
    ],
)
def test_statements_end_where_the_next_one_begins(sql: str, expected: list[str]) -> None:
    assert kinds(sql) == expected


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("BEGIN SELECT 1", 102),
        ("END", 156),
        ("SELECT 'x", 105),
        ("/* x", 113),
        ("UPDATE t SET", 102),
        ("SELECT 1 GO_ON SELECT 2 FROM WHERE", 156),
        ("MERGE t USING u ON 1 = 1 WHEN MATCHED THEN DELETE", 10713),
        ("CREATE TRIGGER r ON t AFTER INSERT AS SELECT 1", 111),
    ],
)
def test_what_is_wrong_is_refused_before_anything_runs(sql: str, number: int) -> None:
    with pytest.raises(SqlError) as refused:
        parse_batch("SELECT 1 " + sql if number != 156 else sql)
    assert refused.value.number == number


@pytest.mark.parametrize(
    "sql",
    [
        "GOTO x",
        "DECLARE @t CURSOR",
        "DECLARE c SCROLL CURSOR FOR SELECT 1 UNION ALL SELECT 2 FOR UPDATE OF a",
        "FETCH NEXT FROM c INTO @a, @b",
        "CREATE TABLE t (a int REFERENCES u (a) ON DELETE CASCADE ON UPDATE SET NULL, b int)",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (a) ON UPDATE SET DEFAULT ON DELETE CASCADE",
        "ALTER TABLE t SET (SYSTEM_VERSIONING = OFF)",
        "ALTER DATABASE d MODIFY FILE (NAME = x, SIZE = 5MB)",
        "BULK INSERT t FROM 'x' WITH (FIRSTROW = 2)",
        "INSERT TOP (1) INTO t (a) VALUES (1)",
        "UPDATE t SET @a = b = CASE WHEN 1 = 1 THEN 2 END WHERE c = 3",
        "MERGE TOP (1) INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED THEN INSERT (a) VALUES (1);",
        "DROP SYNONYM IF EXISTS s",
        "SELECT a FROM OPENJSON('[]') WITH (a int '$.a')",
        "SELECT a FROM t WHERE CONTAINS(a, 'x')",
        "IF EXISTS (SELECT 1 FROM t WHERE FREETEXT(a, 'x')) SELECT 1 ELSE SELECT 2",
        "WHILE CONTAINS(a, 'x') BREAK",
        "BEGIN DISTRIBUTED TRANSACTION x",
        "DECLARE @v sql_variant",
        "WAITFOR (RECEIVE TOP (1) * FROM q), TIMEOUT 5",
        "EXECUTE AS USER = 'x'",
        "OPEN SYMMETRIC KEY k DECRYPTION BY CERTIFICATE c",
    ],
)
def test_what_is_not_supported_is_one_statement_that_fails_when_it_is_reached(sql: str) -> None:
    assert kinds(f"PRINT 'x' {sql} PRINT 'y'") == ["Print", "Refused", "Print"]
    (branch,) = parse_batch(f"IF 1 = 0 BEGIN {sql} END ELSE PRINT 'x'")
    assert isinstance(branch, st.If)
    assert isinstance(branch.then, st.Block)
    assert [type(inner) for inner in branch.then.body] == [st.Refused]


def test_a_module_takes_the_rest_of_its_batch_and_a_label_nothing() -> None:
    assert kinds("CREATE PROCEDURE p AS SELECT 1 SELECT 2") == ["Refused"]
    assert kinds("SELECT 1 again: SELECT 2") == ["Select", "Block", "Select"]


def test_statements_that_differ_in_compared_values_share_their_text() -> None:
    first, second = (
        parse_batch(f"SELECT a FROM t WHERE b = N'{value}' AND c > {n}")[0] for value, n in (("x", 1), ("yy", 20))
    )
    assert isinstance(first, st.Select)
    assert isinstance(second, st.Select)
    assert first.query.text == second.query.text
    assert [value for _, value in second.query.lifted] == ["yy", 20]


def test_literals_whose_type_shows_stay_in_place() -> None:
    select = parse_batch("SELECT TOP (5) N'abc', CONVERT(varchar(33), a, 126) FROM t")[0]
    assert isinstance(select, st.Select)
    assert select.query.lifted == ()


def test_a_page_by_position_gets_its_lower_bound() -> None:
    sql = "SELECT a FROM t WHERE (a > @x OR (a = @x AND (b > 1 OR (b = 1 AND c > 2)))) AND a <= @y"
    where = parse_query(sql).args["where"].this
    assert [bound.sql(dialect="tsql") for bound in bounds.implied(where)] == ["a >= @x"]


def test_no_bound_is_made_up_where_a_branch_lacks_it() -> None:
    where = parse_query("SELECT a FROM t WHERE a > @x OR b = 1").args["where"].this
    assert bounds.implied(where) == []


def test_create_table_keeps_names_keys_and_defaults() -> None:
    table = parse_batch(
        "CREATE TABLE [dbo].[P]([ID] [int] IDENTITY(1,1) NOT NULL, [N] [varchar](100) NULL DEFAULT ('x'), "
        "CONSTRAINT PK_P PRIMARY KEY CLUSTERED ([ID] ASC) WITH (PAD_INDEX = OFF) ON [PRIMARY]) ON [PRIMARY]"
    )[0]
    assert isinstance(table, CreateTable)
    assert table.table == ("dbo", "P")
    assert [(column.name, column.type.name, column.nullable, column.identity) for column in table.columns] == [
        ("ID", "int", False, (1, 1)),
        ("N", "varchar", True, None),
    ]
    assert [(key.name, key.columns, key.primary) for key in table.keys] == [("PK_P", ("ID",), True)]
