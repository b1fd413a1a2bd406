"""The state of a table, from what the stores say and what ingesters report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from desk.watching.tables import aged, document, state
from ingester.commands.status import Fault, TableStatus
from ingester.operating.moving import Held
from ingester.operating.offset_desk import Count, Lag
from ingester.operating.pauses import Pause

IDLE = TableStatus("dbo.Persons", Held.HELD, lag=Lag(Count(0), 0.0))
PAUSE = Pause("2026-11-23T08:00:00Z", "sa at desk-1", "a large import")


@pytest.mark.parametrize(
    ("changed", "standings", "expected"),
    [
        ({}, ["read"], "idle"),
        ({"lag": Lag(Count(3), 5.0)}, ["read"], "flowing"),
        ({"lag": Lag(Count(3), 61.0)}, ["read"], "behind"),
        ({"lag": Lag(Count(3), 61.0), "pause": PAUSE}, ["read"], "paused"),
        ({}, ["elsewhere", "stopped"], "stopped"),
        ({}, ["read", "stopped"], "idle"),
        ({"fault": Fault.GAP, "problem": "lost"}, ["stopped"], "gap"),
        ({"fault": Fault.ABSENT, "problem": "no such table"}, [], "absent"),
        ({"held": Held.FREE}, [], "nobody"),
        ({"held": Held.UNKNOWN}, [], "idle"),
        ({"lag": None}, ["read"], "unknown"),
    ],
)
def test_what_a_person_must_know_first_is_the_state(
    changed: dict[str, object], standings: list[str], expected: str
) -> None:
    assert state(replace(IDLE, **changed), frozenset(standings), lag=None, rate=None) == expected  # type: ignore[arg-type]


def test_where_changes_are_not_counted_the_ingester_says_how_far_behind_it_is() -> None:
    uncounted = replace(IDLE, lag=None, position="0x01")
    found = [state(uncounted, frozenset(), lag=lag, rate=None) for lag in (0.0, 5.0, 100.0)]
    assert found == ["idle", "flowing", "behind"]


def test_a_table_whose_offset_could_not_be_read_is_neither_idle_nor_flowing() -> None:
    unread = replace(IDLE, lag=None)
    assert [state(unread, frozenset(), lag=lag, rate=3.0) for lag in (0.0, 5.0)] == ["unknown", "unknown"]


def test_what_is_no_longer_read_has_no_lag() -> None:
    old = aged(document(replace(IDLE, position="0x01"), topic=None, rate=1.0))
    assert (old.state, old.lag, old.lock, old.changes_per_second) == ("unknown", None, "unknown", None)
    assert old.offset is not None


def test_a_document_has_what_is_known_and_none_for_the_rest() -> None:
    table = document(replace(IDLE, pause=PAUSE, retention=100.0), topic="s.d.persons.events", rate=2.5)
    assert (table.state, table.lock, table.topic, table.changes_per_second) == (
        "paused",
        "held",
        "s.d.persons.events",
        2.5,
    )
    assert table.pause is not None
    assert table.pause.reason == "a large import"
    assert (table.offset, table.snapshot, table.retention_seconds) == (None, None, 100.0)
    assert (aged(table).state, aged(table).lock, aged(table).topic) == ("unknown", "unknown", "s.d.persons.events")
