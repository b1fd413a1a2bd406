"""CHECK and FOREIGN KEY constraints, computed columns, views, and what ALTER TABLE may do to them."""

from __future__ import annotations

import pytest

from emulators.sqlserver.engine.server_engine import SqlEngine

from .conftest import Client
from .test_transactions import Recorder


@pytest.fixture
def family(client: Client) -> Client:
    client.run("CREATE TABLE parent (id int NOT NULL CONSTRAINT PK_parent PRIMARY KEY, code char(2) UNIQUE)")
    client.run(
        "CREATE TABLE child (id int PRIMARY KEY, parent_id int NULL CONSTRAINT FK_child REFERENCES parent (id), "
        "n int CONSTRAINT CK_n CHECK (n > 0), boss int REFERENCES child (id), CONSTRAINT CK_both CHECK (n < id * 100))"
    )
    client.run("INSERT parent VALUES (1, 'a'), (2, 'b') INSERT child VALUES (1, 1, 5, NULL), (2, NULL, NULL, 1)")
    return client


def test_a_row_without_its_parent_is_refused_in_microsofts_words(family: Client) -> None:
    assert family.error("INSERT child VALUES (3, 9, 1, NULL)") == (
        547,
        (
            'The INSERT statement conflicted with the FOREIGN KEY constraint "FK_child". The conflict occurred in database "demo", '
            "table \"dbo.parent\", column 'id'."
        ),
    )
    assert family.value("SELECT COUNT(*) FROM child") == 2


def test_a_parent_with_children_stays(family: Client) -> None:
    assert family.error("DELETE FROM parent WHERE id = 1") == (
        547,
        (
            'The DELETE statement conflicted with the REFERENCE constraint "FK_child". The conflict occurred in database "demo", '
            "table \"dbo.child\", column 'parent_id'."
        ),
    )
    assert family.error("UPDATE parent SET id = 7 WHERE id = 1")[0] == 547
    assert family.counts("DELETE FROM parent WHERE id = 2") == [1]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("UPDATE child SET n = 0 WHERE id = 1", 'CHECK constraint "CK_n"'),
        ("UPDATE child SET n = 0 WHERE id = 1", "column 'n'"),
        ("INSERT child VALUES (3, 1, 300, NULL)", 'CHECK constraint "CK_both"'),
        ("UPDATE child SET boss = 99 WHERE id = 1", "FOREIGN KEY SAME TABLE constraint"),
        ("DELETE FROM child WHERE id = 1", "SAME TABLE REFERENCE constraint"),
        ("MERGE child t USING parent s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = -1;", "The MERGE statement"),
        ("ALTER TABLE child WITH CHECK ADD CONSTRAINT CK_late CHECK (n > 100)", "The ALTER TABLE statement"),
    ],
)
def test_each_conflict_names_its_constraint(family: Client, sql: str, named: str) -> None:
    number, text = family.error(sql)
    assert (number, named in text) == (547, True)


def test_unknown_passes_a_check_and_a_null_references_nothing(family: Client) -> None:
    family.run("INSERT child VALUES (3, NULL, NULL, NULL)")
    assert family.value("SELECT COUNT(*) FROM child") == 3


def test_constraints_come_and_go_by_name(family: Client) -> None:
    family.run("ALTER TABLE child DROP CONSTRAINT CK_n UPDATE child SET n = 0 WHERE id = 1")
    assert family.error("ALTER TABLE child ADD CONSTRAINT CK_n CHECK (n > 0)")[0] == 547
    family.run("ALTER TABLE child WITH NOCHECK ADD CONSTRAINT CK_n CHECK (n > 0)")
    assert family.error("UPDATE child SET n = -1 WHERE id = 1")[0] == 547
    family.run("ALTER TABLE child DROP CONSTRAINT FK_child DELETE FROM parent")
    assert family.error("ALTER TABLE child ADD CONSTRAINT FK_again FOREIGN KEY (parent_id) REFERENCES parent")[0] == 547


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("DROP TABLE parent", 3726),
        ("TRUNCATE TABLE parent", 4712),
        ("ALTER TABLE parent DROP CONSTRAINT PK_parent", 3725),
        ("ALTER TABLE child DROP COLUMN n", 5074),
        ("ALTER TABLE child ADD CONSTRAINT CK_n CHECK (id > 0)", 2714),
        ("CREATE TABLE x (a int REFERENCES nope (id))", 1767),
        ("CREATE TABLE x (a int, FOREIGN KEY (b) REFERENCES parent (id))", 1769),
        ("CREATE TABLE x (a int REFERENCES parent (nope))", 1770),
        ("CREATE TABLE x (a int REFERENCES child (n))", 1776),
        ("CREATE TABLE x (a int, b int, FOREIGN KEY (a, b) REFERENCES parent (id))", 8139),
        ("CREATE TABLE x (a int REFERENCES parent ON DELETE CASCADE)", 50001),
        ("CREATE TABLE x (a int CHECK (nope > 1))", 207),
        ("CREATE TABLE #x (a int REFERENCES parent)", 50001),
        ("EXEC sp_rename 'child.n', 'm', 'COLUMN'", 15336),
    ],
)
def test_definitions_that_cannot_be(family: Client, sql: str, number: int) -> None:
    assert family.error(sql)[0] == number


def test_a_computed_column_is_computed_when_read(client: Client) -> None:
    client.run("CREATE TABLE t (a int, b int, total AS (a + b), twice AS (b * 2.5) PERSISTED)")
    client.run("INSERT t (a, b) VALUES (1, 2), (3, NULL) INSERT t VALUES (5, 6)")
    assert client.rows("SELECT total, twice FROM t ORDER BY a") == [(3, "5.0"), (None, None), (11, "15.0")]
    assert client.rows("UPDATE t SET b = 1 OUTPUT inserted.total, deleted.total WHERE total = 3") == [(2, 3)]
    assert client.error("UPDATE t SET total = 1")[0] == 271
    assert client.error("INSERT t (a, total) VALUES (1, 1)")[0] == 271
    assert client.error("ALTER TABLE t DROP COLUMN b")[0] == 5074
    assert client.error("ALTER TABLE t ADD UNIQUE (total)")[0] == 50001


def test_the_observer_sees_a_computed_column_as_null(engine: SqlEngine, client: Client) -> None:
    client.run("CREATE TABLE t (a int, b AS (a + 1))")
    recorder = Recorder()
    engine.database("demo").set_observer(recorder)
    client.run("INSERT t VALUES (1)")
    assert ("statement", "t", [(None, (1, None))], []) in recorder.calls


def test_a_view_is_read_as_its_query(client: Client) -> None:
    client.run("CREATE TABLE t (a int, b int) INSERT t VALUES (1, 2), (3, 4)")
    client.run("CREATE VIEW dbo.v (x, y) AS SELECT a, a + b FROM t WHERE b > 2")
    assert client.rows("SELECT v.y, t.b FROM v JOIN t ON t.a = v.x") == [(7, 4)]
    client.run("CREATE OR ALTER VIEW v AS SELECT a AS x FROM t")
    assert client.rows("SELECT * FROM dbo.v ORDER BY x") == [(1,), (3,)]
    assert client.error("INSERT INTO v VALUES (1)")[0] == 50001
    assert client.error("CREATE VIEW v AS SELECT 1 AS a")[0] == 2714
    assert client.error("SELECT 1 CREATE VIEW w AS SELECT 1 AS a")[0] == 111
    assert client.error("CREATE VIEW w AS SELECT a + 1 FROM t")[0] == 4511
    client.run("DROP VIEW IF EXISTS v, nope")
    assert client.error("SELECT * FROM v")[0] == 208
