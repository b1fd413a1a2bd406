"""Which tables patterns find, and what the settings with their names are."""

from __future__ import annotations

from typing import Any

from common.names import TableName
from common.table_selection import TableSelection
from ingester.driver.reload import rhythms
from ingester.driver.schedule import Rhythm
from ingester.finding.matches import matches
from tests.unit.ingester.driver.test_reload import settings


def table(text: str) -> TableName:
    return TableName(*text.split("."))


def found(entries: list[str], under_cdc: list[str], **others: Any) -> tuple[list[str], list[tuple[str, str]]]:
    result = matches(settings(*entries, **others), [table(each) for each in under_cdc])
    return [each.key for each in result.settings.tables], [(one.key, other.key) for one, other in result.colliding]


def test_exact_names_come_first_and_those_that_were_found_by_their_names() -> None:
    there = ["sales.Orders", "sales.Items", "dbo.Persons", "sales.AuditLog", "hr.People"]
    assert found(["Persons", "sales.*", "!sales.Audit*"], there) == (["dbo.Persons", "sales.Items", "sales.Orders"], [])
    assert found(["sales.*"], []) == ([], [])


def test_the_result_has_names_alone() -> None:
    result = matches(settings("sales.*"), [table("sales.Orders")])
    assert result.settings.selection == TableSelection((table("sales.Orders"),))
    assert {each.key: str(pattern) for each, pattern in result.found.items()} == {"sales.Orders": "sales.*"}


def test_of_names_that_differ_in_case_the_oldest_table_is_sent() -> None:
    assert found(["*"], ["dbo.orders", "dbo.Orders"]) == (["dbo.orders"], [("dbo.orders", "dbo.Orders")])


def test_a_table_that_is_named_exactly_is_sent_before_one_that_is_found() -> None:
    there = ["dbo.orders", "dbo.Orders"]
    assert found(["Orders", "*"], there) == (["dbo.Orders"], [("dbo.Orders", "dbo.orders")])
    assert found(["ORDERS", "*"], ["dbo.Orders"]) == (["dbo.ORDERS"], [])  # the server does not tell them apart


def test_no_pattern_finds_dstreams_own_tables() -> None:
    own = ["dbo.cdc_offsets", "dbo.CDC_SNAPSHOTS", "dbo.cdc_offset_moves", "dbo.cdc_schemas"]
    assert found(["*.*"], [*own, "sales.cdc_offsets"]) == (["sales.cdc_offsets"], [])
    assert found(["cdc_offsets", "*"], own) == (["dbo.cdc_offsets"], [])


def test_an_override_holds_for_a_table_however_the_server_spells_it() -> None:
    own = {"overrides": ({"table_name": "SALES.orders", "poll_interval": "1s"}, {"table_name": "sales.None"})}
    given = settings("Persons", "sales.*", tables_overrides=own)
    result = matches(given, [table("sales.Orders")]).settings
    assert rhythms(result) == {table("dbo.Persons"): Rhythm(5.0, 120.0), table("sales.Orders"): Rhythm(1.0, 120.0)}


def test_an_override_holds_for_a_table_that_the_file_spells_in_two_ways() -> None:
    """Without its override a table would be sent without its masks."""
    own = {"overrides": ({"table_name": "Orders", "poll_interval": "1s"},)}
    result = matches(settings("ORDERS", "*", tables_overrides=own), [table("dbo.Orders")]).settings
    assert rhythms(result) == {table("dbo.ORDERS"): Rhythm(1.0, 120.0)}


def test_two_thousand_tables_are_matched_at_once() -> None:
    there = [f"s{number % 7}.Table{number}" for number in range(2_000)]
    assert len(found(["s?.*", "!*.Table1"], there)[0]) == 1_999
