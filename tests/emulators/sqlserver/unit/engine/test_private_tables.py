"""Temporary tables, table variables, tables of other databases, INSERT ... EXEC and SELECT ... INTO."""

from __future__ import annotations

from collections.abc import Callable

from emulators.sqlserver.engine.server_engine import SqlEngine

from .conftest import Client

Connect = Callable[[], Client]


def test_a_temporary_table_belongs_to_its_session(client: Client, connect: Connect) -> None:
    client.run("CREATE TABLE #t (id int PRIMARY KEY, v nvarchar(5)) INSERT #t VALUES (1, N'a'), (2, N'b')")
    assert client.error("INSERT INTO #t VALUES (1, N'x')")[0] == 2627
    assert client.rows("UPDATE #t SET v = N'z' WHERE id = 2 SELECT v FROM #t AS x ORDER BY x.id") == [("a",), ("z",)]
    assert connect().error("SELECT * FROM #t")[0] == 208
    client.session.reset()
    assert client.error("SELECT * FROM #t")[0] == 208


def test_temporary_tables_join_with_others_and_serve_as_sources(client: Client) -> None:
    client.run(
        "CREATE TABLE t (id int, v int) INSERT t VALUES (1, 10), (2, 20) CREATE TABLE #k (id int) INSERT #k VALUES (2)"
    )
    assert client.rows("SELECT t.v FROM t JOIN #k ON #k.id = t.id") == [(20,)]
    client.run(
        "UPDATE t SET v = 0 WHERE id IN (SELECT id FROM #k) INSERT INTO #k SELECT v FROM t DELETE k "
        "FROM #k k JOIN t ON t.v = k.id WHERE t.id = 1"
    )
    assert client.rows("SELECT id FROM #k ORDER BY id") == [(0,), (2,)]
    assert client.rows("SELECT id, v FROM t ORDER BY id") == [(1, 10), (2, 0)]


def test_a_rollback_undoes_a_temporary_table_but_not_a_variable(client: Client) -> None:
    client.run("CREATE TABLE #t (id int)")
    sql = (
        "DECLARE @t TABLE (id int IDENTITY, v int) BEGIN TRAN INSERT #t VALUES (1) INSERT @t VALUES (5) "
        "ROLLBACK SELECT v FROM @t"
    )
    assert client.results(sql + " SELECT COUNT(*) FROM #t") == [[(5,)], [(0,)]]


def test_a_table_variable_lives_as_long_as_its_batch(client: Client) -> None:
    assert client.rows(
        "DECLARE @t TABLE (a int) INSERT INTO @t VALUES (1), (2) DELETE @t WHERE a = 1 SELECT x.a FROM @t x"
    ) == [(2,)]
    assert client.error("SELECT * FROM @t")[0] in (208, 1087)


def test_what_a_nested_text_makes_ends_with_it(client: Client) -> None:
    client.run(
        "CREATE TABLE #outer (a int) EXEC ('CREATE TABLE #inner (a int) INSERT #inner VALUES (1) INSERT "
        "#outer SELECT a FROM #inner')"
    )
    assert client.rows("SELECT * FROM #outer") == [(1,)]
    assert client.error("SELECT * FROM #inner")[0] == 208


def test_insert_exec_takes_the_rows_of_a_text(client: Client) -> None:
    client.run(
        "CREATE TABLE t (id int, s varchar(10)) INSERT INTO t EXEC ('SELECT 1, ''a'' UNION ALL SELECT 2, ''b''')"
    )
    client.run("INSERT INTO t (s, id) EXEC sp_executesql N'SELECT @s, 3', N'@s varchar(10)', @s = 'c'")
    assert client.rows("SELECT id, s FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
    assert client.error("INSERT INTO t EXEC ('SELECT 1')")[0] == 213


def test_select_into_makes_the_table(client: Client) -> None:
    client.run("CREATE TABLE t (id int NOT NULL, d decimal(9,2)) INSERT t VALUES (1, 2.5)")
    assert client.counts("SELECT id, d * 2 AS twice INTO #copy FROM t WHERE id = 1") == [1]
    assert client.rows("SELECT * FROM #copy") == [(1, "5.00")]
    assert client.error("SELECT 1 INTO #x")[0] == 1038


def test_tables_of_other_databases_are_read_by_three_part_names(engine: SqlEngine, client: Client) -> None:
    engine.create_database("other")
    client.run(
        "CREATE TABLE t (id int, v int) INSERT t VALUES (1, 10) USE other CREATE TABLE t (id int, v "
        "int) INSERT t VALUES (1, 20), (2, 30)"
    )
    client.run("USE demo")
    assert client.rows("SELECT a.v, b.v FROM t a JOIN other.dbo.t b ON a.id = b.id") == [(10, 20)]
    assert client.rows("SELECT v FROM other..t ORDER BY v DESC") == [(30,), (20,)]
    client.run("BEGIN TRAN UPDATE other.dbo.t SET v = 0 WHERE id = 1")
    assert client.rows("SELECT a.v, b.v FROM demo.dbo.t a JOIN other.dbo.t b ON a.id = b.id") == [(10, 0)]
    client.run("ROLLBACK INSERT INTO t SELECT id, v FROM other.dbo.t WHERE id = 2")
    assert client.value("SELECT SUM(v) FROM t") == 40


def test_scopes_that_stand_in_one_another_have_their_own_variables(client: Client) -> None:
    inner = "DECLARE @u TABLE (x int) INSERT @u VALUES (3), (4) SELECT * FROM @u"
    for call in (f"EXEC ('{inner}')", f"EXEC sp_executesql N'{inner}'"):
        sql = f"DECLARE @t TABLE (a int) INSERT @t {call} INSERT @t {call} SELECT a FROM @t ORDER BY a"
        assert client.rows(sql) == [(3,), (3,), (4,), (4,)]
