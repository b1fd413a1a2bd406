"""What wiring does at the start, and with a later configuration: the loop, the locks and the log hear of it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from common.names import TRANSACTIONS, TableName
from ingester import app as wiring
from ingester.app import _Reload
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.loop import Loop
from ingester.driver.reload import Shapes, TableChanges
from ingester.history.rules import SnapshotRules
from ingester.settings import IngesterSettings
from ingester.spark.launched import Launched
from tests.unit.ingester.driver.test_reload import BUS, SECRET, settings

ITEMS = TableName("dbo", "Items")


class World:
    """A running loop and its lease keeper, as far as they are told anything."""

    def __init__(self, started: IngesterSettings) -> None:
        self.changes: list[TableChanges] = []
        self.locks: dict[TableName, str] = {}
        self.places: list[str] = []
        self.keys: dict[str, str] = {}
        self.counted = list(started.tables)
        self.reload = _Reload(started, cast(Loop, self), cast(LeaseKeeper, self), self.keys, self.counted)

    def reconfigure(
        self, changes: TableChanges, lock_names: dict[TableName, str], snapshots: SnapshotRules, shapes: Shapes
    ) -> None:
        self.changes.append(changes)
        self.shapes = shapes
        self.locks |= lock_names

    def count_by(self, places: list[str]) -> None:
        self.places = places

    def take(self, new: IngesterSettings, *, edited: bool = True) -> list[Any]:
        with capture_logs() as logs:
            self.reload(new, edited)
        return [dict(entry) for entry in logs]


def shared(*tables: str, **others: Any) -> IngesterSettings:
    return settings(*tables, locks={"type": "sqlserver"}, **others)


def test_an_added_table_gets_a_lock_an_epoch_and_a_place_to_be_counted_at() -> None:
    world = World(shared("Persons"))
    [told] = world.take(shared("Persons", "Items"))
    assert (told["log_level"], told["tables"]) == ("info", 2)
    assert world.locks == {ITEMS: "sql01/Shop/dbo.Items.lock"}
    assert world.keys == {"sql01/Shop/dbo.Items.lock": "dbo.Items"}
    assert len(world.places) == 2


def test_an_ingester_does_not_lose_its_place_when_tables_are_removed() -> None:
    world = World(shared("Persons", "Items", "Orders"))
    world.take(shared("Persons"))
    assert len(world.places) == 3
    world.take(shared("Persons", "Items"))
    assert [sorted(table.key for table in changes.added) for changes in world.changes] == [[], ["dbo.Items"]]


def test_what_wants_a_restart_is_one_warning_without_a_value_and_the_locks_keep_their_names() -> None:
    world = World(shared("Persons"))
    new = shared("Persons", "Items", server_name="other", queue={"name": "q", "connection_string": BUS + SECRET})
    logs = world.take(new)
    [warning] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["settings"] == ["ingester.server_name", "ingester.queue.connection_string"]
    assert SECRET not in str(logs)
    assert world.locks == {ITEMS: "sql01/Shop/dbo.Items.lock"}


def test_the_same_settings_change_nothing() -> None:
    world = World(shared("Persons"))
    assert world.take(shared("Persons")) == []
    assert world.changes == []


def test_tables_that_patterns_find_later_come_in_as_by_an_edit_but_nothing_is_told_twice() -> None:
    world = World(shared("Persons"))
    other = {"server_name": "other"}
    assert [line["event"] for line in world.take(shared("Persons", **other))] == ["changed settings need a restart"]
    found = shared("Persons", "Items", **other)
    assert [line["event"] for line in world.take(found, edited=False)] == ["tables changed"]
    assert world.locks == {ITEMS: "sql01/Shop/dbo.Items.lock"}


def test_an_ingester_without_tables_has_no_place_and_gets_one_with_the_first() -> None:
    world = World(shared("*").model_copy(update={"tables": ()}))
    world.take(shared("Persons"), edited=False)
    assert world.places == ["sql01/Shop/ingester-0.lock"]


def test_the_tables_of_a_reload_are_those_whose_changes_count_in_transactions() -> None:
    world = World(shared("Persons", transactions=True))
    world.take(shared("Items", "Orders", transactions=True))
    assert sorted(table.key for table in world.counted) == ["dbo.Items", "dbo.Orders"]
    [changes] = world.changes
    assert sorted(table.key for table in changes.added) == ["dbo.Items", "dbo.Orders"]
    assert [table.key for table in changes.removed] == ["dbo.Persons"]


@pytest.mark.parametrize(("on_gap", "skips"), [("fail", False), ("skip", True), ("snapshot", True)])
def test_transactions_go_on_behind_a_gap_without_a_snapshot_unless_a_gap_is_to_stop_them(
    on_gap: str, skips: bool
) -> None:
    made = wiring._loop_settings(settings("Persons", transactions=True, on_gap=on_gap))
    assert made.skips(TRANSACTIONS) is skips
    assert made.skips(TableName("dbo", "Persons")) is (on_gap == "skip")
    assert TRANSACTIONS in made.lock_names
    assert TRANSACTIONS in made.tables


@pytest.mark.parametrize(
    ("master", "order"),
    [
        ("local[2]", ["start", "entered", "queue", "started", "closed"]),
        ("k8s://https://cluster", ["entered", "queue", "start", "started", "closed"]),
    ],
)
def test_a_cluster_is_asked_for_nothing_before_database_locks_and_queue_have_answered(
    master: str, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []

    class Spark:
        def __init__(self, *given: object, **named: object) -> None: ...

        def start(self, first: object) -> None:
            did.append("start")

        def started(self, stop: object) -> None:
            did.append("started")

        def close(self) -> None:
            did.append("closed")

    class Jvm:
        def close(self) -> None: ...

    monkeypatch.setattr("ingester.spark.executor.SparkExecutor", Spark)
    monkeypatch.setattr(wiring, "open_queue", lambda settings, stop: did.append("queue"))
    base = settings("Persons")
    asked = base.model_copy(update={"spark": base.spark.model_copy(update={"master": master})})
    with wiring._on_spark(threading.Event(), cast(Launched, Jvm()), asked) as begun:
        did.append("entered")
        with begun():
            pass
    assert did[:5] == order


def test_a_reload_changes_how_often_the_log_is_scanned() -> None:
    world = World(shared("Persons", poll_interval_defaults={"poll_interval": timedelta(seconds=2)}))
    pace = world.reload.pace
    assert pace.every == 2.0
    world.take(shared("Persons", poll_interval_defaults={"poll_interval": timedelta(seconds=30)}))
    assert pace.every == 30.0
    world.take(shared("Persons", poll_interval_defaults={"poll_interval": timedelta(milliseconds=10)}))
    assert pace.every == 0.1
