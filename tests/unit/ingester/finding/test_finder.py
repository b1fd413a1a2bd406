"""What is passed on of the tables that patterns find, and what the log says of them."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from common.errors import ConnectionLost, DStreamError, PermanentError, TransientError
from common.names import TableName
from ingester.finding.finder import PATIENCE, Finder
from ingester.finding.matches import UnderCdc
from ingester.settings import IngesterSettings
from tests.unit.ingester.driver.test_reload import settings


class World:
    """A database with tables under CDC, and an ingester with patterns."""

    def __init__(self, *entries: str, there: tuple[str, ...] = (), **others: Any) -> None:
        self.there: tuple[str, ...] = there
        self.hidden = 0
        self.fault: DStreamError | None = None
        self.looks = 0
        self.former: dict[str, str] = {}
        self.taken: list[tuple[list[str], bool]] = []
        self.masked: list[str] = []
        self.trouble: str | None = None
        self.finder = Finder(settings(*entries, **others), self._look_up, self._report)

    def _look_up(self) -> UnderCdc:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        former = {TableName(*each.split(".")): name for each, name in self.former.items()}
        return UnderCdc(tuple(TableName(*each.split(".")) for each in self.there), self.hidden, former=former)

    def _report(self, why: str | None) -> None:
        self.trouble = why

    def take(self, new: IngesterSettings, edited: bool) -> None:
        self.taken.append((names(new), edited))
        self.masked = [table.name.key for table in new.schedule if table.shape.masks]

    def begun(self) -> tuple[list[str], list[Any]]:
        with capture_logs() as logs:
            found = names(self.finder.begin())
        self.finder._take = self.take
        return found, [tuple(line.values()) for line in map(brief, logs)]

    def look(self, *there: str) -> list[Any]:
        self.there = there
        return self.again()

    def again(self) -> list[Any]:
        with capture_logs() as logs:
            self.finder.look()
        return [tuple(line.values()) for line in map(brief, logs)]


def masked(table: str) -> dict[str, Any]:
    return {"tables_overrides": {"overrides": ({"table_name": table, "mask": {"Email": "redact"}},)}}


def names(of: IngesterSettings) -> list[str]:
    return [table.key for table in of.tables]


def brief(line: Any) -> dict[str, Any]:
    return {name: line[name] for name in ("log_level", "event", "table", "pattern", "other") if name in line}


def test_without_patterns_nothing_is_asked_and_the_settings_stay_as_they_are() -> None:
    world = World("Persons", "!sales.*")
    assert world.finder.begin() is world.finder._file
    assert world.again() == []
    assert world.looks == 0


def test_each_match_is_logged_once_and_what_is_excluded_never() -> None:
    world = World("Persons", "sales.*", "!sales.Audit*", there=("dbo.Persons", "sales.Orders", "sales.AuditLog"))
    assert world.begun() == (["dbo.Persons", "sales.Orders"], [("info", "table matched", "sales.Orders", "sales.*")])
    assert world.look("dbo.Persons", "sales.Orders", "sales.AuditLog") == []
    assert world.taken == []
    assert world.look("sales.Orders", "sales.Items", "sales.AuditLog2") == [
        ("info", "table matched", "sales.Items", "sales.*")
    ]
    assert world.taken == [(["dbo.Persons", "sales.Items", "sales.Orders"], False)]


def test_a_pattern_without_a_match_is_one_warning_until_it_has_one() -> None:
    world = World("sales.*", "hr.*")
    nothing = [("warning", "pattern matches no table", pattern) for pattern in ("sales.*", "hr.*")]
    assert world.begun() == ([], nothing)
    assert world.again() == []
    assert world.look("sales.Orders") == [("info", "table matched", "sales.Orders", "sales.*")]
    assert world.look() == []
    assert ("warning", "pattern matches no table", "sales.*") in world.look()


def test_a_table_leaves_with_the_second_look_that_does_not_find_it() -> None:
    """A migration disables capture and enables it again, to add a column."""
    world = World("sales.*", there=("sales.A", "sales.B"))
    world.begun()
    assert world.look("sales.B") == []
    assert world.look("sales.A", "sales.B") == []
    assert world.taken == []
    assert world.look("sales.B") == []
    assert world.look("sales.B") == [("warning", "table no longer under Change Data Capture", "sales.A")]
    assert world.taken == [(["sales.B"], False)]
    assert world.look("sales.B", "sales.A") == [("info", "table matched", "sales.A", "sales.*")]


def test_a_table_that_was_renamed_before_it_was_read_comes_with_its_new_name() -> None:
    world = World("sales.*", there=("sales.A",))
    world.begun()
    world.look("sales.B")
    world.look("sales.B")
    assert [tables for tables, _ in world.taken] == [["sales.A", "sales.B"], ["sales.B"]]


def test_another_spelling_is_no_second_table() -> None:
    world = World("sales.*", there=("sales.a",))
    world.begun()
    assert world.look("sales.A") == [("info", "table matched", "sales.A", "sales.*")]
    assert world.taken == [(["sales.A"], False)]  # the reload keeps the spelling that runs


def test_of_two_tables_with_one_topic_the_second_is_an_error_once() -> None:
    world = World("*", there=("dbo.orders", "dbo.Orders"))
    found, logs = world.begun()
    assert found == ["dbo.orders"]
    assert ("error", "table left out: another has its topic", "dbo.Orders", "dbo.orders") in logs
    assert world.again() == []


def test_tables_that_the_login_may_not_see_are_one_warning() -> None:
    world = World("*", there=("dbo.A",))
    world.hidden = 2
    assert world.begun()[1][-1] == ("warning", "tables under Change Data Capture are hidden from the login")
    assert world.again() == []


def test_an_override_without_a_table_is_one_warning_because_its_masks_hold_nowhere() -> None:
    own = {"overrides": ({"table_name": "sales.Oders"}, {"table_name": "sales.Items"})}
    world = World("sales.*", there=("sales.Orders", "sales.Items"), tables_overrides=own)
    assert world.begun()[1][-1] == ("warning", "override holds for no table", "sales.Oders")
    assert world.again() == []


def test_trouble_that_lasts_is_one_line_and_one_when_it_is_over_and_the_tables_stay() -> None:
    world = World("sales.*", there=("sales.A",))
    world.begun()
    world.fault = TransientError("the catalog is locked")
    logs = [world.again() for _ in range(PATIENCE + 3)]
    assert logs == [
        [],
        [],
        [("warning", "tables that patterns match cannot be looked up, retrying")],
        *[[]] * PATIENCE,
    ]
    assert "the catalog is locked" in (world.trouble or "")
    world.fault = None
    assert world.again() == [("info", "tables that patterns match can be looked up again")]
    assert (world.trouble, world.taken) == (None, [])


def test_a_moments_trouble_is_not_told() -> None:
    world = World("sales.*", there=("sales.A",))
    world.begun()
    world.fault = TransientError("the catalog is locked")
    assert (world.again(), world.trouble) == ([], None)
    world.fault = None
    assert world.again() == []


def test_a_locked_catalog_does_not_hold_up_the_start() -> None:
    world = World("Persons", "sales.*", there=("sales.A",))
    world.fault = TransientError("the catalog is locked")
    found, logs = world.begun()
    assert found == ["dbo.Persons"]
    assert logs == [("warning", "tables that patterns match cannot be looked up, retrying")]
    world.fault = None
    assert world.again()[-1] == ("info", "table matched", "sales.A", "sales.*")
    assert world.taken == [(["dbo.Persons", "sales.A"], False)]


@pytest.mark.parametrize("fault", [PermanentError("no right"), ConnectionLost("no server")])
def test_a_start_that_cannot_work_ends(fault: DStreamError) -> None:
    world = World("sales.*")
    world.fault = fault
    with pytest.raises(type(fault)):
        world.finder.begin()


def test_an_edit_is_passed_on_with_the_tables_that_are_known() -> None:
    world = World("sales.*", there=("sales.A", "hr.B"))
    world.begun()
    world.finder.configured(settings("sales.*", "hr.*"))
    assert world.taken == [(["hr.B", "sales.A"], True)]
    world.finder.configured(settings("sales.*", "hr.*"))
    assert world.taken[1:] == [(["hr.B", "sales.A"], True)]  # the reload decides whether it changes anything
    assert world.looks == 1


def test_the_first_patterns_of_an_edit_wait_for_a_look_and_what_it_says_of_the_tables_that_run_does_not() -> None:
    """A mask that waited for a locked catalog would not be in force."""
    world = World("sales.A", "Persons", there=("sales.A", "sales.B"))
    world.begun()
    world.fault = TransientError("the catalog is locked")
    world.finder.configured(settings("Items", "sales.*", **masked("sales.A")))
    world.again()
    assert world.taken == [(["dbo.Items", "sales.A"], True)]  # the file names dbo.Persons no more
    assert world.masked == ["sales.A"]
    world.fault = None
    assert world.again()[-1] == ("info", "table matched", "sales.B", "sales.*")
    assert world.taken[1:] == [(["dbo.Items", "sales.A", "sales.B"], False)]
    world.finder.configured(settings("sales.B"))
    assert world.again() == []
    assert world.taken[2:] == [(["sales.B"], True)]


def test_an_edit_holds_also_where_no_look_has_succeeded_since_the_start() -> None:
    world = World("Persons", "sales.*")
    world.fault = TransientError("the catalog is locked")
    world.begun()
    world.finder.configured(settings("Persons", "sales.*", **masked("Persons")))
    assert (world.taken, world.masked) == ([(["dbo.Persons"], True)], ["dbo.Persons"])


def test_a_renamed_table_waits_until_it_is_named() -> None:
    """The masks of its former name do not hold for it."""
    world = World("sales.*", there=("sales.A",), **masked("sales.A"))
    world.begun()
    world.former = {"sales.B": "sales.A"}
    assert world.look("sales.B") == [("error", "table left out: it was renamed", "sales.B")]
    left = ("warning", "table no longer under Change Data Capture", "sales.A")
    assert world.again() == [left, ("warning", "override holds for no table", "sales.A")]
    assert (world.again(), world.taken) == ([], [([], False)])
    world.finder.configured(settings("sales.*", "sales.B"))
    assert world.taken[1:] == [(["sales.B"], True)]


def test_a_table_that_a_slip_in_an_override_may_mean_waits_and_one_that_is_sent_goes_on() -> None:
    world = World("*.*", there=("sales.Customers",), **masked("Customers"))
    waits = ("error", "table left out: an override may mean it", "sales.Customers")
    assert world.begun() == ([], [waits, ("warning", "override holds for no table", "dbo.Customers")])
    assert world.again() == []
    world = World("*.*", there=("sales.Customers",))
    assert world.begun()[0] == ["sales.Customers"]
    world.finder.configured(settings("*.*", **masked("Customers")))
    assert world.again() == []
    assert world.taken == [(["sales.Customers"], True)]
