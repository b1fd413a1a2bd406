"""A stop while publishers are at work: what a link or a management call keeps busy holds it up for a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted, TimeLeft
from common.errors import EntityUnavailable, Stopped
from common.message import Message
from router.publishing import publishers
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.tally import Tally
from tests.fakes.bus import FakeBroker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def busy_with(work: Callable[[Callable[[], None]], object]) -> Iterator[None]:
    """A thread at `work`, which is to call what it is given: that returns when the block is left."""
    begun, over = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        over.wait(60)

    thread = threading.Thread(target=work, args=[hang])
    thread.start()
    try:
        assert begun.wait(30)
        yield
    finally:
        over.set()
        thread.join(30)


def test_closing_waits_for_a_publisher_in_use_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "CLOSE_WITHIN", 0.0)
    broker = FakeBroker()
    broker.create("orders")
    broker.create("persons")

    def providing(hang: Callable[[], None]) -> None:
        orders = Publisher("orders", broker.sender("orders"), provide=hang, provide_first=True)
        known.append(Publishers([orders, Publisher("persons", broker.sender("persons"))]))
        orders.send([Message(b"{}", "m-1")])

    known = list[Publishers]()
    with busy_with(providing), capture_logs() as logs:
        closing = threading.Thread(target=known[0].close)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()
    assert [(line["event"], line["topic"]) for line in logs] == [("link not closed in time", "orders")]


def test_a_stop_ends_a_look_at_the_links_between_two_of_them() -> None:
    clock, stop, provided = Clock(), threading.Event(), list[str]()
    broker = FakeBroker()

    def providing(topic: str) -> Callable[[], None]:
        def provide() -> None:
            provided.append(topic)
            stop.set()

        return provide

    each = [
        Publisher(topic, broker.sender(topic), clock=clock, provide=providing(topic), provide_first=True)
        for topic in map(str, range(3))
    ]
    for publisher in each:
        broker.create(publisher.topic)
        publisher.unavailable(EntityUnavailable("it is missing"))
    clock.now += 60
    Publishers(each, clock=clock).look(stop)
    assert provided == ["0"]


def stopped() -> None:
    raise Stopped("asked to stop")


def test_a_stop_while_a_topic_is_provided_is_no_fault_of_the_topics() -> None:
    broker, tally, clock = FakeBroker(), Tally(), Clock()
    broker.create("orders")
    orders = Publisher("orders", broker.sender("orders"), clock=clock, provide=stopped, provide_first=True, tally=tally)
    with capture_logs() as logs:
        with pytest.raises(SendInterrupted):
            orders.send([Message(b"{}", "m-1")])
        assert orders.pause() == 0
        orders.unavailable(EntityUnavailable("it is missing"))
        clock.now += 60
        orders.reopen()
    assert orders.pause() == 0
    assert [line["error"] for line in logs] == ["it is missing"]


def test_a_defect_in_a_look_at_the_links_is_told_and_the_next_look_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "LOOK", 0.0)
    stop, looks = threading.Event(), list[None]()

    class Defective(Publishers):
        def look(self, stop: threading.Event | None = None) -> None:
            looks.append(None)
            if len(looks) == 2 and stop is not None:
                stop.set()
            raise ValueError("a defect")

    with capture_logs() as logs:
        Defective([]).keep(stop)
    assert len(looks) == 2
    assert {(line["event"], line["of"]) for line in logs} == {("periodic check failed", "links")}


class Closing:
    """A sender whose close does what it is told to."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def close(self) -> None:
        self._work()

    def open(self) -> None: ...

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None: ...


def test_all_links_that_may_be_open_are_closed_side_by_side() -> None:
    together = threading.Barrier(publishers.MOST_OPEN)
    links = [Closing(lambda: together.wait(60)) for _ in range(publishers.MOST_OPEN)]
    Publishers(Publisher(f"t{n}", link) for n, link in enumerate(links)).close()
    assert not together.broken


def test_closing_ends_although_no_link_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "CLOSED_WITHIN", 0.1)
    over = threading.Event()
    links = [Closing(lambda: over.wait(60)) for _ in range(300)]
    with capture_logs() as logs:
        Publishers(Publisher(f"t{n}", link) for n, link in enumerate(links)).close()
    over.set()
    assert [(line["event"], line["links"]) for line in logs] == [("links to topics not closed in time", 300)]
