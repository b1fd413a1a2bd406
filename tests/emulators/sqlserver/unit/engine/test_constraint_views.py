"""The catalog views over foreign keys, checks, computed columns and views, asked as ORMs and drivers ask when they reflect."""

from __future__ import annotations

import pytest

from .conftest import Client


@pytest.fixture
def shop(client: Client) -> Client:
    client.run(
        "CREATE TABLE dbo.customers (region int NOT NULL, id int NOT NULL, name nvarchar(20) NULL, "
        "CONSTRAINT pk_c PRIMARY KEY (region, id), CONSTRAINT uq_c UNIQUE (name))"
    )
    client.run(
        "CREATE TABLE dbo.orders (id int CONSTRAINT pk_o PRIMARY KEY, region int, customer int, n int CONSTRAINT df_n DEFAULT 1 "
        "CONSTRAINT ck_n CHECK (n > 0), twice AS (n * 2) PERSISTED, "
        "CONSTRAINT fk_c FOREIGN KEY (region, customer) REFERENCES dbo.customers (region, id))"
    )
    client.run("CREATE VIEW dbo.many AS SELECT id, n AS amount FROM dbo.orders WHERE n > 1")
    return client


def test_foreign_keys_and_their_columns(shop: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-foreign-keys-transact-sql"""
    assert shop.rows(
        "SELECT fk.name, OBJECT_NAME(fk.parent_object_id), OBJECT_NAME(fk.referenced_object_id), pc.name, rc.name, "
        "fk.delete_referential_action_desc, fk.is_disabled, fk.key_index_id FROM sys.foreign_keys AS fk "
        "JOIN sys.foreign_key_columns AS fkc ON fkc.constraint_object_id = fk.object_id "
        "JOIN sys.columns AS pc ON pc.object_id = fkc.parent_object_id AND pc.column_id = fkc.parent_column_id "
        "JOIN sys.columns AS rc ON rc.object_id = fkc.referenced_object_id AND rc.column_id = fkc.referenced_column_id "
        "ORDER BY fkc.constraint_column_id"
    ) == [
        ("fk_c", "orders", "customers", "region", "region", "NO_ACTION", 0, 1),
        ("fk_c", "orders", "customers", "customer", "id", "NO_ACTION", 0, 1),
    ]


def test_the_information_schema_tells_the_same(shop: Client) -> None:
    assert shop.rows(
        "SELECT r.CONSTRAINT_NAME, k.COLUMN_NAME, k.ORDINAL_POSITION, r.UNIQUE_CONSTRAINT_NAME, r.MATCH_OPTION, r.UPDATE_RULE "
        "FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS AS r JOIN INFORMATION_SCHEMA.KEY_COLUMN_USAGE AS k "
        "ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME ORDER BY 3"
    ) == [
        ("fk_c", "region", 1, "pk_c", "SIMPLE", "NO ACTION"),
        ("fk_c", "customer", 2, "pk_c", "SIMPLE", "NO ACTION"),
    ]
    assert shop.rows(
        "SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS WHERE TABLE_NAME = N'orders' ORDER BY 1"
    ) == [("ck_n", "CHECK"), ("fk_c", "FOREIGN KEY"), ("pk_o", "PRIMARY KEY")]
    assert shop.rows("SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS") == [
        ("ck_n", "([n]>(0))")
    ]


def test_checks_defaults_and_computed_columns(shop: Client) -> None:
    assert shop.rows(
        "SELECT c.name, c.definition, COL_NAME(c.parent_object_id, c.parent_column_id), c.is_system_named "
        "FROM sys.check_constraints AS c"
    ) == [("ck_n", "([n]>(0))", "n", 0)]
    assert shop.rows("SELECT name, is_persisted, is_computed FROM sys.computed_columns") == [("twice", 1, 1)]
    assert shop.rows("SELECT name, definition FROM sys.default_constraints") == [("df_n", "((1))")]


def test_objects_of_every_kind_are_objects(shop: Client) -> None:
    assert shop.rows("SELECT RTRIM(type), COUNT(*) FROM sys.objects GROUP BY type ORDER BY 1") == [
        ("C", 1),
        ("D", 1),
        ("F", 1),
        ("PK", 2),
        ("U", 2),
        ("UQ", 1),
        ("V", 1),
    ]


def test_views_are_listed_with_their_text_and_columns(shop: Client) -> None:
    assert shop.rows(
        "SELECT v.name, m.definition FROM sys.views AS v JOIN sys.sql_modules AS m ON m.object_id = v.object_id "
        "WHERE v.object_id = OBJECT_ID(N'dbo.many', N'V')"
    ) == [("many", "CREATE VIEW dbo.many AS SELECT id, n AS amount FROM dbo.orders WHERE n > 1")]
    assert shop.rows("SELECT TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES ORDER BY 1") == [
        ("customers", "BASE TABLE"),
        ("many", "VIEW"),
        ("orders", "BASE TABLE"),
    ]
    assert shop.rows("SELECT TABLE_NAME, CHECK_OPTION, IS_UPDATABLE FROM INFORMATION_SCHEMA.VIEWS") == [
        ("many", "NONE", "NO")
    ]
    assert shop.rows(
        "SELECT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = N'many' ORDER BY ORDINAL_POSITION"
    ) == [("id", "int"), ("amount", "int")]
    assert shop.rows("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('many') ORDER BY column_id") == [
        ("id",),
        ("amount",),
    ]


def test_a_view_that_has_lost_its_table_hides_nothing_else(shop: Client) -> None:
    shop.run("DROP TABLE dbo.orders")
    assert shop.rows("SELECT DISTINCT OBJECT_NAME(object_id) FROM sys.columns") == [("customers",)]


def test_a_temporary_table_has_an_id_under_tempdb(client: Client) -> None:
    assert client.value("SELECT OBJECT_ID(N'tempdb..#t')") is None
    client.run("CREATE TABLE #t (id int)")
    for name in ("tempdb..#t", "tempdb.dbo.#t", "tempdb.dbo.[#t]"):
        assert client.value(f"SELECT OBJECT_ID(N'{name}')") is not None
    assert client.value("SELECT OBJECT_ID(N'tempdb..#t', 'U')") is not None
    client.run("IF OBJECT_ID('tempdb..#t') IS NOT NULL DROP TABLE #t")
    assert client.value("SELECT OBJECT_ID(N'tempdb..#t')") is None
