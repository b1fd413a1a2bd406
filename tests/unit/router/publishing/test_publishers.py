"""Senders kept open, opened side by side, and backed off from when a topic is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext, suppress

import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted, TimeLeft
from common.errors import DStreamError, EntityDisabled, PermanentError, TransientError
from common.message import Message
from common.retry import Backoff
from router.publishing.publisher import UNREACHED, Publisher
from router.publishing.publishers import IDLE, LOOK, MOST_OPEN, OPENED_AT_ONCE, PROVED_AT_A_LOOK, Publishers
from router.routing.table import key_of
from router.tally import Tally
from tests.fakes.bus import FakeBroker

MESSAGE = Message(b"{}", "m")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def publisher(broker: FakeBroker, clock: Clock, topic: str = "orders") -> Publisher:
    backoff = Backoff(first=1.0, longest=8.0)
    return Publisher(topic, broker.sender(topic), backoff=backoff, clock=clock, chance=lambda: 1.0)


def test_a_failed_send_pauses_longer_each_time_up_to_the_limit_and_success_forgets() -> None:
    broker, clock = FakeBroker(), Clock()
    entity = broker.create("orders")
    orders = publisher(broker, clock)
    entity.faults.extend(TransientError("busy") for _ in range(5))
    pauses = []
    for _ in range(5):
        with pytest.raises(TransientError):
            orders.send([MESSAGE])
        pauses.append(orders.pause())
        clock.now += orders.pause()
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0]

    orders.send([MESSAGE])
    assert orders.pause() == 0
    entity.faults.append(TransientError("busy"))
    with pytest.raises(TransientError):
        orders.send([MESSAGE])
    assert orders.pause() == 1.0


def test_pauses_are_spread_by_chance_so_that_what_failed_together_does_not_come_back_together() -> None:
    broker, clock = FakeBroker(), Clock()
    broker.create("orders").faults.extend(TransientError("busy") for _ in range(2))
    pauses = []
    for chance in (0.25, 0.75):
        backoff = Backoff(first=4.0, longest=8.0)
        orders = Publisher("orders", broker.sender("orders"), backoff=backoff, clock=clock, chance=[chance].pop)
        with pytest.raises(TransientError):
            orders.send([MESSAGE])
        pauses.append(orders.pause())
    assert pauses == [1.0, 3.0]


@pytest.mark.parametrize("fault", [TransientError("the link was detached"), SendInterrupted("the link was detached")])
def test_after_a_fault_the_sender_is_closed_and_the_next_send_opens_it_anew(fault: Exception) -> None:
    asked: list[str] = []

    class Link(Meeting):
        def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
            asked.append("send")
            if len(asked) == 2:
                raise fault

        def close(self) -> None:
            asked.append("close")

    orders = Publisher("orders", Link(threading.Barrier(1)), clock=Clock(), chance=lambda: 1.0)
    orders.send([MESSAGE])
    with pytest.raises(TransientError):
        orders.send([MESSAGE])
    orders.send([MESSAGE])
    assert asked == ["send", "send", "close", "send"]


def test_a_topic_deleted_while_running_is_waited_for() -> None:
    broker, clock = FakeBroker(), Clock()
    broker.create("orders")
    orders = publisher(broker, clock)
    orders.send([MESSAGE])
    del broker.entities_by_name["orders"]
    with pytest.raises(TransientError, match="does not exist"):
        orders.send([MESSAGE])
    broker.create("orders")
    orders.send([MESSAGE])


def test_a_deleted_topic_is_an_error_once_although_its_outage_began_as_a_warning() -> None:
    fault: list[DStreamError] = [TransientError("the link was detached")]

    class Link(Meeting):
        def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
            if fault:
                raise fault[0]

    orders = Publisher("orders", Link(threading.Barrier(1)), clock=Clock(), chance=lambda: 1.0)
    with capture_logs() as logs:
        for error in (fault[0], PermanentError("not found", hint="create it"), PermanentError("not found"), fault[0]):
            fault[0] = error
            with pytest.raises(SendInterrupted):
                orders.send([MESSAGE])
        fault.clear()
        orders.send([MESSAGE])
    told = [(line["log_level"], line["event"], line.get("hint")) for line in logs]
    assert told == [
        ("warning", "topic unavailable", UNREACHED),
        ("error", "topic unavailable", "create it"),
        ("info", "topic available again", None),
    ]


def test_opening_names_every_topic_that_is_missing_at_once() -> None:
    broker = FakeBroker()
    broker.create("there")
    publishers = Publishers(Publisher(topic, broker.sender(topic)) for topic in ("gone-1", "there", "gone-2"))
    with pytest.raises(PermanentError) as refused:
        publishers.open(threading.Event())
    assert "gone-1" in str(refused.value)
    assert "gone-2" in str(refused.value)


class Meeting:
    """A sender whose `open` returns only when all of them are being opened: it hangs when they are opened in turn."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self._barrier = barrier

    def open(self) -> None:
        self._barrier.wait(timeout=10)

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None: ...

    def close(self) -> None: ...


def test_publishers_are_opened_side_by_side() -> None:
    barrier = threading.Barrier(8)
    Publishers(Publisher(f"t{number}", Meeting(barrier)) for number in range(8)).open(threading.Event())
    assert not barrier.broken


def test_topics_are_found_in_lower_case() -> None:
    broker = FakeBroker()
    broker.create("Orders")
    publishers = Publishers([Publisher("Orders", broker.sender("Orders"))])
    assert list(publishers.topics) == ["orders"]
    assert publishers["orders"].topic == "Orders"


def test_topics_that_are_away_at_the_start_are_told_and_tried_again_and_the_others_are_opened() -> None:
    broker, clock = FakeBroker(), Clock()
    for topic in ("persons", "orders"):
        broker.create(topic)
    off = Opening(EntityDisabled("opening orders: it is disabled", hint="enable the entity in the portal"))
    tally = Tally(clock=clock)
    tally.turned()
    orders = Publisher("orders", off, clock=clock, chance=lambda: 1.0, tally=tally)
    publishers = Publishers([Publisher("persons", broker.sender("persons"), clock=clock), orders], clock=clock)
    with capture_logs() as logs:
        publishers.open(threading.Event())
        for _ in range(20):
            clock.now += 1.0
            publishers.look()
        ready = tally.figures().ready()
        off.fault = None
        clock.now += orders.pause()
        publishers.look()
    assert ready is not None
    assert "orders" in ready
    assert tally.figures().ready() is None
    assert [(line["log_level"], line["event"], line["topic"], line.get("hint")) for line in logs] == [
        ("error", "topic unavailable", "orders", "enable the entity in the portal"),
        ("info", "topic available again", "orders", None),
    ]


class Opening:
    """A sender whose link cannot be opened while there is a `fault`; `links`: opened and not closed."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.links = 0

    def open(self) -> None:
        if self.fault is not None:
            raise self.fault
        self.links = 1

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        self.open()

    def close(self) -> None:
        self.links = 0


def test_a_start_where_no_topic_can_be_opened_fails() -> None:
    publishers = Publishers(Publisher(f"t{n}", Opening(TransientError(f"t{n} is away"))) for n in range(3))
    with pytest.raises(TransientError, match="t0 is away"):
        publishers.open(threading.Event())


def test_a_topic_that_could_not_be_created_yet_is_created_when_it_is_tried_again() -> None:
    clock, provided = Clock(), list[str]()
    late = Opening(PermanentError("opening orders: it does not exist"))

    def provide() -> None:
        provided.append("orders")
        late.fault = None

    orders = Publisher("orders", late, clock=clock, chance=lambda: 1.0, provide=provide, provide_again=False)
    publishers = Publishers([Publisher("persons", Opening()), orders], clock=clock)
    publishers.open(threading.Event(), excused=["Orders"])
    clock.now += orders.pause()
    publishers.look()
    assert (provided, late.links) == (["orders"], 1)
    late.fault = PermanentError("sending to orders: it was deleted")
    for _ in range(2):
        with pytest.raises(SendInterrupted):
            orders.send([MESSAGE])
    assert provided == ["orders"]  # who deletes a topic that works means it


def test_a_stop_opens_no_further_link() -> None:
    stop, links = threading.Event(), [Opening() for _ in range(40)]
    stop.set()
    Publishers(Publisher(f"t{n}", link) for n, link in enumerate(links)).open(stop)
    assert sum(link.links for link in links) == 0


def test_idle_links_are_closed_and_few_stay_open_whatever_the_number_of_topics() -> None:
    clock, links = Clock(), [Opening() for _ in range(300)]
    publishers = Publishers((Publisher(f"t{n}", link, clock=clock) for n, link in enumerate(links)), clock=clock)
    publishers.open(threading.Event())
    assert sum(link.links for link in links) <= MOST_OPEN + OPENED_AT_ONCE
    for number in range(300):
        clock.now += 0.1
        publishers[f"t{number}"].send([MESSAGE])
    publishers.look()
    assert [link.links for link in links] == [0] * 200 + [1] * 100
    clock.now += IDLE - 1.0
    publishers["t7"].send([MESSAGE])
    clock.now += 1.0
    publishers.look()
    assert [n for n, link in enumerate(links) if link.links] == [7]


def test_a_link_in_use_is_not_closed() -> None:
    clock = Clock()
    rested = threading.Event()

    class Slow(Opening):
        def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
            self.open()
            clock.now += 2 * IDLE
            publishers.look()
            assert self.links == 1
            rested.set()

    publishers = Publishers([Publisher("orders", Slow(), clock=clock)], clock=clock)
    publishers["orders"].send([MESSAGE])
    assert rested.is_set()


def test_after_a_send_that_failed_less_is_sent_at_once_until_sends_succeed() -> None:
    broker, clock = FakeBroker(), Clock()
    entity = broker.create("orders")
    orders = publisher(broker, clock)
    orders.open()
    assert orders.chunk_bytes == 262_144
    entity.faults.extend([TransientError("no answer within 15 s")] * 2)
    sizes = []
    for _ in range(4):
        with suppress(TransientError):
            orders.send([MESSAGE])
        sizes.append(orders.chunk_bytes)
    assert sizes == [131_072, 65_536, 131_072, 262_144]


class Counted(Opening):
    """Counts its openings."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__(fault)
        self.opened = 0

    def open(self) -> None:
        self.opened += 1
        super().open()


def looked_until_all_are_opened(publishers: Publishers, links: Sequence[Counted], clock: Clock) -> int:
    """How many looks it took."""
    for look in range(1, 100):
        clock.now += LOOK
        publishers.look()
        if all(link.opened for link in links):
            return look
    raise AssertionError("some links were never opened")


def test_of_many_topics_that_exist_only_the_first_are_opened_before_the_start_and_the_others_soon_after() -> None:
    clock, links = Clock(), [Counted() for _ in range(400)]
    publishers = Publishers((Publisher(f"t{n}", link, clock=clock) for n, link in enumerate(links)), clock=clock)
    publishers.open(threading.Event(), exist=True)
    assert [link.opened for link in links] == [1] * MOST_OPEN + [0] * 300
    assert looked_until_all_are_opened(publishers, links, clock) == 300 / PROVED_AT_A_LOOK
    assert max(link.opened for link in links) == 1
    assert sum(link.links for link in links) <= MOST_OPEN


def test_where_nothing_else_finds_a_missing_topic_all_are_opened_before_the_start() -> None:
    links = [Counted() for _ in range(250)]
    links[-1].fault = PermanentError("opening t249: it does not exist")
    publishers = Publishers(Publisher(f"t{n}", link) for n, link in enumerate(links))
    with pytest.raises(PermanentError, match="t249"):
        publishers.open(threading.Event())
    assert {link.opened for link in links} == {1}


@pytest.mark.parametrize(("fault", "starts"), [(EntityDisabled("disabled"), True), (TransientError("away"), False)])
def test_the_first_topics_being_disabled_says_nothing_of_the_others(fault: Exception, starts: bool) -> None:
    clock, links = Clock(), [Counted(fault) for _ in range(MOST_OPEN)]
    links.append(Counted())
    publishers = Publishers((Publisher(f"t{n}", link, clock=clock) for n, link in enumerate(links)), clock=clock)
    with nullcontext() if starts else pytest.raises(TransientError, match="away"):
        publishers.open(threading.Event(), exist=True)


def test_topics_that_may_be_missing_are_opened_before_the_start_whatever_their_place() -> None:
    clock, links = Clock(), [Counted() for _ in range(250)]
    links[-1].fault = PermanentError("opening t249: it does not exist")
    publishers = Publishers((Publisher(f"t{n}", link, clock=clock) for n, link in enumerate(links)), clock=clock)
    with capture_logs() as logs:
        publishers.open(threading.Event(), excused=["T249"], exist=True)
    assert [(line["event"], line["topic"]) for line in logs] == [("topic unavailable", "t249")]


def test_a_right_that_is_missing_for_a_topic_opened_after_the_start_is_logged_and_makes_it_unready() -> None:
    clock, links = Clock(), [Counted() for _ in range(MOST_OPEN + 10)]
    tally = Tally(clock=clock)
    tally.turned()
    publishers = Publishers(
        (Publisher(f"t{n}", link, clock=clock, chance=lambda: 1.0, tally=tally) for n, link in enumerate(links)),
        clock=clock,
    )
    links[-1].fault = PermanentError("opening the link: no Send right", hint="assign the role")
    with capture_logs() as logs:
        publishers.open(threading.Event(), exist=True)
        for _ in range(5):
            clock.now += LOOK
            publishers.look()
        ready = tally.figures().ready()
        links[-1].fault = None
        for _ in range(20):
            clock.now += LOOK
            publishers.look()
    assert ready == f"topic t{MOST_OPEN + 9} is unavailable: opening the link: no Send right (assign the role)"
    assert tally.figures().ready() is None
    assert [(line["log_level"], line["event"], line.get("hint")) for line in logs] == [
        ("error", "topic unavailable", "assign the role"),
        ("info", "topic available again", None),
    ]


def test_a_topic_that_was_sent_to_meanwhile_is_not_opened_for_a_look() -> None:
    clock, links = Clock(), [Counted() for _ in range(MOST_OPEN + 2)]
    publishers = Publishers((Publisher(f"t{n}", link, clock=clock) for n, link in enumerate(links)), clock=clock)
    publishers.open(threading.Event(), exist=True)
    publishers[f"t{MOST_OPEN}"].send([MESSAGE])
    clock.now += LOOK
    publishers.look()
    assert [link.opened for link in links[MOST_OPEN:]] == [1, 1]
    assert links[MOST_OPEN].links == 1, "its link stays open"


def test_a_stop_ends_the_opening_of_topics_after_the_start() -> None:
    clock, stop = Clock(), threading.Event()

    class Stopping(Counted):
        def open(self) -> None:
            super().open()
            if not before:
                stop.set()

    before, links = [True], [Stopping() for _ in range(MOST_OPEN + PROVED_AT_A_LOOK)]
    publishers = Publishers((Publisher(f"t{n}", link, clock=clock) for n, link in enumerate(links)), clock=clock)
    publishers.open(stop, exist=True)
    before.clear()
    publishers.look(stop)
    assert sum(link.opened for link in links) <= MOST_OPEN + OPENED_AT_ONCE


def test_a_place_that_a_route_writes_in_upper_case_finds_its_publisher() -> None:
    broker = FakeBroker()
    key = key_of("srv.db.persons.events", "Archive.{table}")
    broker.create(key)
    publishers = Publishers([Publisher(key_of("Srv.db.persons.events", "Archive.{table}"), broker.sender(key))])
    assert key in publishers.topics
    publishers.open(threading.Event(), excused=[key], exist=True)
    publishers[key].send([MESSAGE])
    assert broker.entity(key).bodies == [b"{}"]
