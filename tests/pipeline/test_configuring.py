"""Sources and outputs changed through the desk while both stages run: taken over without a restart, taken back, and nothing lost meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from desk.configuring.allowed import Allowed
from desk.configuring.edited import EditedConfiguration
from desk.configuring.making import configuring_of
from desk.desk import Actor
from desk.documents.configuring import OutputOrder, SourceOrder
from dstream.config import ingester_of, judge
from dstream.demo.processes import Service, environment, write_config
from dstream.demo.schema import CUSTOMERS, EVERYTHING, TABLES, create
from dstream.emulators import Emulators
from tests.worlds.world import wait_until

ACTOR = Actor("ada@example.org", "http", "r1")


class World:
    def __init__(self, folder: Path, emulators: Emulators) -> None:
        create(emulators.login)
        self.emulators = emulators
        self.folder = folder
        variables = environment(emulators)
        self.config = write_config(folder, emulators, "200ms", tasks=2, routing="workers = 1 # one is enough")
        others = ", ".join(f'"{table.key}"' for table in TABLES if table != EVERYTHING)
        everything = ", ".join(f'"{table.key}"' for table in TABLES)
        self.config.write_text(self.config.read_text().replace(everything, others))
        self.ingester = Service("ingester", self.config, variables, folder / "ingester.log")
        self.router = Service("router", self.config, variables, folder / "router.log")
        self.environ = {**os.environ, **variables}

    def desk(self) -> EditedConfiguration:
        return configuring_of(
            self.config,
            None,
            judge=lambda text: judge(text, self.config, self.environ),
            reads=lambda text: ingester_of(text, self.config, self.environ),
            state=self.folder / "state",
            allowed=Allowed(files_under=str(self.folder)),
        )

    def insert(self, number: int) -> None:
        with self.emulators.login.connect() as connection, connection.cursor() as cursor:
            values = f"({number}, N'Jana', 'jana@example.org', 4.5, 1)"
            cursor.execute(f"INSERT INTO dbo.{CUSTOMERS.table} VALUES {values}")

    def written(self) -> str:
        """What the output of files has, those that are still written included."""
        files = [path for path in (self.folder / "files").rglob("*") if path.is_file()]
        return "".join(path.read_text(errors="replace") for path in files if path.exists())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Emulators(database="demo", capture_interval=0.3) as emulators:
        world = World(tmp_path, emulators)
        world.router.start()
        world.ingester.start()
        try:
            yield world
        finally:
            for service in (world.ingester, world.router):
                service.stop()


@pytest.mark.timeout(600)
def test_a_source_and_an_output_come_and_go_while_both_stages_run(world: World) -> None:
    def ingester(text: str, count: int = 1) -> bool:
        return world.ingester.log.read_text().count(text) >= count

    desk, before = world.desk(), world.config.read_bytes()
    wait_until(lambda: ingester("lock taken"), "the ingester reads", timeout=240)
    wait_until(lambda: "router started" in world.router.log.read_text(), "the router routes", timeout=240)

    name = EVERYTHING.key
    added = desk.put_source(SourceOrder(name=name, dry_run=False), None, ACTOR, new=True)
    wait_until(lambda: ingester("table added"), "the table came")
    desk.remove_source(name, added.revision, ACTOR, dry_run=False)
    wait_until(lambda: ingester("table removed"), "the table went")
    desk.undo(None, ACTOR, dry_run=False)
    wait_until(lambda: ingester("table added", 2), "the table came again")
    desk.remove_source(name, None, ACTOR, dry_run=False)
    assert world.config.read_bytes() == before

    settings = {"root": str(world.folder / "files"), "format": "jsonl"}
    routes = [{"from": [CUSTOMERS.key], "to": ["default", "copy"]}]
    order = OutputOrder(name="copy", type="file", settings=settings, routes=routes, dry_run=False)
    desk.put_output(order, None, ACTOR, new=True)
    wait_until(lambda: world.router.log.read_text().count("configuration reloaded") == 1, "the output came")
    world.insert(987_654)
    wait_until(lambda: "987654" in world.written(), "a change went to the new output")
    desk.undo(None, ACTOR, dry_run=False)
    wait_until(lambda: world.router.log.read_text().count("configuration reloaded") == 2, "the output went")
    assert world.config.read_bytes() == before
    assert world.desk().configuration().revisions[0].what == "undo: add the output copy"
