"""Common table expressions, windows, APPLY, TOP with its options and set operators."""

from __future__ import annotations

import pytest

from emulators.sqlserver.results import ResultSet

from .conftest import Client


@pytest.fixture
def sales(client: Client) -> Client:
    client.run(
        "CREATE TABLE sales (id int PRIMARY KEY, who varchar(10), n int, price decimal(9,2), tag varbinary(4), f float)"
    )
    client.run(
        "INSERT sales VALUES (1, 'ann', 3, 1.50, 0x01, 0.1), (2, 'ann', 5, 2.25, 0x0200, NULL), (3, "
        "'bob', 5, 10, NULL, 1e300), "
        "(4, 'bob', 1, 0.01, 0xFF, 2)"
    )
    return client


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT id, ROW_NUMBER() OVER (PARTITION BY who ORDER BY n DESC) FROM sales ORDER BY id",
            [(1, 2), (2, 1), (3, 1), (4, 2)],
        ),
        (
            "SELECT id, RANK() OVER (ORDER BY n DESC), DENSE_RANK() OVER (ORDER BY n DESC) FROM sales ORDER BY id",
            [(1, 3, 2), (2, 1, 1), (3, 1, 1), (4, 4, 3)],
        ),
        (
            (
                "SELECT id, SUM(price) OVER (PARTITION BY who), AVG(n) OVER (PARTITION BY who) FROM sales WHERE "
                "who = 'ANN' ORDER BY id"
            ),
            [(1, "3.75", 4), (2, "3.75", 4)],
        ),
        (
            "SELECT id, SUM(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sales ORDER BY id",
            [(1, 3), (2, 8), (3, 10), (4, 6)],
        ),
        (
            "SELECT id, LAG(n, 1, 0) OVER (ORDER BY id), LEAD(who) OVER (ORDER BY id) FROM sales ORDER BY id",
            [(1, 0, "ann"), (2, 3, "bob"), (3, 5, "bob"), (4, 5, None)],
        ),
        ("SELECT COUNT(*) OVER () FROM sales WHERE id < 3", [(2,), (2,)]),
        ("SELECT TOP (1) WITH TIES id FROM sales ORDER BY n DESC", [(2,), (3,)]),
        ("SELECT TOP (30) PERCENT id FROM sales ORDER BY id", [(1,), (2,)]),
        ("DECLARE @n int = 1 SELECT TOP (@n + 1) id FROM sales ORDER BY id DESC", [(4,), (3,)]),
        (
            (
                "SELECT s.id, x.id FROM sales s CROSS APPLY (SELECT TOP 1 i.id FROM sales i WHERE i.who = s.who "
                "AND i.id > s.id ORDER BY i.id) x ORDER BY 1"
            ),
            [(1, 2), (3, 4)],
        ),
        (
            (
                "SELECT s.id, x.tag, x.f FROM sales s OUTER APPLY (SELECT i.tag, i.f FROM sales i WHERE i.id = "
                "s.id - 1) AS x ORDER BY 1"
            ),
            [(1, None, None), (2, b"\1", 0.1), (3, b"\2\0", None), (4, None, 1e300)],
        ),
        ("SELECT id FROM sales EXCEPT SELECT 2 ORDER BY id", [(1,), (3,), (4,)]),
        ("SELECT 1 UNION SELECT 2 INTERSECT SELECT 2 UNION SELECT 3 ORDER BY 1", [(1,), (2,), (3,)]),
        ("SELECT who, COUNT(*) FROM sales GROUP BY who HAVING SUM(n) > 6 ORDER BY who", [("ann", 2)]),
        ("SELECT v.a + v.b FROM (VALUES (1, 2), (3, 4)) AS v (a, b) ORDER BY 1", [(3,), (7,)]),
        ("SELECT id FROM sales s WHERE n = (SELECT MAX(n) FROM sales WHERE who = s.who) ORDER BY id", [(2,), (3,)]),
        (
            (
                "WITH a AS (SELECT id FROM sales), b (x) AS (SELECT id * 10 FROM a) SELECT TOP 1 x FROM b ORDER "
                "BY x DESC"
            ),
            [(40,)],
        ),
    ],
)
def test_queries(sales: Client, sql: str, expected: list[tuple[object, ...]]) -> None:
    assert sales.rows(sql) == expected


def test_common_table_expressions_stand_before_every_statement(sales: Client) -> None:
    sales.run(
        "CREATE TABLE copy (id int, n int); WITH x AS (SELECT id, n FROM sales WHERE n = 5) INSERT INTO "
        "copy SELECT id, n FROM x"
    )
    sales.run(";WITH x AS (SELECT 3 AS id) UPDATE c SET n = 7 FROM copy c JOIN x ON x.id = c.id")
    assert sales.rows("SELECT id, n FROM copy ORDER BY id") == [(2, 5), (3, 7)]
    sales.run("WITH x AS (SELECT 2 AS id) DELETE FROM copy WHERE id IN (SELECT id FROM x)")
    sales.run(
        "WITH x AS (SELECT 9 AS id) MERGE copy AS t USING x ON x.id = t.id WHEN NOT MATCHED THEN INSERT "
        "VALUES (x.id, 1);"
    )
    assert sales.rows("SELECT id FROM copy ORDER BY id") == [(3,), (9,)]


def test_rows_are_changed_through_a_common_table_expression(sales: Client) -> None:
    number = "WITH x AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY id) AS nr FROM sales) "
    assert sales.counts(number + "UPDATE x SET n = 0 WHERE nr = 1") == [2]
    assert sales.counts(number + "DELETE FROM x WHERE nr > 1") == [2]
    assert sales.rows("SELECT id, n FROM sales ORDER BY id") == [(1, 0), (3, 0)]


@pytest.mark.parametrize(
    ("sql", "number", "named"),
    [
        ("SELECT * FROM sales PIVOT (SUM(n) FOR who IN ([ann], [bob])) AS p", 50001, "PIVOT"),
        ("SELECT SUM(DISTINCT n) OVER () FROM sales", 10759, "DISTINCT"),
        ("SELECT ROW_NUMBER() OVER () FROM sales", 4112, "ROW_NUMBER"),
        ("SELECT SUM(n) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sales", 4194, "RANGE"),
        ("SELECT TOP (1) WITH TIES id FROM sales", 1062, "WITH TIES"),
        ("SELECT * FROM sales s CROSS APPLY dbo.nope(s.id) x", 208, "nope"),
        ("SELECT who FROM sales GROUP BY ROLLUP (who)", 50001, "ROLLUP"),
        ("SELECT * FROM (VALUES (1, 2), (3)) AS v (a, b)", 10709, "same number of values"),
    ],
)
def test_what_is_not_there_is_refused_by_name(sales: Client, sql: str, number: int, named: str) -> None:
    found, text = sales.error(sql)
    assert (found, named in text) == (number, True)


def test_a_literal_behind_a_literal_names_the_column(client: Client) -> None:
    """T-SQL joins no texts by writing them side by side. Source: SELECT clause (Transact-SQL), column_alias."""
    events = client.events("SELECT N'VIEW' 'kind', 1 'n' UNION SELECT 'TABLE', 2 ORDER BY n")
    [result] = [event for event in events if isinstance(event, ResultSet)]
    assert [column.name for column in result.columns] == ["kind", "n"]
    assert client.rows("SELECT 'a' 'b', 'c' AS 'd' WHERE 'x' = 'x'") == [("a", "c")]
