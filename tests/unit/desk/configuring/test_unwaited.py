"""A change that is written late, or of which nobody knows whether it was: it is refused before it is written, or its true outcome is said."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from common.errors import TransientError
from desk.configuring.edited import EditedConfiguration
from desk.configuring.places.file import FilePlace
from desk.configuring.places.port import Content
from desk.configuring.revisions import Revisions
from desk.console.calls import BOUNDS, Bounds, Calls
from desk.console.refusals import Overdue
from desk.desk import Actor, Conflict
from desk.documents.configuring import Edit, SourceOrder
from desk.patience import waited_for

ACTOR = Actor("ada@example.org", "http", "r1")
FILE = 'ingester {\n  tables = ["Persons"]\n}\n'
ADDED = 'ingester {\n  tables = ["Persons", "Orders"]\n}\n'


class Place(FilePlace):
    """`written`: whether a write without an answer is made; None: it has one."""

    written: bool | None = None

    def write(self, data: bytes, instead_of: Content) -> None:
        if self.written is not False:
            super().write(data, instead_of)
        if self.written is not None:
            raise TransientError("writing: no answer within 10 s")


class World:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "dstream.hcl"
        self.file.write_text(FILE)
        self.place = Place(self.file)
        self.seconds = 0.0
        self.judged = 0
        self.desk = EditedConfiguration(
            self.place,
            Revisions(folder / "state", self.place.name),
            judge=self._judged,
            matches=lambda text: [],
            now=lambda: "2026-01-02T03:04:05Z",
        )

    def _judged(self, text: str) -> list[str]:
        self.judged += 1
        time.sleep(self.seconds)
        return []

    def add(self) -> Edit:
        return self.desk.put_source(SourceOrder(name="Orders", dry_run=False), None, ACTOR, new=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_change_that_nobody_waits_for_is_not_made(world: World) -> None:
    with waited_for(time.monotonic() - 1), pytest.raises(Conflict, match="it took too long, and was not made"):
        world.add()
    assert world.file.read_text() == FILE
    assert world.desk.configuration().revisions == []
    with waited_for(time.monotonic() + 60):
        assert world.add().applied


def test_what_a_dry_run_has_shown_is_not_judged_again(world: World) -> None:
    order = SourceOrder(name="Orders", dry_run=True)
    world.desk.put_source(order, None, ACTOR, new=True)
    world.add()
    assert world.judged == 1
    world.desk.remove_source("Persons", None, ACTOR, dry_run=True)
    assert world.judged == 2


def test_the_console_says_until_when_it_waits(world: World) -> None:
    world.seconds = 0.4
    calls = Calls({**BOUNDS, "configuring": Bounds(threads=1, waiting=4, within=0.2)})

    async def asked() -> None:
        with pytest.raises(Overdue):
            await calls.of("configuring", world.add)

    asyncio.run(asked())
    until = time.monotonic() + 20
    while calls.pools["configuring"]._unended and time.monotonic() < until:
        time.sleep(0.01)
    assert world.file.read_text() == FILE
    assert world.desk.configuration().revisions == []


def test_of_a_write_without_an_answer_the_place_says_what_came_of_it(world: World) -> None:
    world.place.written = False
    with pytest.raises(TransientError, match="no answer"):
        world.add()
    assert world.file.read_text() == FILE
    world.place.written = True
    assert world.add().applied
    assert world.file.read_text() == ADDED
    assert [each.what for each in world.desk.configuration().revisions] == ["add the source Orders"]
    world.place.written = None
    world.desk.undo(None, ACTOR, dry_run=False)
    assert world.file.read_text() == FILE
