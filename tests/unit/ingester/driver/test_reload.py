"""Old settings and new ones: which are taken over at once, and which are only reported."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.names import TRANSACTIONS, TableName
from ingester.change import Operation
from ingester.driver.reload import ReloadPlan, plan, rhythms, shapes, snapshot_rules
from ingester.driver.schedule import Rhythm
from ingester.history.rules import TableRules
from ingester.settings import IngesterSettings

SECRET = "hunter2-hunter2"
BUS = "Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey="
PERSONS, ORDERS, ITEMS = TableName("dbo", "Persons"), TableName("sales", "Orders"), TableName("dbo", "Items")


def settings(*tables: str, **others: Any) -> IngesterSettings:
    values: dict[str, Any] = {
        "db_type": "sqlserver",
        "db_connection_string": "sqlserver://u:p@sql01?database=Shop",
        "queue": {"type": "servicebus", "name": "q", "connection_string": BUS + "first-key"},
        "locks": {"type": "local"},
        "tables": tables,
        **others,
    }
    return IngesterSettings.model_validate(values)


def planned(old: IngesterSettings, new: IngesterSettings) -> ReloadPlan:
    return plan(old, rhythms(old), shapes(old), new)


def test_nothing_is_to_be_done_for_the_same_settings() -> None:
    found = planned(settings("Persons", "sales.Orders"), settings("sales.Orders", "Persons"))
    assert not found.changes
    assert found.restart == ()


def test_tables_are_added_and_removed() -> None:
    found = planned(settings("Persons", "sales.Orders"), settings("Persons", "Items"))
    assert found.changes.added == {ITEMS: Rhythm(5.0, 120.0)}
    assert found.changes.removed == {ORDERS}
    assert found.changes.paced == {}
    assert set(found.tables) == {PERSONS, ITEMS}
    assert found.restart == ()


def test_other_defaults_pace_the_tables_without_an_override_and_an_override_its_own() -> None:
    own = {"overrides": ({"table_name": "Persons", "max_poll_interval": timedelta(minutes=10)},)}
    old = settings("Persons", "sales.Orders", "Items")
    found = planned(old, settings("Persons", "sales.Orders", "Items", tables_overrides=own))
    assert found.changes.paced == {PERSONS: Rhythm(5.0, 600.0)}
    defaults = {"max_poll_interval": timedelta(seconds=30)}
    found = plan(
        old,
        found.tables,
        found.shapes,
        settings("Persons", "sales.Orders", "Items", tables_overrides=own, poll_interval_defaults=defaults),
    )
    assert found.changes.paced == {ORDERS: Rhythm(5.0, 30.0), ITEMS: Rhythm(5.0, 30.0)}
    assert found.restart == ()


def test_every_other_setting_is_named_as_wanting_a_restart_and_the_rest_is_done_all_the_same() -> None:
    new = settings(
        "Persons",
        "Items",
        page_rows=10,
        on_gap="skip",
        queue={"name": "q", "connection_string": BUS + SECRET, "ordering": "key"},
        spark={"conf": {"spark.executor.memory": "1g"}},
    )
    found = planned(settings("Persons"), new)
    assert set(found.changes.added) == {ITEMS}
    assert set(found.restart) == {
        "ingester.page_rows",
        "ingester.on_gap",
        "ingester.queue.connection_string",
        "ingester.queue.ordering",
        "ingester.spark.conf",
    }
    assert SECRET not in repr(found)


def test_what_wants_a_restart_is_told_again_until_there_was_one() -> None:
    old, new = settings("Persons"), settings("Persons", on_gap="skip")
    assert (
        planned(old, new).restart
        == plan(old, planned(old, new).tables, shapes(old), new).restart
        == ("ingester.on_gap",)
    )


def test_a_table_that_is_only_spelled_anew_stays_as_it_is() -> None:
    found = planned(settings("Persons"), settings("persons", poll_interval_defaults={"poll_interval": timedelta(1e-4)}))
    assert not found.changes.added
    assert not found.changes.removed
    assert set(found.changes.paced) == set(found.tables) == {PERSONS}
    assert found.restart == ("the spelling of dbo.persons in ingester.tables",)


def test_snapshots_are_taken_over_at_once_for_the_tables_as_they_run() -> None:
    own = {"overrides": ({"table_name": "persons", "snapshot": {"mode": "when_needed", "exact": True}},)}
    found = planned(settings("Persons"), settings("persons", "Items", tables_overrides=own, on_gap="snapshot"))
    assert found.snapshots.of(PERSONS) == TableRules(initial=True, after_gap=True, exact=True)
    assert found.snapshots.of(ITEMS) == TableRules()  # on_gap needs a restart
    assert "ingester.on_gap" in found.restart
    assert not any("snapshot" in name for name in found.restart)


def test_transactions_are_polled_as_tables_are_by_default_and_have_no_snapshots() -> None:
    old = settings("Persons", transactions=True, on_gap="snapshot")
    assert rhythms(old)[TRANSACTIONS] == rhythms(settings("Persons"))[TableName("dbo", "Persons")]
    assert TRANSACTIONS not in snapshot_rules(old, on_gap="snapshot").tables


def test_transactions_come_and_go_with_a_restart_alone() -> None:
    without, with_them = settings("Persons"), settings("Persons", transactions=True)
    for old, new in ((without, with_them), (with_them, without)):
        decided = planned(old, new)
        assert not decided.changes
        assert decided.restart == ("ingester.transactions",)
    assert not planned(with_them, settings("Persons", transactions=True)).changes


BEFORE = "before != null && before.Status != data.Status"
TOTAL = "type(data.Total) == double && data.Total > 100.0"


@pytest.mark.parametrize(
    ("started", "edit", "setting"),
    [
        ({}, {"before_images": True, "shape": {"filter": BEFORE}}, "before_images"),
        ({}, {"decimals": "number", "shape": {"filter": TOTAL}}, "decimals"),
        ({"transactions": True}, {"shape": {"skip_operations": ("Delete",)}}, "transactions"),
        ({"transactions": True}, {"shape": {"skip_unchanged": True}}, "transactions"),
        ({"transactions": True}, {"shape": {"filter": "true"}}, "transactions"),
    ],
)
def test_what_leaves_changes_out_waits_for_the_settings_that_it_needs_and_masks_do_not(
    started: dict[str, Any], edit: dict[str, Any], setting: str
) -> None:
    """A filter that compares with the row before lets no update pass while there is none."""
    edit["shape"] |= {"mask": {"Email": "redact"}, "exclude_columns": ("Note",)}
    old, new = settings("Persons", **started), settings("Persons", "Items", **edit)
    found = planned(old, new)
    shape = found.shapes[PERSONS]
    assert (shape.filter, shape.skip_operations, shape.skip_unchanged) == (None, (), False)
    assert ([name for name, _ in shape.masks], shape.excluded) == (["Email"], ("Note",))
    assert not found.changes.added  # without its filter, dbo.Items would send what it is not to send
    assert set(found.restart) == {
        f"what is left out of dbo.Persons, dbo.Items, with ingester.{setting}",
        f"ingester.{setting}",
    }
    assert plan(old, found.tables, found.shapes, new) == found  # a look that finds other tables tells the same


def test_a_filter_that_waits_leaves_the_one_in_force() -> None:
    old = settings("Persons", shape={"filter": "data.Status == 'paid'", "skip_operations": ("Delete",)})
    new = settings("Persons", before_images=True, shape={"filter": BEFORE})
    shape = planned(old, new).shapes[PERSONS]
    assert (shape.filter, shape.skip_operations) == ("data.Status == 'paid'", (Operation.DELETE,))


@pytest.mark.parametrize(
    ("started", "edit"),
    [
        ({"before_images": True}, {"shape": {"filter": BEFORE}, "before_images": True}),
        ({}, {"shape": {"filter": "data.Status == 'paid'"}, "before_images": True}),
        ({"shape": {"filter": TOTAL}}, {"shape": {"filter": TOTAL}, "decimals": "number"}),
        ({"shape": {"filter": TOTAL}}, {"decimals": "number"}),
        ({"shape": {"skip_operations": ("Delete",)}}, {"transactions": True}),
    ],
)
def test_a_filter_that_fits_the_settings_in_force_is_taken_over_at_once(
    started: dict[str, Any], edit: dict[str, Any]
) -> None:
    new = settings("Persons", **edit)
    found = planned(settings("Persons", **started), new)
    assert found.shapes == shapes(new)
    assert not [name for name in found.restart if "left out" in name]
