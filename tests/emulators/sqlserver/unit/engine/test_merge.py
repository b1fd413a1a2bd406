"""MERGE and OUTPUT: which rows each clause takes, what is reported, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from emulators.sqlserver.engine.extension import RowChange, Table, Transaction
from emulators.sqlserver.engine.server_engine import SqlEngine
from emulators.sqlserver.results import Parameter
from emulators.sqlserver.sqltypes import SqlType

from .conftest import Client
from .test_transactions import Recorder

CHECKPOINT = (
    "MERGE INTO cdc_offsets AS target USING (VALUES (@tableName, @lastLSN, GETDATE())) AS source "
    "(table_name, last_lsn, "
    "updated_at) ON target.table_name = source.table_name WHEN MATCHED THEN UPDATE SET last_lsn = "
    "source.last_lsn, updated_at "
    "= source.updated_at WHEN NOT MATCHED THEN INSERT (table_name, last_lsn, updated_at) VALUES (source.table_name, "
    "source.last_lsn, source.updated_at);"
)
"""The checkpoint upsert of the Go dstream (cmd/checkpoint_manager.go)."""
STOCK = (
    "CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL DEFAULT 5, note nvarchar(10)) INSERT "
    "stock VALUES (1, 10, N'a'), (2, 20, N'b')"
)
SOURCE = "CREATE TABLE moves (id int, d int) INSERT moves VALUES (1, 5), (2, -20), (3, 7)"
UPSERT = (
    "MERGE stock WITH (HOLDLOCK) AS t USING moves AS s ON t.id = s.id WHEN MATCHED AND t.n + s.d = "
    "0 THEN DELETE WHEN MATCHED "
    "THEN UPDATE SET t.n += s.d, note = DEFAULT WHEN NOT MATCHED BY TARGET THEN INSERT (id, n) VALUES (s.id, s.d) "
)


@pytest.fixture
def stock(client: Client) -> Client:
    client.run(STOCK)
    client.run(SOURCE)
    return client


def test_the_checkpoint_upsert_inserts_and_then_updates(client: Client) -> None:
    client.run(
        "CREATE TABLE cdc_offsets (table_name nvarchar(255) PRIMARY KEY, last_lsn varbinary(10), "
        "updated_at datetime DEFAULT GETDATE())"
    )
    for lsn in (b"\1", b"\2"):
        parameters = {
            "@tableName": Parameter("@tableName", SqlType("nvarchar", 255), "Persons"),
            "@lastLSN": Parameter("@lastLSN", SqlType("varbinary", 10), lsn),
        }
        for _ in client.session.batch(CHECKPOINT, parameters, lambda: False):
            pass
        assert client.rows("SELECT table_name, last_lsn FROM cdc_offsets") == [("Persons", lsn)]


def test_each_clause_takes_its_rows(stock: Client) -> None:
    assert stock.counts(UPSERT + ";") == [3]
    assert stock.rows("SELECT id, n, note FROM stock ORDER BY id") == [(1, 15, None), (3, 7, None)]


def test_not_matched_by_source_changes_rows_of_the_target(stock: Client) -> None:
    sql = (
        "MERGE stock AS t USING (SELECT 2 AS id) AS s ON s.id = t.id WHEN NOT MATCHED BY SOURCE AND n > "
        "5 THEN UPDATE SET n = 0;"
    )
    assert stock.counts(sql) == [1]
    assert stock.rows("SELECT id, n FROM stock ORDER BY id") == [(1, 0), (2, 20)]


def test_output_shows_action_both_sides_and_the_source(stock: Client) -> None:
    rows = stock.rows(UPSERT + "OUTPUT $action, inserted.id, deleted.n, inserted.n - deleted.n AS change, s.d;")
    assert sorted(rows, key=str) == [
        ("DELETE", None, 20, None, -20),
        ("INSERT", 3, None, None, 7),
        ("UPDATE", 1, 10, 5, 5),
    ]


def test_the_observer_gets_one_call_a_kind(engine: SqlEngine, stock: Client) -> None:
    calls: list[tuple[str, int]] = []

    class Counting(Recorder):
        def statement(
            self, transaction: Transaction, table: Table, changes: Sequence[RowChange], updated: frozenset[int]
        ) -> None:
            kinds = {"insert" if c.before is None else "delete" if c.after is None else "update" for c in changes}
            calls.append((*kinds, len(changes)))  # type: ignore[arg-type]  # one kind a call

    engine.database("demo").set_observer(Counting())
    stock.run("INSERT moves VALUES (4, 1)" + UPSERT.replace("MERGE", " MERGE") + ";")
    assert calls[1:] == [("delete", 1), ("update", 1), ("insert", 2)]


def test_a_row_may_be_changed_once_only(stock: Client) -> None:
    stock.run("INSERT moves VALUES (1, 1)")
    assert stock.error(UPSERT + ";")[0] == 8672
    assert stock.rows("SELECT id, n FROM stock ORDER BY id") == [(1, 10), (2, 20)]


def test_a_value_is_not_computed_for_rows_that_its_clause_leaves_out(stock: Client) -> None:
    stock.run("UPDATE moves SET d = 0 WHERE id = 1")
    sql = "MERGE stock t USING moves s ON t.id = s.id WHEN MATCHED AND s.d <> 0 THEN UPDATE SET n = 100 / s.d;"
    assert stock.counts(sql) == [1]


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        (UPSERT, 10713),
        ("MERGE TOP (1) stock t USING moves s ON t.id = s.id WHEN MATCHED THEN DELETE;", 50001),
        ("MERGE stock t USING moves s ON t.id = s.id WHEN MATCHED THEN INSERT (id) VALUES (1);", 156),
        ("MERGE stock t USING moves s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1);", 109),
        ("MERGE nope t USING moves s ON t.id = s.id WHEN MATCHED THEN DELETE;", 208),
        ("MERGE stock t USING moves s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (t.n);", 4104),
        ("MERGE stock t USING moves s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (9, NULL);", 515),
    ],
)
def test_what_is_wrong_with_a_merge_has_its_number(stock: Client, sql: str, number: int) -> None:
    assert stock.error(sql)[0] == number


def test_output_into_a_table_and_a_table_variable(stock: Client) -> None:
    stock.run("CREATE TABLE log (id int, was int)")
    sql = "DELETE FROM stock OUTPUT deleted.id, deleted.n INTO log (id, was) WHERE id = 1"
    assert stock.counts(sql) == [1]
    assert stock.rows("SELECT * FROM log") == [(1, 10)]
    sql = (
        "DECLARE @t TABLE (id int, n int) UPDATE stock SET n = 1 OUTPUT inserted.id, inserted.n INTO @t "
        "SELECT * FROM @t"
    )
    assert stock.rows(sql) == [(2, 1)]


def test_an_output_that_fails_undoes_its_statement(stock: Client) -> None:
    stock.run("CREATE TABLE log (id int PRIMARY KEY) INSERT log VALUES (2)")
    assert stock.error("DELETE FROM stock OUTPUT deleted.id INTO log")[0] == 2627
    assert stock.value("SELECT COUNT(*) FROM stock") == 2


def test_output_computes_with_columns_of_other_tables(stock: Client) -> None:
    sql = (
        "UPDATE t SET n = t.n + s.d OUTPUT inserted.n * 2, s.d, deleted.* FROM stock t JOIN moves s ON "
        "s.id = t.id WHERE t.id = 1"
    )
    assert stock.rows(sql) == [(30, 5, 1, 10, "a")]
    assert stock.error("INSERT stock OUTPUT deleted.id VALUES (8, 1, NULL)")[0] == 4104
