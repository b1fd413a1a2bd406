"""A catalog that the server does not tell, because one table's description is locked: the tables that are known go on."""

from __future__ import annotations

from functools import partial

import pytest

from common.clock import SteadyTime
from common.errors import DStreamError, PermanentError, TransientError
from ingester.driver.catalog_news import CatalogAge
from ingester.driver.loop import Loop
from tests.fakes.ingester import ORDERS, PERSONS, instance, lsn, position
from tests.unit.ingester.driver.test_loop import World, standings

LOCKED = TransientError("error 1222: Lock request time out period exceeded.", hint="see sys.dm_tran_locks")
REFUSALS: list[DStreamError] = [LOCKED, PermanentError("permission denied", hint="GRANT SELECT ON SCHEMA::cdc")]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


@pytest.mark.parametrize("refusal", REFUSALS, ids=["locked", "refused"])
def test_changes_flow_while_the_catalog_is_refused_and_it_is_told_once_with_its_end(refusal: DStreamError) -> None:
    world = World()
    world.at(20, lambda: setattr(world.source, "catalog_away", refusal))
    world.at(60, lambda: world.commit(2))
    world.at(100, lambda: world.commit(3))
    world.at(140, lambda: world.snapshot.append((len(world.sent()), standings(world), world.stats.ready())))
    world.at(140, lambda: setattr(world.source, "catalog_away", None))
    status, logs = world.run(240)
    assert (status, world.snapshot) == (0, [(6, {"read"}, None)])
    warned = [(entry["event"].split(",")[0], entry["error"], entry["hint"]) for entry in logs if "hint" in entry]
    assert warned == [("the list of capture instances cannot be read", refusal.message, refusal.hint)]
    assert [entry["event"] for entry in logs].count("the list of capture instances was read again") == 1


def test_it_is_not_asked_for_more_often_while_it_is_refused_though_a_table_is_missing() -> None:
    world = World()
    del world.source.instances[ORDERS]
    world.at(20, lambda: setattr(world.source, "catalog_away", LOCKED))
    world.at(20, lambda: setattr(world.source, "catalog_asked", 0))
    world.at(100, lambda: world.commit(2))
    _, logs = world.run(320)
    assert len(world.sent()) == 3
    assert 5 <= world.source.catalog_asked <= 11
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"][1:] == [
        "the list of capture instances cannot be read, using the known ones, retrying"
    ]


def test_without_any_known_table_all_wait_and_it_is_told_as_such() -> None:
    world = World()
    world.source.catalog_away = LOCKED
    world.at(60, lambda: world.snapshot.append(world.stats.ready()))
    world.at(100, lambda: setattr(world.source, "catalog_away", None))
    world.at(110, lambda: world.commit(2))
    _, logs = world.run(240)
    assert world.snapshot[0] is not None
    assert [e["event"] for e in logs if e["log_level"] == "warning"] == [
        "SQL Server does not answer for the tables, retrying"
    ]
    assert len(world.sent()) == 3


def test_a_newer_capture_instance_is_handed_over_to_although_it_was_made_behind_a_refused_catalog() -> None:
    """Until the list has the new instance, nothing is read past a probe with another stamp: no row is lost or sent twice."""
    world = World()

    def made() -> None:
        first, newer = instance(PERSONS), instance(PERSONS, name="dbo_Persons_2", start=5)
        world.source.instances[PERSONS] = (first, newer)
        both = [position(5, seq=1), position(6, seq=1)]
        world.source.rows[first.name] += [position(4, seq=1), *both]
        world.source.rows[newer.name] = both
        world.source.max_lsn, world.source.stale = lsn(6), True

    world.at(3, lambda: world.commit(2))
    world.at(20, lambda: setattr(world.source, "catalog_away", LOCKED))
    world.at(60, made)
    world.at(100, lambda: world.snapshot.append(len(world.sent())))
    world.at(100, lambda: setattr(world.source, "catalog_away", None))
    world.run(240)
    assert world.snapshot == [3]
    assert [message_id.split(":")[1].split("-")[0] for message_id in world.sent()[3:]] == [
        lsn(n).hex for n in (4, 5, 6)
    ]


def test_a_table_whose_offset_is_anothers_is_not_read_before_the_catalog_has_said_what_became_of_that_one() -> None:
    world = World()
    world.source.instances[PERSONS] = (instance(source="2 made on tuesday"),)
    world.offsets.sources[PERSONS] = "1 made on monday"
    first = world.source.states
    asked: list[int] = []

    def once(*arguments: object) -> object:
        asked.append(1)
        if 1 < len(asked) < 4:
            raise LOCKED
        return first(*arguments)  # type: ignore[arg-type]

    world.source.states = once  # type: ignore[method-assign, assignment]
    world.at(1, lambda: world.commit(2))
    world.at(25, lambda: world.snapshot.append(len(world.sent())))
    world.run(200)
    assert len(asked) > 3
    assert world.snapshot == [0]


def test_it_is_told_once_that_capture_holds_the_logs_times_and_once_that_it_is_over() -> None:
    world = World()
    world.at(20, lambda: setattr(world.source, "capture_holds", True))
    world.at(80, lambda: setattr(world.source, "capture_holds", False))
    world.at(90, lambda: world.commit(2))
    _, logs = world.run(200)
    told = [entry["event"] for entry in logs if "the log's times" in entry["event"]]
    assert told == [
        "capture holds the log's times, going on up to what it had captured before",
        "capture no longer holds the log's times",
    ]
    assert len(world.sent()) == 3


def test_the_catalog_is_read_where_no_change_waits_for_it_and_at_last_in_any_case() -> None:
    """With a thousand tables it takes a quarter of a second."""
    now = 0.0
    age = CatalogAge(lambda: SteadyTime(now))
    assert age.due(missing=False, quiet=lambda: 0.0)
    with age.reading():
        now += 0.25
    for later, quiet, due in ((30, 9.0, False), (31, 0.2, False), (31, 0.3, True), (60, 0.2, False), (61, 0.0, True)):
        now = later
        assert age.due(missing=False, quiet=partial(float, quiet)) is due
    now = 31
    assert age.due(missing=True, quiet=lambda: 0.0)


def test_the_catalog_of_thousands_of_tables_is_read_less_often_as_long_as_it_takes() -> None:
    now = 0.0
    age = CatalogAge(lambda: SteadyTime(now))
    with age.reading():
        now += 3.0
    for later, due in ((32.0, False), (92.0, False), (94.0, True)):
        now = later
        assert age.due(missing=False, quiet=lambda: 9.0) is due


def waits(*readings: float, quiet: float = 9.0) -> float:
    """Seconds until the catalog is due after readings that took so long."""
    now = 0.0
    age = CatalogAge(lambda: SteadyTime(now))
    for seconds in readings:
        with age.reading():
            now += seconds
    read = now
    while not age.due(missing=False, quiet=lambda: quiet):
        now += 1.0
    return now - read


def test_one_slow_reading_of_the_catalog_does_not_put_off_the_next() -> None:
    assert waits(0.25, 0.25, 20.0) == 30.0
    assert waits(0.25, 0.25, 20.0, quiet=0.0) == 60.0
    assert waits(20.0) <= 90.0


def test_the_catalog_is_read_every_five_minutes_however_long_it_takes_and_every_ten_beside_changes() -> None:
    assert waits(*[20.0] * 8, quiet=60.0) == 300.0
    assert waits(*[20.0] * 8, quiet=0.0) == 600.0
