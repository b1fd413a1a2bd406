"""Collations of servers, databases, columns and expressions, and what they decide: comparisons, names, keys, the catalog.

Sources: https://learn.microsoft.com/sql/relational-databases/collations/collation-and-unicode-support and
https://learn.microsoft.com/sql/t-sql/statements/collation-precedence-transact-sql
"""

from __future__ import annotations

import pytest

from tests.emulators.sqlserver.unit.engine.conftest import Client

CI, CS, BIN2 = "Latin1_General_CI_AS", "Latin1_General_CS_AS", "Latin1_General_BIN2"
SERVER = "SQL_Latin1_General_CP1_CI_AS"


def database(client: Client, collation: str) -> None:
    client.run(f"CREATE DATABASE other COLLATE {collation}")
    client.run("USE other")


def truth(client: Client, condition: str) -> bool:
    return client.value(f"SELECT CASE WHEN {condition} THEN 1 ELSE 0 END") == 1


# -- names of collations


@pytest.mark.parametrize(
    "name", ["Latin1_General_CI", "Klingon_CI_AS", "Latin1_General_140_CI_AS", "nonsense", "Greek_BIN_SC"]
)
def test_a_collation_that_does_not_exist_is_error_448(client: Client, name: str) -> None:
    assert client.error(f"CREATE DATABASE other COLLATE {name}") == (448, f"Invalid collation '{name}'.")
    assert client.error(f"CREATE TABLE t (a varchar(9) COLLATE {name})")[0] == 448
    assert client.error(f"SELECT 'a' COLLATE {name}")[0] == 448


def test_a_collation_of_what_is_no_text_is_error_447(client: Client) -> None:
    assert client.error(f"SELECT 1 COLLATE {CI}") == (447, "Expression type int is invalid for COLLATE clause.")
    assert client.error(f"CREATE TABLE t (a int COLLATE {CI})")[0] == 447


def test_collations_have_properties(client: Client) -> None:
    def of(name: str) -> tuple[object, ...]:
        parts = "CodePage", "LCID", "ComparisonStyle", "Version"
        return client.rows("SELECT " + ", ".join(f"COLLATIONPROPERTY('{name}', '{part}')" for part in parts))[0]

    assert of(SERVER) == (1252, 1033, 196609, 0)
    assert of("Turkish_100_CI_AI") == (1254, 1055, 196611, 2)
    assert of(BIN2) == (1252, 1033, 0, 0)
    assert of("Japanese_XJIS_140_CI_AS_UTF8") == (65001, 1041, 196609, 3)
    assert of("nonsense") == (None, None, None, None)


def test_the_collations_are_listed_with_what_they_heed(client: Client) -> None:
    listed = {str(row[0]): row[1] for row in client.rows("SELECT name, description FROM sys.fn_helpcollations()")}
    assert len(listed) > 3000
    assert (
        listed["Latin1_General_CI_AS"]
        == "Latin1-General, case-insensitive, accent-sensitive, kanatype-insensitive, width-insensitive"
    )
    assert listed["Latin1_General_BIN2"] == "Latin1-General, binary code point comparison sort"
    assert "SQL Server Sort Order 52 on Code Page 1252" in str(listed[SERVER])


# -- comparison


@pytest.mark.parametrize(
    ("collation", "pair", "equal"),
    [
        (CI, ("a", "A"), True),
        (CS, ("a", "A"), False),
        (BIN2, ("a", "A"), False),
        (BIN2, ("a", "a  "), True),
        (CS, ("a", "a  "), True),
        (CI, ("resume", "résumé"), False),
        ("Latin1_General_CI_AI", ("resume", "RÉSUMÉ"), True),
        ("Latin1_General_CS_AI", ("resume", "RESUME"), False),
        ("Latin1_General_CS_AI", ("resume", "résumé"), True),
        (CI, ("か", "カ"), True),
        ("Latin1_General_CI_AS_KS", ("か", "カ"), False),
        (CI, ("A", "Ａ"), True),
        ("Latin1_General_CI_AS_WS", ("A", "Ａ"), False),
        ("Turkish_CI_AS", ("i", "I"), False),
        ("Turkish_CI_AS", ("i", "İ"), True),
        ("Turkish_CI_AS", ("ı", "I"), True),
        ("Turkish_CS_AS", ("i", "İ"), False),
        (CI, ("ı", "i"), False),
    ],
)
def test_equality_heeds_what_the_collation_says(
    client: Client, collation: str, pair: tuple[str, str], equal: bool
) -> None:
    left, right = pair
    assert truth(client, f"N'{left}' COLLATE {collation} = N'{right}'") is equal
    assert truth(client, f"N'{left}' <> N'{right}' COLLATE {collation}") is not equal
    assert truth(client, f"N'{left}' COLLATE {collation} IN (N'x', N'{right}')") is equal
    client.run(f"CREATE TABLE t (a nvarchar(20) COLLATE {collation})")
    client.run(f"INSERT INTO t VALUES (N'{left}'), (N'{right}')")
    groups = 1 if equal else 2
    assert client.value(f"SELECT count(*) FROM t WHERE a = N'{right}'") == (2 if equal else 1)
    assert len(client.rows("SELECT DISTINCT a FROM t")) == groups
    assert len(client.rows("SELECT count(*) FROM t GROUP BY a")) == groups
    assert len(client.rows("SELECT a FROM t UNION SELECT a FROM t")) == groups
    assert client.value("SELECT count(DISTINCT a) FROM t") == groups
    assert client.value("SELECT count(*) FROM t AS x JOIN t AS y ON x.a = y.a") == (4 if equal else 2)
    assert client.value(f"SELECT count(*) FROM t WHERE a IN (SELECT N'{left}')") == (2 if equal else 1)


@pytest.mark.parametrize(
    ("collation", "order"),
    [
        (CI, "aAbBéz"),
        (CS, "aAbBéz"),
        (BIN2, "ABabzé"),
        ("Latin1_General_BIN", "ABabzé"),
    ],
)
def test_order_by_sorts_as_the_collation_does(client: Client, collation: str, order: str) -> None:
    client.run(f"CREATE TABLE t (n int IDENTITY, a nvarchar(5) COLLATE {collation})")
    client.run("INSERT INTO t VALUES (N'z'), (N'a'), (N'A'), (N'b'), (N'B'), (N'é')")
    assert "".join(str(row[0]) for row in client.rows("SELECT a FROM t ORDER BY a, n")) == order
    assert client.rows("SELECT min(a), max(a) FROM t")[0] == (order[0], order[-1])


def test_binary_order_of_unicode_is_that_of_utf_16_and_of_varchar_that_of_its_code_page(client: Client) -> None:
    assert truth(client, f"N'\U0001f600' COLLATE {BIN2} < N'\uffee'")
    assert truth(client, f"'\u20ac' COLLATE {BIN2} < '\u00a0'")
    assert truth(client, f"N'\u20ac' COLLATE {BIN2} > N'\u00a0'")
    assert truth(client, f"N'a\t' COLLATE {BIN2} < N'a'")


def test_like_heeds_the_collation_and_trailing_spaces(client: Client) -> None:
    assert truth(client, f"'Abc' LIKE 'a%' COLLATE {CI}")
    assert not truth(client, f"'Abc' LIKE 'a%' COLLATE {CS}")
    assert not truth(client, f"'Abc' COLLATE {BIN2} LIKE 'a%'")
    assert not truth(client, f"'abc' COLLATE {BIN2} LIKE 'abc '")
    assert truth(client, "N'résumé' LIKE N'resume' COLLATE Latin1_General_CI_AI")
    assert not truth(client, f"'b' LIKE '[A-Z]' COLLATE {BIN2}")
    assert truth(client, f"'b' LIKE '[A-Z]' COLLATE {CS}")
    assert not truth(client, "N'I' LIKE N'i' COLLATE Turkish_CI_AS")


def test_functions_search_by_the_collation_of_what_they_are_given(client: Client) -> None:
    def value(sql: str) -> object:
        return client.value(f"SELECT {sql}")

    assert value(f"CHARINDEX('B', 'abc' COLLATE {CS})") == 0
    assert value(f"CHARINDEX('B', 'abc' COLLATE {CI})") == 2
    assert value(f"PATINDEX('%B%', 'abc' COLLATE {BIN2})") == 0
    assert value(f"REPLACE('aAa' COLLATE {BIN2}, 'A', '-')") == "a-a"
    assert value("REPLACE(N'aéÉ' COLLATE Latin1_General_CI_AI, N'e', N'-')") == "a--"
    assert value(f"TRANSLATE('aA' COLLATE {CS}, 'a', 'x')") == "xA"
    assert value(f"CASE 'a' COLLATE {BIN2} WHEN 'A' THEN 1 ELSE 2 END") == 2
    assert value(f"NULLIF('a' COLLATE {CS}, 'A')") == "a"
    assert value(f"GREATEST('a' COLLATE {BIN2}, 'B')") == "a"
    assert value("UPPER(N'iı' COLLATE Turkish_CI_AS)") == "İI"
    assert value("LOWER(N'Iİ' COLLATE Turkish_CI_AS)") == "ıi"
    assert value("UPPER(N'ßi')") == "ßI"
    assert value("LEN(N'\U0001f600' COLLATE Latin1_General_100_CI_AS_SC)") == 1
    assert value("LEN(N'\U0001f600')") == 2


# -- precedence


@pytest.fixture
def conflicting(client: Client) -> Client:
    client.run(
        "CREATE TABLE t (id int, g nvarchar(10) COLLATE Greek_CI_AS, l nvarchar(10) COLLATE Latin1_General_CS_AS)"
    )
    client.run("INSERT INTO t VALUES (1, N'A', N'a')")
    return client


@pytest.mark.parametrize(
    ("condition", "operation"),
    [
        ("g = l", "equal to"),
        ("g <> l", "not equal to"),
        ("g < l", "less than"),
        ("g LIKE l", "like"),
        ("g IN (l, N'z')", "equal to"),
        ("g BETWEEN l AND N'z'", "greater than or equal to"),
        ("g IN (SELECT l FROM t)", "equal to"),
        ("CHARINDEX(g, l) = 1", "charindex"),
        ("g COLLATE Greek_CI_AS = l COLLATE Latin1_General_CS_AS", "equal to"),
    ],
)
def test_two_columns_of_different_collations_do_not_compare(
    conflicting: Client, condition: str, operation: str
) -> None:
    text = f'Cannot resolve the collation conflict between "Latin1_General_CS_AS" and "Greek_CI_AS" in the {operation} operation.'
    assert conflicting.error(f"SELECT id FROM t WHERE {condition}") == (468, text)


def test_an_explicit_collation_decides_between_columns(conflicting: Client) -> None:
    assert conflicting.rows("SELECT id FROM t WHERE g = l COLLATE greek_ci_as") == [(1,)]
    assert conflicting.rows("SELECT id FROM t WHERE g = l COLLATE Latin1_General_CS_AS") == []
    assert conflicting.rows("SELECT id FROM t WHERE g COLLATE DATABASE_DEFAULT = l") == [(1,)]


def test_a_literal_takes_the_collation_of_the_column(conflicting: Client) -> None:
    assert conflicting.rows("SELECT id FROM t WHERE l = N'A'") == []
    assert conflicting.rows("SELECT id FROM t WHERE N'a' = g") == [(1,)]
    assert conflicting.rows("SELECT id FROM t WHERE UPPER(l) = N'A'") == [(1,)]
    assert conflicting.rows("SELECT id FROM t WHERE CAST(l AS varchar(3)) = N'A'") == []
    assert conflicting.rows("SELECT id FROM t WHERE N'x' + l = N'XA'") == []
    assert conflicting.rows("DECLARE @a nvarchar(3) = N'A' SELECT id FROM t WHERE l = @a") == []


def test_what_is_made_of_both_has_no_collation(conflicting: Client) -> None:
    case = "CASE WHEN id > 10 THEN g ELSE l END"
    number, text = conflicting.error(f"SELECT {case} FROM t")
    assert number == 451
    assert text.endswith("in CASE operator occurring in SELECT statement column 1.")
    assert conflicting.error("SELECT g + l FROM t")[0] == 451
    assert conflicting.error("SELECT CAST(g AS varchar(3)) + CAST(l AS varchar(3)) FROM t")[0] == 457
    assert conflicting.error(f"SELECT id FROM t WHERE {case} = N'a'")[0] == 446
    assert conflicting.rows(f"SELECT ({case}) COLLATE Latin1_General_CI_AS FROM t") == [("a",)]
    assert conflicting.rows(f"SELECT id FROM t WHERE {case} IS NULL") == []
    assert conflicting.rows("SELECT ISNULL(g, l) FROM t") == [("A",)]
    assert conflicting.error("SELECT g FROM t UNION SELECT l FROM t")[0] == 468


def test_a_second_collate_clause_on_an_expression_is_refused(client: Client) -> None:
    assert client.error("SELECT ('abc' COLLATE French_CI_AS) COLLATE French_CS_AS")[0] == 449


# -- columns, keys, constraints


def test_a_key_tells_case_apart_where_its_collation_does(client: Client) -> None:
    client.run(f"CREATE TABLE ci (a varchar(9) PRIMARY KEY); CREATE TABLE cs (a varchar(9) COLLATE {CS} PRIMARY KEY)")
    client.run(f"CREATE TABLE u (a varchar(9) COLLATE {BIN2} UNIQUE)")
    for table in ("cs", "u"):
        client.run(f"INSERT INTO {table} VALUES ('a'), ('A')")
        assert client.error(f"INSERT INTO {table} VALUES ('a ')")[0] == 2627
    assert client.error("INSERT INTO ci VALUES ('a'), ('A')")[0] == 2627


def test_altering_a_column_gives_it_another_collation(client: Client) -> None:
    client.run("CREATE TABLE t (id int, a varchar(9)); INSERT INTO t VALUES (1, 'a'), (2, 'A')")
    client.run(f"ALTER TABLE t ALTER COLUMN a varchar(9) COLLATE {BIN2}")
    assert client.rows("SELECT id FROM t WHERE a = 'A'") == [(2,)]
    client.run(f"ALTER TABLE t ADD b nvarchar(9) COLLATE {CS}")
    assert client.rows("SELECT name, collation_name FROM sys.columns WHERE object_id = OBJECT_ID('t')") == [
        ("id", None),
        ("a", BIN2),
        ("b", CS),
    ]
    client.run("ALTER TABLE t ALTER COLUMN a varchar(9)")
    assert client.value("SELECT collation_name FROM sys.columns WHERE name = 'a'") == SERVER


def test_a_column_of_a_key_keeps_its_collation(client: Client) -> None:
    client.run("CREATE TABLE t (a varchar(9) NOT NULL PRIMARY KEY)")
    assert client.error(f"ALTER TABLE t ALTER COLUMN a varchar(9) COLLATE {BIN2} NOT NULL")[0] == 5074


def test_check_foreign_key_and_merge_heed_the_columns_collation(client: Client) -> None:
    client.run(f"CREATE TABLE p (a varchar(9) COLLATE {CS} PRIMARY KEY)")
    client.run(
        f"CREATE TABLE c (a varchar(9) COLLATE {CS} REFERENCES p, b varchar(9) COLLATE {CS} CHECK (b IN ('x', 'y')))"
    )
    client.run("INSERT INTO p VALUES ('k')")
    client.run("INSERT INTO c VALUES ('k', 'x')")
    assert client.error("INSERT INTO c VALUES ('K', 'x')")[0] == 547
    assert client.error("INSERT INTO c VALUES ('k', 'X')")[0] == 547
    assert client.error("CREATE TABLE d (a varchar(9) REFERENCES p)")[0] == 1757
    client.run("MERGE p AS t USING (SELECT 'K' AS a) AS s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a);")
    assert client.rows("SELECT a FROM p ORDER BY a") == [("k",), ("K",)]


def test_select_into_keeps_collations(client: Client) -> None:
    client.run(f"CREATE TABLE t (a varchar(9) COLLATE {BIN2}, b varchar(9))")
    client.run(f"SELECT a, b, b COLLATE {CS} AS c, 'x' AS d INTO u FROM t")
    listed = client.rows(
        "SELECT COLLATION_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'u' ORDER BY ORDINAL_POSITION"
    )
    assert [row[0] for row in listed] == [BIN2, SERVER, CS, SERVER]


# -- databases


def test_a_binary_database_decides_for_its_columns_literals_and_variables(client: Client) -> None:
    database(client, "latin1_general_bin2")
    client.run("CREATE TABLE t (a varchar(9), b varchar(9) COLLATE SQL_Latin1_General_CP1_CI_AS)")
    client.run("INSERT INTO t VALUES ('a', 'a')")
    assert not truth(client, "'a' = 'A'")
    assert client.rows("DECLARE @x varchar(3) = 'a' SELECT CASE WHEN @x = 'A' THEN 1 ELSE 2 END") == [(2,)]
    assert client.rows("SELECT a FROM t WHERE a = 'A'") == []
    assert client.rows("SELECT a FROM t WHERE b = 'A'") == [("a",)]
    assert client.error("SELECT a FROM t WHERE a = b")[0] == 468
    assert client.rows("SELECT name, collation_name FROM sys.columns WHERE object_id = OBJECT_ID('t')") == [
        ("a", BIN2),
        ("b", SERVER),
    ]
    assert client.value("SELECT DATABASEPROPERTYEX('other', 'Collation')") == BIN2
    assert client.value("SELECT collation_name FROM sys.databases WHERE name = 'other'") == BIN2
    assert client.value("SELECT SERVERPROPERTY('Collation')") == SERVER


def test_names_in_a_binary_database_differ_by_case(client: Client) -> None:
    database(client, BIN2)
    client.run("CREATE TABLE Persons (Id int, Name varchar(9)); CREATE TABLE persons (id int)")
    client.run("INSERT INTO Persons (Id, Name) VALUES (1, 'a'); INSERT INTO persons (id) VALUES (2)")
    assert client.rows("SELECT p.Id FROM Persons AS p") == [(1,)]
    assert client.rows("SELECT P.id FROM Persons AS p JOIN persons AS P ON p.Id < P.id") == [(2,)]
    assert client.error("SELECT 1 FROM PERSONS") == (208, "Invalid object name 'PERSONS'.")
    assert client.error("SELECT id FROM Persons") == (207, "Invalid column name 'id'.")
    assert client.error("INSERT INTO Persons (id) VALUES (1)")[0] == 207
    assert client.error("UPDATE Persons SET name = 'b'")[0] == 207
    assert client.error("SELECT P.Id FROM Persons AS p")[0] == 4104
    assert client.error("SELECT 1 FROM DBO.Persons")[0] == 208
    assert client.error("SELECT 1 FROM sys.Tables")[0] == 208
    assert client.rows("SELECT count(*) FROM INFORMATION_SCHEMA.TABLES") == [(2,)]
    assert client.error("SELECT 1 FROM information_schema.tables")[0] == 208
    assert client.rows("SELECT OBJECT_NAME(OBJECT_ID('persons')), OBJECT_ID('PERSONS')") == [("persons", None)]
    client.run("CREATE SCHEMA Dbo")
    client.run("CREATE TABLE Dbo.Persons (Other int)")
    assert client.rows("SELECT count(*) FROM Dbo.Persons AS x WHERE x.Other IS NULL") == [(0,)]
    client.run("DROP TABLE Persons")
    assert client.rows("SELECT id FROM persons") == [(2,)]


def test_columns_of_one_table_that_differ_in_case_only_are_refused_by_name(client: Client) -> None:
    database(client, CS)
    number, text = client.error("CREATE TABLE t (a int, A int)")
    assert number == 50001
    assert "differ in case only" in text


def test_names_of_variables_keywords_and_functions_ignore_case_everywhere(client: Client) -> None:
    """Variables and temporary tables go by the server's collation."""
    database(client, BIN2)
    assert client.rows("declare @Value INT = 3 Select Upper('a'), @VALUE") == [("A", 3)]
    client.run("CREATE TABLE #Work (a int)")
    assert client.rows("SELECT count(*) FROM #WORK") == [(0,)]


def test_temporary_tables_have_tempdbs_collation_and_table_variables_the_databases(client: Client) -> None:
    database(client, BIN2)
    client.run(
        "CREATE TABLE t (a varchar(9)); CREATE TABLE #t (a varchar(9)); CREATE TABLE #u (a varchar(9) COLLATE DATABASE_DEFAULT)"
    )
    assert client.error("SELECT 1 FROM t JOIN #t ON t.a = #t.a")[0] == 468
    assert client.rows("SELECT 1 FROM t JOIN #u ON t.a = #u.a") == []
    assert (
        client.rows("DECLARE @t TABLE (a varchar(9)) INSERT INTO @t VALUES ('a') SELECT a FROM @t WHERE a = 'A'") == []
    )


def test_a_case_sensitive_database_orders_as_a_dictionary_does(client: Client) -> None:
    database(client, CS)
    client.run("CREATE TABLE t (a varchar(9)); INSERT INTO t VALUES ('B'), ('a'), ('b'), ('A')")
    assert [row[0] for row in client.rows("SELECT a FROM t ORDER BY a")] == ["a", "A", "b", "B"]


def test_a_turkish_database_has_two_kinds_of_i(client: Client) -> None:
    database(client, "Turkish_CI_AS")
    client.run("CREATE TABLE Items (Id int, Ad varchar(20))")
    client.run("INSERT INTO Items VALUES (1, 'ığdır'), (2, N'ŞIŞLI')")
    assert client.rows("SELECT Ad FROM Items WHERE Ad = 'IĞDIR'") == [("ığdır",)]
    assert client.error("SELECT 1 FROM items") == (208, "Invalid object name 'items'.")
    assert client.rows(
        "SELECT COLLATIONPROPERTY('Turkish_CI_AS', 'CodePage'), DATALENGTH(Ad) FROM Items WHERE Id = 1"
    ) == [(1254, 5)]
    assert client.value("SELECT CHAR(254)") == "ş"
    assert client.value("SELECT ASCII('ş')") == 254


def test_reading_another_database_brings_its_collation_along(client: Client) -> None:
    client.run("CREATE TABLE t (a varchar(9)); INSERT INTO t VALUES ('a')")
    home = client.session.database
    database(client, BIN2)
    client.run("CREATE TABLE t (a varchar(9)); INSERT INTO t VALUES ('a')")
    assert client.rows(f"SELECT a FROM {home}.dbo.t WHERE a = 'A'") == [("a",)]
    assert client.error(f"SELECT 1 FROM {home.upper()}.dbo.t AS x JOIN t ON x.a = t.a")[0] == 468


def test_varchar_keeps_what_its_code_page_holds(client: Client) -> None:
    client.run(
        "CREATE TABLE t (a varchar(9), b varchar(9) COLLATE Turkish_CI_AS, c varchar(9) COLLATE Latin1_General_100_CI_AS_SC_UTF8)"
    )
    client.run("INSERT INTO t VALUES (N'ş', N'ş', N'ş')")
    assert client.rows("SELECT a, b, c FROM t") == [("?", "ş", "ş")]
    assert client.rows(
        "SELECT DATALENGTH(b), DATALENGTH(c), CAST(b AS varbinary(9)), CAST(c AS varbinary(9)) FROM t"
    ) == [(1, 2, b"\xfe", b"\xc5\x9f")]
    assert client.error("INSERT INTO t (c) VALUES (N'şşşşş')")[0] == 2628


def test_altering_a_databases_collation_is_refused_by_name(client: Client) -> None:
    assert client.error(f"ALTER DATABASE CURRENT COLLATE {BIN2}")[0] == 50001
