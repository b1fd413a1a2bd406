"""The newest look: requests ask nobody, and those that wait for news are woken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from common.bus.depths import Depth
from common.errors import TransientError
from common.unread import Unread
from desk.desk import NotFound
from desk.documents.overview import Process
from desk.watching import watch
from desk.watching.entities import Topics
from desk.watching.overview import Console
from desk.watching.scraping import Scraped
from desk.watching.stores import Names, SeenTables
from desk.watching.watch import Questions, StoresWatching
from ingester.commands.status import TableStatus
from ingester.operating.moving import Held
from ingester.operating.offset_desk import Count, Lag

CONSOLE = Console(Names("db-1", "shop", "ns.servicebus.windows.net", "ingest"), "0", changes_allowed=False)


class World:
    """What the stores answer."""

    def __init__(self) -> None:
        self.lag = Lag(Count(0), 0.0)
        self.away: Exception | None = None
        self.asked = 0

    def tables(self, unread: list[Unread]) -> SeenTables:
        self.asked += 1
        if self.away is not None:
            raise self.away
        return SeenTables([TableStatus("dbo.Persons", Held.HELD, lag=self.lag)], {"spark-1": 1})

    def queue(self, unread: list[Unread]) -> Depth | None:
        return Depth("ingest", None, 5, 1)

    def topics(self, unread: list[Unread]) -> Topics:
        depths = {"default": {"s.d.persons.events": [Depth("s.d.persons.events", "sub1", 7, 2)]}}
        return Topics(
            depths,
            {"default": ["s.d.persons.events"]},
            {"dbo.persons": [("default", "s.d.persons.events")]},
            ["sub1"],
        )

    def processes(self, unread: list[Unread]) -> Sequence[Scraped]:
        return [Scraped(Process(address="10.0.0.1:8080", stage="router", reached=True, ready=True, alive=True))]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def watching(world: World) -> Iterator[StoresWatching]:
    questions = Questions(world.tables, world.queue, world.topics, lambda unread: None, world.processes)
    with StoresWatching(questions, CONSOLE, look_every=0.1) as made:
        yield made


def _until(right: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not right():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_before_the_first_look_a_table_is_waited_for_and_not_denied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a page that is opened while the console starts."""
    answers = threading.Event()

    def tables(unread: list[Unread]) -> SeenTables:
        answers.wait(20)
        return world.tables(unread)

    questions = Questions(tables, world.queue, world.topics, lambda unread: None, world.processes)
    with StoresWatching(questions, CONSOLE, look_every=0.1) as watching:
        monkeypatch.setattr(watch, "_FIRST_LOOK_SECONDS", 0.1)
        with pytest.raises(TransientError, match="the tables are not known yet"):
            watching.table("dbo.Persons")
        monkeypatch.setattr(watch, "_FIRST_LOOK_SECONDS", 20.0)
        threading.Timer(0.2, answers.set).start()
        assert watching.table("dbo.Persons").table == "dbo.Persons"
        with pytest.raises(NotFound):
            watching.table("dbo.Nobody")


def test_a_look_has_everything_and_a_request_asks_nobody(world: World, watching: StoresWatching) -> None:
    _until(lambda: watching.overview().dead_letters == 3 and bool(watching.overview().processes))
    [table] = watching.tables()
    assert (table.table, table.state, table.topic) == ("dbo.Persons", "idle", "s.d.persons.events")
    overview = watching.overview()
    assert (overview.server, overview.database, overview.namespace) == ("db-1", "shop", "ns.servicebus.windows.net")
    assert (overview.complete, overview.states, overview.tables) == (True, {"idle": 1}, 1)
    assert [(each.what, each.severity) for each in overview.troubles] == [
        ("Dead letters wait in queue ingest", "warning"),
        ("Dead letters wait in s.d.persons.events/sub1", "warning"),
    ]
    assert all(each.since is not None for each in overview.troubles)
    assert [each.entity for each in watching.entities()] == ["queue", "topic/s.d.persons.events/sub1"]
    assert [(each.table, each.queued, each.unread) for each in watching.unacknowledged()] == [
        (None, 5, None),
        ("dbo.Persons", None, 7),
    ]
    assert watching.table("persons").table == "dbo.Persons"
    assert watching.history("DBO.PERSONS").table == "dbo.Persons"
    with pytest.raises(NotFound):
        watching.table("dbo.Nothing")


def test_those_who_wait_for_news_are_woken_by_it(world: World, watching: StoresWatching) -> None:
    _until(lambda: len(watching.tables()) == 1)
    number = watching.changed(0, wait=0)
    begun = time.monotonic()
    assert watching.changed(number, wait=60) > number
    assert time.monotonic() - begun < 50
    world.lag = Lag(Count(9), 100.0)
    _until(lambda: watching.tables()[0].state == "behind")


def test_a_store_that_is_away_leaves_the_tables_and_is_a_trouble(world: World, watching: StoresWatching) -> None:
    _until(lambda: len(watching.tables()) == 1)
    world.away = TransientError("cannot connect", hint="see whether the server is up")
    _until(lambda: any(each.what == "Tables cannot be read" for each in watching.overview().troubles))
    assert [each.table for each in watching.tables()] == ["dbo.Persons"]
    overview = watching.overview()
    assert not overview.complete
    assert overview.unknown[0].remedy == "see whether the server is up"
    [trouble] = [each for each in overview.troubles if each.severity == "critical"]
    assert (trouble.cause, trouble.alert) == ("cannot connect", "DStreamSqlServerUnreachable")


def test_a_stop_wakes_everybody_and_waits_for_no_store() -> None:
    mute = threading.Event()

    def never(unread: list[Unread]) -> SeenTables:
        mute.wait(60)
        return SeenTables()

    world = World()
    woken = threading.Event()
    with StoresWatching(Questions(never, world.queue, world.topics, lambda unread: None), CONSOLE) as watching:

        def wait() -> None:
            watching.changed(10_000, wait=60)
            woken.set()

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        begun = time.monotonic()
    assert woken.wait(30)
    assert time.monotonic() - begun < 30
    mute.set()
