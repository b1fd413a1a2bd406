"""Which names a side topic may have."""

from __future__ import annotations

import pytest

from common.names import Origin, TableName
from common.side_topic import SideTopics

ORIGIN = Origin("sql01", "shop")


@pytest.mark.parametrize(
    "topic", ["orders-copy", "sql01.shop.orders.copy", "sql02.shop.orders.events", "a", "0", "a" * 260]
)
def test_a_free_name_may_be_one(topic: str) -> None:
    assert SideTopics.of(ORIGIN, "ingest").refused(topic) is None


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("ingest", "the ingest queue"),
        ("Orders", "must be 1 to 260"),
        ("orders\n", "must be 1 to 260"),
        ("a/b", "must be 1 to 260"),
        ("-a", "must be 1 to 260"),
        ("a" * 261, "must be 1 to 260"),
        ("", "must be 1 to 260"),
        ("\u212aopy", "must be 1 to 260"),
    ],
)
def test_what_cannot_be_one(topic: str, why: str) -> None:
    assert why in str(SideTopics.of(ORIGIN, "Ingest").refused(topic))


@pytest.mark.parametrize("origin", [ORIGIN, Origin("sql-01", "a ä" * 40)], ids=["usual", "too long for a prefix"])
@pytest.mark.parametrize("table", [TableName("dbo", "Orders"), TableName("sales", "O" * 128)])
def test_no_topic_of_a_table_of_the_database_is_one(origin: Origin, table: TableName) -> None:
    assert "those of tables' topics" in str(SideTopics.of(origin, "ingest").refused(origin.topic(table)))
