"""Which tables patterns find, and what the settings with their names are."""

from __future__ import annotations

from typing import Any

import pytest

from common.names import TableName
from common.table_selection import TableSelection
from ingester.driver.reload import rhythms
from ingester.driver.schedule import Rhythm
from ingester.finding.judge import judge
from ingester.finding.matches import UnderCdc, matches
from tests.unit.ingester.driver.test_reload import settings


def table(text: str) -> TableName:
    return TableName(*text.split("."))


def found(entries: list[str], under_cdc: list[str], **others: Any) -> tuple[list[str], list[tuple[str, str]]]:
    result = matches(settings(*entries, **others), UnderCdc(tuple(table(each) for each in under_cdc)))
    return [each.key for each in result.settings.tables], [(one.key, other.key) for one, other in result.colliding]


def test_exact_names_come_first_and_those_that_were_found_by_their_names() -> None:
    there = ["sales.Orders", "sales.Items", "dbo.Persons", "sales.AuditLog", "hr.People"]
    assert found(["Persons", "sales.*", "!sales.Audit*"], there) == (["dbo.Persons", "sales.Items", "sales.Orders"], [])
    assert found(["sales.*"], []) == ([], [])


def test_the_result_has_names_alone() -> None:
    result = matches(settings("sales.*"), UnderCdc((table("sales.Orders"),)))
    assert result.settings.selection == TableSelection((table("sales.Orders"),))
    assert {each.key: str(pattern) for each, pattern in result.found.items()} == {"sales.Orders": "sales.*"}


def test_of_names_that_differ_in_case_the_oldest_table_is_sent() -> None:
    assert found(["*"], ["dbo.orders", "dbo.Orders"]) == (["dbo.orders"], [("dbo.orders", "dbo.Orders")])


def test_a_table_that_is_named_exactly_is_sent_before_one_that_is_found() -> None:
    there = ["dbo.orders", "dbo.Orders"]
    assert found(["Orders", "*"], there) == (["dbo.Orders"], [("dbo.Orders", "dbo.orders")])
    assert found(["ORDERS", "*"], ["dbo.Orders"]) == (["dbo.ORDERS"], [])  # the server does not tell them apart


def test_no_pattern_finds_dstreams_own_tables() -> None:
    own = ["dbo.cdc_offsets", "dbo.CDC_SNAPSHOTS", "dbo.cdc_offset_moves", "dbo.cdc_schemas", "dbo.cdc_pauses"]
    assert found(["*.*"], [*own, "sales.cdc_offsets"]) == (["sales.cdc_offsets"], [])
    assert found(["cdc_offsets", "*"], own) == (["dbo.cdc_offsets"], [])


def test_an_override_holds_for_a_table_however_the_server_spells_it() -> None:
    own = {"overrides": ({"table_name": "SALES.orders", "poll_interval": "1s"}, {"table_name": "sales.None"})}
    given = settings("Persons", "sales.*", tables_overrides=own)
    result = matches(given, UnderCdc((table("sales.Orders"),))).settings
    assert rhythms(result) == {table("dbo.Persons"): Rhythm(5.0, 120.0), table("sales.Orders"): Rhythm(1.0, 120.0)}


def test_an_override_holds_for_a_table_that_the_file_spells_in_two_ways() -> None:
    """Without its override a table would be sent without its masks."""
    own = {"overrides": ({"table_name": "Orders", "poll_interval": "1s"},)}
    result = matches(settings("ORDERS", "*", tables_overrides=own), UnderCdc((table("dbo.Orders"),))).settings
    assert rhythms(result) == {table("dbo.ORDERS"): Rhythm(1.0, 120.0)}


def test_two_thousand_tables_are_matched_at_once() -> None:
    there = [f"s{number % 7}.Table{number}" for number in range(2_000)]
    assert len(found(["s?.*", "!*.Table1"], there)[0]) == 1_999


def test_a_renamed_table_is_left_out_unless_it_is_named_exactly() -> None:
    old, new = table("sales.Customers"), table("sales.Clients")
    there = UnderCdc((new,), former={new: old.key})
    found = matches(settings("sales.*"), there)
    assert (found.settings.tables, found.renamed) == ((), ((new, old.key),))
    named = matches(settings("sales.*", "sales.Clients"), there)
    assert (named.settings.tables, named.renamed) == ((new,), ())


def meant(override: dict[str, Any], under_cdc: list[str], *, before: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """What is sent, what waits, and what is in doubt, of tables some of which were sent `before`."""
    there = UnderCdc(tuple(table(each) for each in under_cdc), with_offset=frozenset(table(each) for each in before))
    result = matches(settings("*.*", tables_overrides={"overrides": (override,)}), there)
    one, other = ([each.key for each, _ in pairs] for pairs in (result.waiting, result.in_doubt))
    return [each.key for each in result.settings.tables], one, other


@pytest.mark.parametrize(
    "limit", [{"mask": {"A": "null"}}, {"columns": ("A",)}, {"exclude_columns": ("A",)}, {"filter": "data.A > 1"}]
)
def test_a_table_that_an_override_without_a_table_may_mean_is_left_out(limit: dict[str, Any]) -> None:
    """`Customers` is dbo.Customers: a slip would send sales.Customers without its masks."""
    override = {"table_name": "Customers", **limit}
    sales, others = "sales.CUSTOMERS", ["sales.CustomersOld", "sales.Items"]
    assert meant(override, [sales, *others]) == (sorted(others), [sales], [])
    assert meant(override, [sales, *others], before=(sales,)) == (sorted([sales, *others]), [], [sales])
    assert meant(override, [sales, "dbo.Customers"])[1:] == ([], [])


def test_an_override_of_polling_holds_up_nothing_and_a_tables_own_override_says_that_no_other_is_meant() -> None:
    assert meant({"table_name": "Customers", "poll_interval": "1s"}, ["sales.Customers"])[1:] == ([], [])
    own = ({"table_name": "Customers", "mask": {"A": "null"}}, {"table_name": "sales.Customers"})
    there = UnderCdc((table("sales.Customers"),))
    assert matches(settings("*.*", tables_overrides={"overrides": own}), there).waiting == ()


def test_check_fails_of_a_renamed_table_and_of_one_that_an_override_may_mean() -> None:
    new, sales, hr = table("sales.Clients"), table("sales.Customers"), table("hr.Customers")
    own = {"overrides": ({"table_name": "Customers", "mask": {"A": "null"}},)}
    given = settings("*.*", tables_overrides=own)
    there = UnderCdc((new, sales, hr), 0, frozenset({hr}), {new: "sales.Old"})
    said = [str(each) for each in judge(given, there, matches(given, there))]
    begins = [line.partition("table: ")[0] for line in said if line.startswith("fail")]
    assert begins[0].startswith("fail  table sales.Clients: left out, because it was renamed from sales.Old: ")
    assert begins[1].startswith(
        "fail  table sales.Customers: left out, and the override of dbo.Customers holds for no "
    )
    assert begins[2].startswith(
        "fail  table hr.Customers: is sent without an override, and the override of dbo.Customers"
    )
    assert len(begins) == 3
