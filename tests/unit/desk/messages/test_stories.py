"""A store that is late: what the others say is told all the same, with what is unknown and why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from common.bus.browsing import Lying, Shelf
from common.errors import TransientError
from common.message import Message
from common.names import TableName
from desk.documents.messages import StoryOrder
from desk.messages import stories, timely
from desk.messages.browsers import Browsers
from desk.messages.places import Place
from desk.messages.stories import Configured, StoryTeller
from ingester.operating.finding import Captured, Named, TableLook, Treated
from ingester.position import Position
from ingester.sqlserver.position import LogPosition, Lsn
from tests.fakes.browsing import FakeBrowser, FakeShelves

PERSONS = TableName("dbo", "Persons")
POSITION = LogPosition(Lsn(b"\x01" * 10), 1, b"\x02" * 10, 2)
QUEUE = Shelf("ingest-queue")


class Finder:
    """A change that was sent. `free`: until it is set, SQL Server does not answer."""

    def __init__(self, free: threading.Event) -> None:
        self.free, self.closed = free, threading.Event()

    def named(self, event_id: str) -> Named:
        return Named(PERSONS, POSITION)

    def table(self, name: str) -> TableName:
        return PERSONS

    def look(self, table: TableName) -> TableLook:
        assert self.free.wait(20)
        return TableLook(PERSONS, low=LogPosition.before(POSITION.lsn), offset=POSITION, offset_words="after it")

    def at(self, table: TableName, position: Position) -> Captured:
        assert self.free.wait(20)
        return Captured(PERSONS, "id-1", "Insert", "01" * 10, "2026-11-21T10:23:45.457Z", POSITION, Treated.SENT)

    def of_key(self, table: TableName, key: Mapping[str, str], most: int) -> Any:
        raise NotImplementedError

    def moved_over(self, table: TableName, position: Position) -> None:
        assert self.free.wait(20)

    def commit_time(self, position: Position) -> str | None:
        raise NotImplementedError

    def close(self) -> None:
        assert self.free.is_set(), "it is closed while it is asked"
        self.closed.set()


class OneQueue:
    @property
    def queue(self) -> Place:
        bus: Any = "bus"
        return Place("queue", None, QUEUE, bus)


class Mute(FakeShelves):
    """`free`: until it is set, the bus does not answer."""

    def __init__(self, free: threading.Event, lying: dict[Shelf, list[Lying]]) -> None:
        super().__init__(lying)
        self.free = free

    def browser(self, shelf: Shelf) -> FakeBrowser:
        return _MuteBrowser(self, shelf)


class _MuteBrowser(FakeBrowser):
    def page(self, *, first: int, most: int) -> Sequence[Lying]:
        assert isinstance(self.shelves, Mute)
        self.shelves.requests += 1
        assert self.shelves.free.wait(20)
        return super().page(first=first, most=most)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What is late ends at the test's end."""
    made = threading.Event()
    yield made
    made.set()


def always() -> threading.Event:
    made = threading.Event()
    made.set()
    return made


def teller(finder: Finder, shelves: FakeShelves) -> StoryTeller:
    router: Any = SimpleNamespace(topics={})
    places: Any = OneQueue()
    configured = Configured(router, places, lambda: finder)
    return StoryTeller(lambda: configured, Browsers(lambda bus: shelves), lambda table: None)


def test_what_the_bus_says_is_told_where_sql_server_is_late(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timely, "SERVER_SECONDS", 0.2)
    finder = Finder(released)
    asked = teller(finder, FakeShelves({QUEUE: [Lying(Message(b"{}", "id-1"), 7, None)]}))
    began = time.monotonic()
    [story] = asked.stories(StoryOrder(event_id="id-1")).items
    assert time.monotonic() - began < 60
    assert (story.verdict, [each.what for each in story.unknown]) == ("queued", ["SQL Server"])
    assert "did not answer within" in story.unknown[0].text
    with pytest.raises(TransientError, match="did not answer within"):
        asked.stories(StoryOrder(table="Persons", key={"ID": "1"}))
    assert not finder.closed.is_set()
    released.set()
    assert finder.closed.wait(60), "it is closed once it has answered"


def test_what_sql_server_says_is_told_where_the_bus_is_late(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stories, "QUEUE_SECONDS", 0.1)
    monkeypatch.setattr(stories, "OPENS_SECONDS", 0.1)
    finder, shelves = Finder(always()), Mute(released, {})
    began = time.monotonic()
    [story] = teller(finder, shelves).stories(StoryOrder(event_id="id-1")).items
    assert time.monotonic() - began < 60
    assert story.verdict == "unknown"
    assert [(step.place, step.state) for step in story.steps][:3] == [
        ("commit", "passed"),
        ("change_table", "passed"),
        ("ingester", "passed"),
    ]
    assert [each.what for each in story.unknown] == ["queue", "the dead letters of queue"]
    assert "not asked again" in story.unknown[1].text
    until = time.monotonic() + 60
    while not shelves.requests:  # it is asked in a thread, which may come later than nobody waits any more
        assert time.monotonic() < until
        time.sleep(0.01)
    assert shelves.requests == 1, "one that is late is not asked for its dead letters too"
    assert finder.closed.is_set()


def test_no_store_takes_the_time_of_an_answer(released: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timely, "SERVER_SECONDS", 0.1)
    monkeypatch.setattr(timely, "SECONDS", 0.1)
    [story] = teller(Finder(released), FakeShelves()).stories(StoryOrder(event_id="id-1")).items
    assert (story.verdict, len(story.unknown)) == ("unknown", 3)
    assert "took all the time" in story.unknown[1].text
