"""Indexes: clustered and not, filtered, with included and descending columns; what they refuse, and how the catalog shows them.

https://learn.microsoft.com/sql/t-sql/statements/create-index-transact-sql
"""

from __future__ import annotations

import pytest

from .conftest import Client


@pytest.fixture
def shop(client: Client) -> Client:
    client.run(
        "CREATE TABLE dbo.goods (id int NOT NULL, code nvarchar(10) NULL, price decimal(9, 2) NULL, gone datetime2(0) NULL, "
        "CONSTRAINT pk_goods PRIMARY KEY NONCLUSTERED (id DESC))"
    )
    return client


def test_a_filtered_unique_index_holds_for_its_rows_alone(shop: Client) -> None:
    shop.run("CREATE UNIQUE INDEX ux_code ON dbo.goods (code) WHERE gone IS NULL AND price IN (1, 2.50)")
    shop.run(
        "INSERT dbo.goods VALUES (1, N'a', 1, NULL), (2, N'a', 3, NULL), (3, N'a', 1, '2024-01-01'), (4, N'a', NULL, NULL)"
    )
    number, text = shop.error("INSERT dbo.goods VALUES (5, N'A', 2.5, NULL)")
    assert number == 2601
    assert "'dbo.goods' with unique index 'ux_code'. The duplicate key value is (A)" in text


def test_an_update_that_brings_a_row_into_the_filter_is_refused(shop: Client) -> None:
    shop.run("CREATE UNIQUE INDEX ux_code ON dbo.goods (code) WHERE gone IS NULL")
    shop.run("INSERT dbo.goods VALUES (1, N'a', 1, NULL), (2, N'a', 1, '2024-01-01')")
    assert shop.error("UPDATE dbo.goods SET gone = NULL WHERE id = 2")[0] == 2601
    shop.run("UPDATE dbo.goods SET gone = CASE WHEN gone IS NULL THEN '2024-01-02' END")  # they change places
    assert shop.rows("SELECT id FROM dbo.goods WHERE gone IS NULL") == [(2,)]


def test_a_filter_compares_columns_with_constants(shop: Client) -> None:
    for condition in ("price > 1 OR price IS NULL", "price BETWEEN 1 AND 2", "code LIKE N'a%'", "id = price", "1 = id"):
        assert shop.error(f"CREATE INDEX ix ON dbo.goods (code) WHERE {condition}")[0] == 10735, condition
    shop.run("CREATE INDEX ix ON dbo.goods (code) WHERE price > -1.5 AND gone >= CAST('2024-01-01' AS date)")
    assert shop.error("CREATE INDEX other ON dbo.goods (code) WHERE nothing = 1")[0] == 207


def test_rows_that_repeat_a_key_in_the_filter_refuse_the_index(shop: Client) -> None:
    shop.run("INSERT dbo.goods VALUES (1, N'a', 1, NULL), (2, N'a', 1, NULL)")
    assert shop.error("CREATE UNIQUE INDEX ux ON dbo.goods (code) WHERE price = 1")[0] == 1505
    shop.run("CREATE UNIQUE INDEX ux ON dbo.goods (code) WHERE price = 2")


def test_the_catalog_shows_indexes_as_they_were_made(shop: Client) -> None:
    """https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-indexes-transact-sql"""
    shop.run("CREATE INDEX ix ON dbo.goods (price DESC, code) INCLUDE (gone) WHERE code IS NOT NULL")
    shop.run("CREATE CLUSTERED INDEX cx ON dbo.goods (gone)")
    assert shop.rows(
        "SELECT name, index_id, type_desc, is_unique, is_primary_key, has_filter, filter_definition FROM sys.indexes "
        "WHERE object_id = OBJECT_ID(N'dbo.goods') ORDER BY index_id"
    ) == [
        ("cx", 1, "CLUSTERED", 0, 0, 0, None),
        ("pk_goods", 2, "NONCLUSTERED", 1, 1, 0, None),
        ("ix", 3, "NONCLUSTERED", 0, 0, 1, "([code] IS NOT NULL)"),
    ]
    assert shop.rows(
        "SELECT i.name, COL_NAME(ic.object_id, ic.column_id), ic.key_ordinal, ic.is_descending_key, ic.is_included_column "
        "FROM sys.index_columns AS ic JOIN sys.indexes AS i ON i.object_id = ic.object_id AND i.index_id = ic.index_id "
        "WHERE i.name <> N'cx' ORDER BY ic.index_id, ic.index_column_id"
    ) == [
        ("pk_goods", "id", 1, 1, 0),
        ("ix", "price", 1, 1, 0),
        ("ix", "code", 2, 0, 0),
        ("ix", "gone", 0, 0, 1),
    ]
    assert shop.value("SELECT INDEXPROPERTY(OBJECT_ID(N'dbo.goods'), N'ix', 'IsUnique')") == 0


def test_a_table_has_one_clustered_index(shop: Client) -> None:
    shop.run("CREATE UNIQUE CLUSTERED INDEX cx ON dbo.goods (code)")
    assert shop.error("CREATE CLUSTERED INDEX other ON dbo.goods (price)")[0] == 1902
    assert shop.error("CREATE TABLE dbo.two (a int NOT NULL PRIMARY KEY CLUSTERED, b int UNIQUE CLUSTERED)")[0] == 8112
    shop.run("CREATE TABLE dbo.one (a int NOT NULL PRIMARY KEY, b int CONSTRAINT uq_b UNIQUE CLUSTERED)")
    sql = "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID(N'dbo.one') AND type = 1"
    assert shop.rows(sql) == [("uq_b",)]


def test_columns_of_an_index_stay(shop: Client) -> None:
    shop.run("CREATE INDEX ix ON dbo.goods (code) INCLUDE (price) WHERE gone IS NULL")
    for column in ("code", "price", "gone"):
        assert shop.error(f"ALTER TABLE dbo.goods DROP COLUMN {column}") == (
            5074,
            f"The index 'ix' is dependent on column '{column}'.",
        )
    assert shop.error("ALTER TABLE dbo.goods ALTER COLUMN gone datetime2(1)")[0] == 5074
    shop.run("DROP INDEX ix ON dbo.goods")
    shop.run("ALTER TABLE dbo.goods DROP COLUMN gone")


def test_an_index_keeps_through_a_change_of_the_table(shop: Client) -> None:
    shop.run("CREATE UNIQUE INDEX ux ON dbo.goods (code) WHERE gone IS NULL")
    shop.run("ALTER TABLE dbo.goods ADD more int NOT NULL DEFAULT 7")
    shop.run("INSERT dbo.goods (id, code) VALUES (1, N'a')")
    assert shop.error("INSERT dbo.goods (id, code) VALUES (2, N'a')")[0] == 2601
    assert shop.error("CREATE INDEX UX ON dbo.goods (id)")[0] == 1913


def test_options_that_change_what_is_refused_are_refused(shop: Client) -> None:
    shop.run("CREATE UNIQUE INDEX ux ON dbo.goods (code) WITH (IGNORE_DUP_KEY = OFF, PAD_INDEX = ON)")
    assert (
        shop.error("CREATE UNIQUE INDEX other ON dbo.goods (price) WITH (PAD_INDEX = ON, IGNORE_DUP_KEY = ON)")[0]
        == 50001
    )
    assert shop.error("CREATE TABLE dbo.u (a int NOT NULL UNIQUE WITH (IGNORE_DUP_KEY = ON))")[0] == 50001
