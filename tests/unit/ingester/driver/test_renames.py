"""A configured name that another table has taken: whose changes are read, in which order, and when a loss is reported."""

from __future__ import annotations

import pytest

from ingester.driver.loop import Loop
from tests.fakes.ingester import PERSONS, instance, lsn, position
from tests.unit.ingester.driver.test_loop import World


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks the clock instead of waiting."""
    monkeypatch.setattr(Loop, "_wait_seconds", lambda self: 0.0 if not self._dispatcher.running else 1.0)


OLD, NEW = "1 made on monday", "2 made on tuesday"


def swapped(world: World, *, former: bool = True) -> None:
    """The name means another table, which was loaded at 2 and 3 under its own name and changed at 9 under this one."""
    [was] = world.source.instances[PERSONS]
    world.source.instances[PERSONS] = (instance(name="stage", source=NEW, start=2),)
    world.source.rows["stage"] = [position(2), position(3), position(9)]
    if former:
        world.source.former[OLD] = (was,)
    world.source.max_lsn, world.source.stale = lsn(9), True


def world_of(*, skip_gaps: bool = False) -> World:
    world = World(skip_gaps=skip_gaps)
    world.source.instances[PERSONS] = (instance(source=OLD),)
    return world


def sent(world: World) -> list[tuple[str, str]]:
    """(capture instance, LSN) of each message, in order."""
    bodies = [message.body.decode() for message in world.sender.sent]
    return [(body.split('"CaptureInstance":"')[1].split('"')[0], body.split('"LSN":"')[1][18:20]) for body in bodies]


def test_what_is_left_of_the_table_that_lost_the_name_is_sent_before_all_of_the_one_that_has_it() -> None:
    world = world_of()

    def renamed() -> None:
        world.source.rows["dbo_Persons"] += [position(6), position(7)]
        swapped(world)

    world.at(3, lambda: world.commit(4))
    world.at(20, renamed)
    status, logs = world.run(100)
    assert status == 0
    assert [name for name, _ in sent(world)] == ["dbo_Persons"] * (len(sent(world)) - 3) + ["stage"] * 3
    assert [at for name, at in sent(world)][-5:] == ["06", "07", "02", "03", "09"]
    assert (world.offsets.sources[PERSONS], world.offsets.kept[PERSONS, OLD]) == (NEW, position(7))
    assert [e["event"].split(" is ")[0] for e in logs if e["log_level"] == "warning"] == ["table dbo.Persons"]


def test_a_rename_while_no_ingester_ran_is_noticed_when_the_table_is_claimed() -> None:
    world = world_of()
    world.offsets.stored[PERSONS], world.offsets.sources[PERSONS] = position(5), OLD
    world.source.rows["dbo_Persons"] = [position(4), position(5), position(6)]
    swapped(world)
    world.run(60)
    assert sent(world) == [("dbo_Persons", "06"), ("stage", "02"), ("stage", "03"), ("stage", "09")]


def test_nobody_goes_over_before_capture_has_come_past_the_rename() -> None:
    """A change that was committed just before it may be captured later than the catalog is read."""
    world = world_of()
    world.offsets.stored[PERSONS], world.offsets.sources[PERSONS] = position(5), OLD
    swapped(world)
    world.source.captured_all = False

    def captured() -> None:
        world.source.rows["dbo_Persons"].append(position(10))
        world.source.max_lsn, world.source.captured_all = lsn(12), True

    world.at(40, captured)
    world.run(120)
    assert sent(world) == [("dbo_Persons", "0a"), ("stage", "02"), ("stage", "03"), ("stage", "09")]


def test_a_table_that_gets_its_name_back_is_read_from_where_it_was_left() -> None:
    world = world_of()
    world.source.rows["dbo_Persons"] = [position(5)]
    world.source.max_lsn = lsn(5)
    world.at(5, lambda: swapped(world))

    def back() -> None:
        [stage] = world.source.instances[PERSONS]
        [first] = world.source.former.pop(OLD)
        world.source.instances[PERSONS], world.source.former[NEW] = (first,), (stage,)
        world.source.rows["dbo_Persons"].append(position(12))
        world.source.rows["stage"].append(position(11))
        world.source.max_lsn, world.source.stale = lsn(12), True

    world.at(60, back)
    world.run(140)
    assert sent(world) == [
        ("dbo_Persons", "05"),
        *[("stage", at) for at in ("02", "03", "09", "0b")],
        ("dbo_Persons", "0c"),
    ]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("skip_gaps", [False, True])
def test_a_table_that_was_dropped_and_made_again_is_a_gap(skip_gaps: bool, running: bool) -> None:
    world = world_of(skip_gaps=skip_gaps)
    world.offsets.stored[PERSONS], world.offsets.sources[PERSONS] = position(5), OLD
    if running:
        world.at(20, lambda: swapped(world, former=False))
    else:
        swapped(world, former=False)
    status, logs = world.run(100)
    assert status == 0
    [told] = [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    why = told["what"] if skip_gaps else told["error"]
    assert "changes may be lost" in why
    assert f"of object {OLD}" in why
    assert sent(world) == ([("stage", at) for at in ("02", "03", "09")] if skip_gaps else [])


def test_an_older_installations_offset_belongs_to_the_table_that_has_the_name() -> None:
    world = world_of()
    world.offsets.stored[PERSONS] = position(5)
    world.source.rows["dbo_Persons"] = [position(4), position(6)]
    world.source.max_lsn = lsn(6)
    world.run(20)
    assert sent(world) == [("dbo_Persons", "06")]
    assert world.offsets.sources[PERSONS] == OLD
