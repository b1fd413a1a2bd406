"""Templates of places: which names they may have, what they become, and that no two tables share a place."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest
from pydantic import ValidationError

from common.bus.place import PlaceTemplate, SharedPlaceTemplate, colliding, names_table, rendered, values_of
from common.bus.settings import OutputSettings
from common.names import Origin, TableName, escaped

ORIGIN = Origin("db01", "Shop")
REFUSED = re.compile(r"_(?=x)|[^A-Za-z0-9_-]")


class Shelf(OutputSettings):
    type: str = "shelf"
    topic: PlaceTemplate = "{database}.{schema}.{table}"
    longest_place: ClassVar[int | None] = 60

    def escape(self, text: str) -> str:
        return escaped(text, REFUSED)


class Heap(OutputSettings):
    type: str = "heap"
    heap: SharedPlaceTemplate = "all"

    @property
    def place_setting(self) -> str:
        return "heap"


def place(template: str, table: TableName | None, **more: str) -> str:
    return Shelf(topic=template).place(ORIGIN, "db01.shop.persons.events", table, **more)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{database}.{schema}.{table}", "Shop.dbo.Order_x0020_Details"),
        ("cdc-{server}-{table}", "cdc-db01-Order_x0020_Details"),
        ("{topic}", "db01_x002e_shop_x002e_persons_x002e_events"),
    ],
)
def test_a_place_has_the_names_of_its_table_escaped_as_the_output_needs(template: str, expected: str) -> None:
    assert place(template, TableName("dbo", "Order Details")) == expected


def test_a_stream_without_a_table_is_placed_by_its_own_name() -> None:
    assert place("{database}.{table}", None) == "db01_x002e_shop_x002e_persons_x002e_events"


def test_a_route_may_replace_the_template() -> None:
    assert place("{table}", TableName("dbo", "Persons"), instead="people") == "people"


def test_a_place_that_is_too_long_is_shortened_and_stays_its_own() -> None:
    first, second = (place("{table}", TableName("dbo", "x" * 100 + last)) for last in "ab")
    assert len(first) == len(second) == 60
    assert first != second


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("", "is empty"),
        ("{tabel}", r"has \{tabel\}, which is not known here"),
        ("{}", r"has \{\}, which is not known here"),
        ("{table", "has a brace that belongs to no name"),
        ("{table}}", "has a brace that belongs to no name"),
        ("{database}", r"must have \{table\} or \{topic\}"),
    ],
)
def test_a_template_that_cannot_work_is_refused(template: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Shelf(topic=template)


def test_an_output_may_allow_one_place_for_all_tables() -> None:
    heap = Heap()
    assert heap.place(ORIGIN, "t", TableName("dbo", "a")) == heap.place(ORIGIN, "t", TableName("dbo", "b")) == "all"
    assert not names_table(heap.destination_template)


def test_tables_that_would_share_a_place_are_found() -> None:
    tables = [TableName("dbo", "Persons"), TableName("sales", "Persons"), TableName("dbo", "Orders")]
    places = [(str(each), rendered("{table}", values_of(ORIGIN, "t", each))) for each in tables]
    assert list(colliding(places)) == [("dbo.Persons", "sales.Persons", "Persons")]
