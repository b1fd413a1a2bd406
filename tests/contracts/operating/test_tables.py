"""What the console does to tables, at real stores: the same as the commands, with the person's name in the database."""

from __future__ import annotations

import os

import pytest

from common.errors import ConfigurationError
from desk.desk import Actor, Conflict, NotFound
from desk.documents.tables import OffsetOrder, PauseOrder, SnapshotOrder, Table
from desk.status import Stages
from desk.tables import StoredTables
from dstream.config import load_both
from tests.contracts.operating.conftest import Desk

EVE = Actor("eve", "page", "r-1")


class Seen:
    """What the console saw last."""

    def __init__(self) -> None:
        self.hurried = 0
        self.last = Table(table="dbo.Persons", state="idle", lock="held")

    def table(self, name: str) -> Table:
        return self.last

    def soon(self) -> None:
        self.hurried += 1


def _tables(desk: Desk) -> tuple[StoredTables, Seen]:
    desk.place.make_queue()
    seen = Seen()
    return StoredTables(lambda: Stages(*load_both(desk.config(), os.environ)), seen), seen


def test_a_table_is_paused_and_resumed_once_and_the_database_knows_who(desk: Desk) -> None:
    tables, seen = _tables(desk)
    paused = tables.pause("persons", PauseOrder(reason="an import"), EVE)
    assert (paused.state, seen.hurried) == ("paused", 1)
    assert paused.pause is not None
    assert paused.pause.reason == "eve through the console: an import"
    with pytest.raises(Conflict, match="paused already, since"):
        tables.pause("dbo.Persons", PauseOrder(), EVE)
    seen.last = paused
    resumed = tables.resume("dbo.Persons", PauseOrder(), EVE)
    assert (resumed.pause, resumed.state) == (None, "unknown")
    with pytest.raises(Conflict, match="not paused"):
        tables.resume("dbo.Persons", PauseOrder(), EVE)
    [row] = desk.rows("SELECT reason, resume_reason FROM dbo.cdc_pauses")
    assert row == ("eve through the console: an import", "eve through the console")


def test_what_is_not_there_is_not_found(desk: Desk) -> None:
    tables, _ = _tables(desk)
    for call in (
        lambda: tables.pause("dbo.Nothing", PauseOrder(), EVE),
        lambda: tables.move_offset("dbo.Nothing", OffsetOrder(latest=True), EVE),
        lambda: tables.moves("dbo.Nothing", 5),
        lambda: tables.snapshots("dbo.Nothing", 5),
        lambda: tables.change_snapshot("0123456789ab", "pause", EVE),
        lambda: tables.change_snapshot("Persons'; --", "pause", EVE),
    ):
        with pytest.raises(NotFound):
            call()


def test_an_offset_is_moved_when_no_confirmation_is_lacking(desk: Desk) -> None:
    tables, _ = _tables(desk)
    desk.insert(1, 2)
    with pytest.raises(ConfigurationError, match="exactly one"):
        tables.move_offset("Persons", OffsetOrder(latest=True, earliest=True), EVE)
    dry = tables.move_offset("Persons", OffsetOrder(latest=True), EVE)
    assert (dry.moved, dry.dry_run, dry.skipped) == (False, True, "2 changes")
    assert [each.option for each in dry.lacking] == ["skip"]
    refused = tables.move_offset("Persons", OffsetOrder(latest=True, dry_run=False), EVE)
    assert (refused.moved, [each.option for each in refused.lacking]) == (False, ["skip"])
    assert tables.moves(None, 5) == []
    moved = tables.move_offset("Persons", OffsetOrder(latest=True, skip=True, dry_run=False, reason="a test"), EVE)
    assert (moved.moved, moved.lacking) == (True, [])
    [line] = tables.moves("persons", 5)
    assert (line.table, line.reason, line.login) == (
        "dbo.Persons",
        "eve through the console: a test",
        desk.place.login.user,
    )


def test_a_snapshot_is_planned_asked_for_paused_and_stopped(desk: Desk) -> None:
    tables, _ = _tables(desk)
    dry = tables.snapshot(SnapshotOrder(table="Persons"), EVE)
    assert (dry.id, dry.dry_run, dry.table) == (None, True, "dbo.Persons")
    assert any("none does now" in each for each in dry.remarks)
    assert tables.snapshots(None, 5) == []
    asked = tables.snapshot(SnapshotOrder(table="Persons", dry_run=False), EVE)
    assert asked.id is not None
    [found] = tables.snapshots("persons", 5)
    assert (found.id, found.state, found.table) == (asked.id, "waiting", "dbo.Persons")
    assert tables.change_snapshot(asked.id, "pause", EVE).state == "paused"
    assert tables.change_snapshot(asked.id, "stop", EVE).state == "stopped"
    with pytest.raises(Conflict, match="it is stopped"):
        tables.change_snapshot(asked.id, "resume", EVE)
