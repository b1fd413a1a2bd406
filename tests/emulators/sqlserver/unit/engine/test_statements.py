"""DDL, DML and queries through Session.batch."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Info, LoginRequest, ResultSet, SqlError
from emulators.sqlserver.sqltypes import SqlType

from .conftest import Client

PERSONS = "CREATE TABLE dbo.Persons (ID int NOT NULL CONSTRAINT PK_Persons PRIMARY KEY, Name nvarchar(20) NULL)"


@pytest.fixture
def persons(client: Client) -> Client:
    client.run(PERSONS)
    client.run("INSERT INTO dbo.Persons VALUES (1, N'Ann'), (2, N'Bob'), (3, NULL)")
    return client


def test_statements_need_no_semicolons(persons: Client) -> None:
    batch = "DELETE FROM Persons WHERE ID = 1 UPDATE Persons SET Name = N'x' WHERE ID > 1 SELECT COUNT(*) FROM Persons"
    assert persons.counts(batch) == [1, 2]


def test_keys_may_shift_over_several_rows_in_one_update(persons: Client) -> None:
    assert persons.counts("UPDATE Persons SET ID = ID + 1") == [3]
    assert persons.rows("SELECT ID FROM Persons ORDER BY ID") == [(2,), (3,), (4,)]


def test_a_duplicate_key_names_constraint_table_and_value(persons: Client) -> None:
    number, text = persons.error("INSERT INTO Persons VALUES (9, N'z'), (2, N'y')")
    assert number == 2627
    assert text == (
        "Violation of PRIMARY KEY constraint 'PK_Persons'. Cannot insert duplicate key in object 'dbo.Persons'. "
        "The duplicate key value is (2)."
    )
    assert persons.value("SELECT COUNT(*) FROM Persons") == 3


def test_a_failed_statement_leaves_the_transaction_open(persons: Client) -> None:
    persons.run("BEGIN TRAN INSERT INTO Persons VALUES (10, N'kept')")
    assert persons.error("INSERT INTO Persons VALUES (10, N'again')")[0] == 2627
    persons.run("COMMIT")
    assert persons.rows("SELECT Name FROM Persons WHERE ID = 10") == [("kept",)]


def test_xact_abort_rolls_everything_back(persons: Client) -> None:
    with pytest.raises(SqlError, match="duplicate"):
        persons.events("SET XACT_ABORT ON BEGIN TRAN INSERT Persons VALUES (10, N'x') INSERT Persons VALUES (10, N'x')")
    assert persons.rows("SELECT @@TRANCOUNT, COUNT(*) FROM Persons") == [(0, 3)]


def test_one_null_is_enough_for_a_unique_column(persons: Client) -> None:
    persons.run("CREATE UNIQUE INDEX ux ON Persons (Name)")
    number, text = persons.error("INSERT INTO Persons VALUES (4, NULL)")
    assert (number, "unique index 'ux'" in text, "(<NULL>)" in text) == (2601, True, True)


def test_strings_compare_without_case_and_trailing_spaces(persons: Client) -> None:
    assert persons.rows("SELECT id FROM PERSONS WHERE name = N'ANN  '") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("SELECT nope FROM Persons", 207),
        ("SELECT * FROM nope", 208),
        ("SELECT x.ID FROM Persons", 4104),
        ("SELECT ID FROM Persons a JOIN Persons b ON a.ID = b.ID", 209),
        ("SELECT 1/0", 8134),
        ("SELECT CAST('x' AS int)", 245),
        ("SELECT CAST('x' AS decimal(5,2))", 8114),
        ("SELECT CAST('x' AS date)", 241),
        ("SELECT 2147483647 + 1", 8115),
        ("INSERT INTO Persons (Name) VALUES (N'x')", 515),
        ("INSERT INTO Persons VALUES (4, N'123456789012345678901')", 2628),
        ("INSERT INTO Persons VALUES (4)", 213),
        ("CREATE TABLE Persons (a int)", 2714),
        ("DROP TABLE nope", 3701),
        ("COMMIT", 3902),
        ("ROLLBACK", 3903),
        ("EXEC nope", 2812),
        ("USE nope", 911),
        ("SELECT * FROM Persons LIMIT 2", 102),
        ("SELECT * FORM Persons", 102),
        ("INSERT INTO Persons VALUES (1 2, NULL)", 102),
        ("SELECT FROM Persons", 156),
        ("SELECT @x", 137),
        ("SELECT Name, COUNT(*) FROM Persons GROUP BY ID", 8120),
        ("SELECT (SELECT ID FROM Persons)", 512),
        ("SELECT BINARY_CHECKSUM(1)", 50001),
        ("SELECT ID::int FROM Persons", 50001),
        ("SELECT ID FROM Persons WHERE Name ILIKE 'x'", 50001),
        ("SET TRANSACTION ISOLATION LEVEL SNAPSHOT SELECT * FROM Persons", 3952),
    ],
)
def test_errors_have_microsofts_numbers(persons: Client, sql: str, number: int) -> None:
    assert persons.error(sql)[0] == number


def test_identity_is_given_and_explicit_values_need_the_option(client: Client) -> None:
    client.run("CREATE TABLE t (id int IDENTITY(10, 5) PRIMARY KEY, v int)")
    client.run("INSERT INTO t (v) VALUES (1), (2)")
    assert client.rows("SELECT id FROM t ORDER BY id") == [(10,), (15,)]
    assert client.value("SELECT SCOPE_IDENTITY()") == "15"
    assert client.error("INSERT INTO t (id, v) VALUES (99, 3)")[0] == 544
    client.run("SET IDENTITY_INSERT t ON INSERT INTO t (id, v) VALUES (100, 3) SET IDENTITY_INSERT t OFF")
    client.run("INSERT INTO t (v) VALUES (4)")
    assert client.value("SELECT MAX(id) FROM t") == 105


def test_rowversion_grows_with_every_change(client: Client) -> None:
    client.run("CREATE TABLE t (id int PRIMARY KEY, rv rowversion) INSERT INTO t (id) VALUES (1), (2)")
    before = client.rows("SELECT rv FROM t ORDER BY id")
    client.run("UPDATE t SET id = 1 WHERE id = 1")
    after = client.rows("SELECT rv FROM t ORDER BY id")
    assert before[0] < before[1] < after[0]


def test_defaults_fill_what_an_insert_leaves_out(client: Client) -> None:
    client.run("CREATE TABLE t (id int, at datetime NOT NULL DEFAULT GETDATE(), n int DEFAULT (7))")
    client.run("INSERT INTO t (id) VALUES (1) INSERT INTO t DEFAULT VALUES INSERT INTO t VALUES (2, DEFAULT, NULL)")
    assert client.rows("SELECT id, at, n FROM t ORDER BY id") == [
        (None, "2024-05-06 07:08:09.123", 7),
        (1, "2024-05-06 07:08:09.123", 7),
        (2, "2024-05-06 07:08:09.123", None),
    ]


def test_update_from_and_delete_from_find_their_target_by_alias(persons: Client) -> None:
    persons.run("CREATE TABLE o (PersonID int, Total decimal(9,2)) INSERT INTO o VALUES (1, 5), (1, 6), (2, 7)")
    assert persons.counts(
        "UPDATE x SET x.Total = 0 FROM o x JOIN Persons p ON p.ID = x.PersonID WHERE p.Name = N'ann'"
    ) == [2]
    assert persons.counts("DELETE x FROM o x JOIN Persons p ON p.ID = x.PersonID WHERE p.Name = N'bob'") == [1]
    assert persons.rows("SELECT Total FROM o") == [("0.00",), ("0.00",)]


def test_delete_top_and_output(persons: Client) -> None:
    events = persons.events("DELETE TOP (1) FROM Persons OUTPUT deleted.ID WHERE ID > 1")
    assert isinstance(events[0], ResultSet)
    assert list(events[0].rows) == [(2,)]


def test_alter_table_adds_changes_and_drops_columns(persons: Client) -> None:
    persons.run("ALTER TABLE Persons ADD Age int NOT NULL CONSTRAINT five DEFAULT 5, Note varchar(10) NULL")
    assert persons.rows("SELECT * FROM Persons WHERE ID = 1") == [(1, "Ann", 5, None)]
    assert persons.error("ALTER TABLE Persons ALTER COLUMN Age decimal(9,2) NOT NULL")[0] == 5074
    persons.run(
        "ALTER TABLE Persons DROP CONSTRAINT five ALTER TABLE Persons ALTER COLUMN Age decimal(9,2) NOT NULL ALTER TABLE Persons DROP COLUMN Note"
    )
    assert persons.rows("SELECT * FROM Persons WHERE ID = 1") == [(1, "Ann", "5.00")]
    assert persons.error("ALTER TABLE Persons ADD Missing int NOT NULL")[0] == 4901


def test_ddl_rolls_back_with_its_transaction(client: Client) -> None:
    client.run("BEGIN TRAN CREATE TABLE t (a int) INSERT t VALUES (1) ROLLBACK")
    assert client.value("SELECT OBJECT_ID(N't')") is None


def test_control_flow_runs_as_written(client: Client) -> None:
    events = client.events(
        "DECLARE @i int = 0 WHILE 1 = 1 BEGIN SET @i += 1 IF @i = 2 CONTINUE IF @i > 3 BREAK PRINT @i END "
        "IF EXISTS (SELECT 1 FROM sys.tables) PRINT 'tables' ELSE BEGIN PRINT 'none' END"
    )
    assert [event.message for event in events if isinstance(event, Info)] == ["1", "3", "none"]


def test_try_catch_sees_the_error_and_throw_raises_it_again(client: Client) -> None:
    with pytest.raises(SqlError) as caught:
        client.events("BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH IF ERROR_NUMBER() = 8134 THROW; END CATCH")
    assert caught.value.number == 8134
    assert client.rows("BEGIN TRY RAISERROR('boom', 16, 1) END TRY BEGIN CATCH SELECT ERROR_MESSAGE() END CATCH") == [
        ("boom",)
    ]


def test_wrong_password_and_unknown_database_are_refused(engine: SqlEngine) -> None:
    with pytest.raises(SqlError) as wrong:
        engine.login(LoginRequest("sa", "no"))
    with pytest.raises(SqlError) as unknown:
        engine.login(LoginRequest("SA", "secret", "nope"))
    assert (wrong.value.number, unknown.value.number) == (18456, 4060)


def test_result_columns_have_tsql_types_and_empty_names(client: Client) -> None:
    event = client.events("SELECT 1, N'ab', 'abc' AS s, 1.50, 0x0102, NULL, COUNT(*), CAST(1 AS money), 1 / 2")[0]
    assert isinstance(event, ResultSet)
    assert [(column.name, column.type) for column in event.columns] == [
        ("", SqlType("int")),
        ("", SqlType("nvarchar", 2)),
        ("s", SqlType("varchar", 3)),
        ("", SqlType("numeric", None, 3, 2)),
        ("", SqlType("varbinary", 2)),
        ("", SqlType("int")),
        ("", SqlType("int")),
        ("", SqlType("money")),
        ("", SqlType("int")),
    ]
    assert list(event.rows) == [(1, "ab", "abc", "1.50", b"\1\2", None, 1, "1.0000", 0)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("10 / 4.0", "2.500000"),
        ("CAST('2018-07-13T13:23:45.782' AS datetime)", "2018-07-13 13:23:45.783"),
        ("CAST('2018-07-13 12:35:29.999' AS smalldatetime)", "2018-07-13 12:36:00"),
        ("CAST('2018-12-31 23:59:59.96' AS datetime2(1))", "2019-01-01 00:00:00.0"),
        ("CONVERT(varchar(22), 0x0000002C000001B80003, 1)", "0x0000002C000001B80003"),
        ("CONVERT(varbinary(10), '0x0102', 1)", b"\1\2"),
        ("CONVERT(varchar(33), CAST('2018-07-13 13:23:45.780' AS datetime), 126)", "2018-07-13T13:23:45.780"),
        ("CONVERT(varchar(41), CAST(922337203685477.5807 AS money), 2)", "922337203685477.5807"),
        ("CONVERT(varchar(30), CAST(1234567.891 AS money), 1)", "1,234,567.89"),
        ("CONVERT(varchar(34), CAST('2018-07-13' AS datetime2(7)), 121)", "2018-07-13 00:00:00.0000000"),
        (
            "CONVERT(varchar(33), CAST('2018-07-13T13:23:45.780' AS datetime) AT TIME ZONE 'UTC', 126)",
            "2018-07-13T13:23:45.780+00:00",
        ),
        ("LEN(N'ab  ')", 2),
        ("DATALENGTH(N'ab  ')", 8),
        ("SUBSTRING('hello', 2, 3)", "ell"),
        ("ISNULL(NULL, 5)", 5),
        ("COALESCE(NULL, 'x')", "x"),
        ("N'a' + NULL", None),
        ("CASE WHEN 0x00 = 0x0000 THEN 1 ELSE 0 END", 1),
        ("CASE WHEN 'abc' LIKE '[a-b]_C%' THEN 1 ELSE 0 END", 1),
        ("CASE WHEN CAST('10.50' AS decimal(9,2)) = 10.5 THEN 1 ELSE 0 END", 1),
        ("DATEDIFF(month, '2018-01-31', '2018-02-01')", 1),
        ("DATEADD(month, 1, CAST('2018-01-31' AS date))", "2018-02-28"),
        ("GETDATE()", "2024-05-06 07:08:09.123"),
        ("SYSDATETIMEOFFSET()", "2024-05-06 07:08:09.1234560 +00:00"),
        ("QUOTENAME('a]b')", "[a]]b]"),
        ("DB_NAME()", "demo"),
        ("TRY_CAST('x' AS int)", None),
        ("CAST(0.1 AS real)", 0.10000000149011612),
    ],
)
def test_expressions(client: Client, expression: str, expected: object) -> None:
    assert client.value(f"SELECT {expression}") == expected


def test_queries_with_joins_groups_sets_and_pages(persons: Client) -> None:
    assert persons.rows(
        "SELECT a.ID, b.Name FROM Persons a LEFT JOIN Persons b ON b.ID = a.ID + 1 ORDER BY a.ID DESC"
    ) == [
        (3, None),
        (2, None),
        (1, "Bob"),
    ]
    assert persons.rows("SELECT COUNT(*), SUM(ID), MIN(Name), MAX(Name) FROM Persons") == [(3, 6, "Ann", "Bob")]
    assert persons.rows("SELECT ID FROM Persons ORDER BY ID OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY") == [(2,)]
    assert persons.rows("WITH x AS (SELECT TOP (2) ID FROM Persons ORDER BY ID DESC) SELECT MIN(ID) FROM x") == [(2,)]


def test_exact_digits_survive_sums_and_order(client: Client) -> None:
    client.run(
        "CREATE TABLE t (v decimal(38,10)) INSERT t VALUES (9.5), (10.25), (1234567890123456789012345678.0123456789)"
    )
    assert client.rows("SELECT SUM(v), MIN(v), MAX(v) FROM t") == [
        ("1234567890123456789012345697.7623456789", "9.5000000000", "1234567890123456789012345678.0123456789")
    ]
    assert client.rows("SELECT v FROM t WHERE v > 9.6 ORDER BY v") == [
        ("10.2500000000",),
        ("1234567890123456789012345678.0123456789",),
    ]


def test_a_thousand_rows_of_values_and_not_one_more(client: Client) -> None:
    client.run("CREATE TABLE t (a int)")
    values = ", ".join(f"({i})" for i in range(1000))
    assert client.counts(f"INSERT INTO t VALUES {values}") == [1000]
    assert client.error(f"INSERT INTO t VALUES {values}, (1)")[0] == 10738


def test_a_join_hint_changes_no_answer_and_needs_the_word_inner(persons: Client) -> None:
    """https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-join"""
    query = "SELECT a.ID FROM Persons AS a INNER HASH JOIN Persons AS b ON a.ID = b.ID WHERE b.Name = N'Bob'"
    assert persons.rows(query) == [(2,)]
    assert persons.error("SELECT a.ID FROM Persons AS a HASH JOIN Persons AS b ON a.ID = b.ID")[0] == 102


def test_output_ends_where_the_next_statement_begins(client: Client) -> None:
    client.run("CREATE TABLE o (id int) INSERT o VALUES (1)")
    assert client.results("UPDATE o SET id = 2 OUTPUT deleted.id, inserted.id SELECT 5") == [[(1, 2)], [(5,)]]
    assert client.results("IF 1 = 1 BEGIN DELETE o OUTPUT deleted.id END SELECT 6") == [[(2,)], [(6,)]]
