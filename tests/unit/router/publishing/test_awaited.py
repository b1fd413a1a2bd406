"""Changes for a topic that no configured table has yet: how long they wait, and what ends the wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted
from common.errors import EntityUnavailable, TransientError
from common.message import Message
from router.publishing import publishers
from router.publishing.awaited import LOOK, Awaited, NotATopic, NoTopic
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.settings import OnPoison
from router.tally import Tally
from tests.fakes.bus import FakeBroker
from tests.unit.router.receiving.test_parking import PARK_AT_ONCE
from tests.unit.router.receiving.test_slot import Bench, bodies
from tests.unit.router.test_poison import Steps

GRACE = 60.0
MESSAGE = Message(b"{}", "m-1", application_properties={"schema": "dbo", "table": "Invoices"})


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Configuration:
    """What the router's file says: `answers` in turn, and from then on that the table is there."""

    def __init__(self, *answers: Exception, on_poison: OnPoison = "dead_letter") -> None:
        self.answers = list(answers)
        self.looks = 0
        self.bench = Bench(pace=PARK_AT_ONCE, further=self, grace=GRACE, clock=Steps(0.5), on_poison=on_poison)
        self.bench.broker.create("invoices")

    def __call__(self, topic: str, message: Message) -> Publisher:
        self.looks += 1
        if self.answers:
            raise self.answers.pop(0)
        return Publisher(topic, self.bench.broker.sender(topic))

    def arrived(self) -> list[str]:
        return bodies(self.bench.broker.entities_by_name["invoices"])


def no(times: int) -> list[Exception]:
    return [NotATopic("the present configuration does not name it")] * times


def test_changes_of_a_table_that_is_configured_within_the_grace_arrive_in_their_order() -> None:
    world = Configuration(*no(5))
    world.bench.put("invoices", *range(25))
    world.bench.run()
    assert world.arrived() == [f"invoices-{number}" for number in range(25)]
    assert world.bench.queue.dead == []
    assert world.looks == 6


def test_other_sessions_go_on_meanwhile_on_the_same_slot() -> None:
    world = Configuration(*no(1_000_000))
    world.bench.put("invoices", *range(3))
    world.bench.put("orders", *range(25))
    world.bench.run(until=lambda: len(world.bench.topics["orders"].held) == 25)
    assert bodies(world.bench.topics["orders"]) == [f"orders-{number}" for number in range(25)]


def test_after_the_grace_they_are_dead_lettered_and_told_what_a_copy_needs() -> None:
    world = Configuration(*no(1_000_000))
    world.bench.put("invoices", *range(12))
    world.bench.run()
    assert [message.message_id for message, _, _ in world.bench.queue.dead] == [f"invoices-{n}" for n in range(12)]
    assert {reason for _, reason, _ in world.bench.queue.dead} == {"UnknownDestination"}
    description = world.bench.queue.dead[0][2]
    for part in ("invoices", "1m", "does not name it", "new message id", "duplicate detection"):
        assert part in description
    assert world.looks >= 2
    assert world.bench.tally.dead_lettered == {"UnknownDestination": 12}


def test_a_configuration_that_cannot_be_read_is_no_verdict_however_long_it_lasts() -> None:
    unreadable: list[Exception] = [TransientError("the configuration cannot be used")] * 200
    world = Configuration(*no(1), *unreadable)
    world.bench.put("invoices", *range(12))
    world.bench.run()
    assert world.arrived() == [f"invoices-{number}" for number in range(12)]
    assert world.bench.queue.dead == []


def test_a_right_that_is_refused_for_longer_than_the_grace_loses_no_change() -> None:
    """A rotated key, a lost role, a full namespace: nobody has said that no table has the topic."""
    refused: list[Exception] = [EntityUnavailable("creating the topic: Status 401", hint="renew the key")] * 200
    world = Configuration(*refused)
    world.bench.put("invoices", *range(12))
    world.bench.run()
    assert world.arrived() == [f"invoices-{number}" for number in range(12)]
    assert world.bench.queue.dead == []


def test_what_is_refused_is_told_once_as_an_error_with_its_remedy_and_shows_in_the_readiness() -> None:
    clock = Clock()
    tally = Tally(clock=clock)
    tally.turned()

    def refused() -> Publisher:
        raise EntityUnavailable("creating the topic: Status 401", hint="renew the key")

    one = awaited(clock, refused, tally)
    with capture_logs() as logs:
        for _ in range(100):
            with pytest.raises(SendInterrupted):
                one.send([MESSAGE])
            clock.now += one.pause()
    assert [(line["log_level"], line["event"], line["hint"]) for line in logs] == [
        ("error", "topic unavailable; its changes wait", "renew the key")
    ]
    assert "Status 401" in (tally.figures().ready() or "")


def test_where_poison_stops_a_session_it_stops_after_the_grace() -> None:
    world = Configuration(*no(1_000_000), on_poison="stop")
    world.bench.put("invoices", *range(3))
    world.bench.run(until=lambda: world.bench.parking.stopped == 1)
    assert (len(world.bench.queue.held), world.bench.queue.dead) == (3, [])


def awaited(clock: Clock, find: Callable[[], Publisher], tally: Tally | None = None) -> Awaited:
    return Awaited("invoices", lambda message: find(), grace=GRACE, clock=clock, tally=tally)


def asked_until_refused(clock: Clock, one: Awaited) -> float:
    """Seconds from now until the message is refused; whoever waits asks again as soon as it is worth it."""
    began = clock.now
    while True:
        try:
            one.send([MESSAGE])
        except NoTopic:
            return clock.now - began
        except SendInterrupted:
            clock.now += one.pause()


def never() -> Publisher:
    raise NotATopic("it is not there")


def test_the_grace_is_over_at_the_first_look_after_it_and_begins_again_for_changes_that_come_much_later() -> None:
    clock = Clock()
    one = awaited(clock, never)
    assert GRACE <= asked_until_refused(clock, one) <= GRACE + LOOK
    assert one.pause() == 0
    clock.now += GRACE / 2
    assert asked_until_refused(clock, one) == 0
    clock.now += 2 * GRACE
    assert GRACE <= asked_until_refused(clock, one) <= GRACE + LOOK


def test_the_grace_runs_only_while_the_configuration_can_be_read() -> None:
    clock = Clock()
    broken = [TransientError("the configuration cannot be used: line 7")] * 50

    def look() -> Publisher:
        raise broken.pop() if broken else NotATopic("it is not there")

    one = awaited(clock, look)
    assert GRACE + 50 * LOOK <= asked_until_refused(clock, one) <= GRACE + 52 * LOOK


def test_a_wait_is_told_once_and_a_name_that_anybody_may_send_makes_no_router_unready() -> None:
    clock = Clock()
    tally = Tally(clock=clock)
    tally.turned()
    one = awaited(clock, never, tally)
    with capture_logs() as logs:
        for _ in range(10):
            with pytest.raises(SendInterrupted):
                one.send([MESSAGE])
            clock.now += one.pause()
        assert tally.figures().ready() is None
        asked_until_refused(clock, one)
    assert [(line["log_level"], line["event"], line["grace"]) for line in logs] == [
        ("warning", "topic unknown; its changes wait", "1m")
    ]
    assert tally.figures().ready() is None


def test_what_is_unknown_is_told_with_table_wait_and_both_hints() -> None:
    clock = Clock()
    one = awaited(clock, never)
    remedy = 'add the table to `tables` in the router\'s configuration, or set unknown_destination = "create"'
    with capture_logs() as logs:
        asked_until_refused(clock, one)
        with pytest.raises(NoTopic) as refused:
            one.send([MESSAGE])
    assert (logs[0]["topic"], logs[0]["table"]) == ("invoices", "dbo.Invoices")
    assert logs[0]["hint"].startswith(remedy)
    words = "topic invoices (table dbo.Invoices) belongs to no configured table, after a wait of 1m (it is not there)"
    assert refused.value.words.startswith(f"has no topic: {words}; {remedy}")
    assert len(refused.value.message) < 400


def test_where_no_more_topics_may_be_created_the_remedy_says_so() -> None:
    def full() -> Publisher:
        raise NotATopic("100 topics were created already", hint="raise router.create_at_most")

    clock = Clock()
    one = awaited(clock, full)
    with capture_logs() as logs:
        asked_until_refused(clock, one)
        with pytest.raises(NoTopic) as refused:
            one.send([MESSAGE])
    assert logs[0]["hint"].startswith("raise router.create_at_most")
    assert "raise router.create_at_most, then send a copy" in refused.value.words
    assert "unknown_destination" not in refused.value.words


def test_one_look_serves_all_slots() -> None:
    clock, looks = Clock(), list[None]()

    def find() -> Publisher:
        looks.append(None)
        raise NotATopic("it is not there")

    one = awaited(clock, find)
    for _ in range(5):
        with pytest.raises(SendInterrupted):
            one.send([MESSAGE])
    assert len(looks) == 1


def test_so_many_unknown_topics_are_waited_for_and_no_more_until_one_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names come with the messages: memory must not grow with them."""
    monkeypatch.setattr(publishers, "MOST_AWAITED", 2)
    clock = Clock()
    known = Publishers([], further=lambda topic, message: never(), grace=GRACE, clock=clock)
    assert known.admit(["a", "b"]) == {}
    assert "2 other unknown topics" in known.admit(["c"])["c"]
    clock.now += 10 * GRACE
    assert known.admit(["c"]) == {}
    assert list(known.topics) == ["c"]
    assert known["a"].topic == "a"  # a session was still holding changes for it


def test_what_is_found_is_sent_to_through_the_one_that_was_waited_for_as_well() -> None:
    broker = FakeBroker()
    invoices = broker.create("invoices")
    one = awaited(Clock(), lambda: Publisher("invoices", broker.sender("invoices")))
    one.send([MESSAGE])
    one.send([MESSAGE])
    assert len(invoices.held) == 2
    assert one.pause() == 0


def test_failed_sends_to_an_unknown_topic_are_counted_under_one_name_and_under_its_own_once_it_is_found() -> None:
    """Names come with the messages: a label for each would be a time series for each."""
    world = Configuration(*no(3))
    world.bench.put("invoices", *range(3))
    world.bench.run()
    assert world.bench.tally.retries.keys() == {"unknown"}
    assert world.bench.tally.topics == {"invoices"}


def test_a_topic_that_no_table_of_this_configuration_could_have_is_waited_for_in_no_session() -> None:
    known = Publishers(
        [],
        further=lambda topic, message: never(),
        elsewhere=lambda topic: None if topic == "a" else "it is not ours",
        grace=GRACE,
    )
    assert known.admit(["a", "b"]) == {"b": "it is not ours"}
    assert list(known.topics) == ["a"]
