"""A topic whose namespace throttles: what it took is settled and not sent again, the rest waits, and the link stays."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted, TimeLeft
from common.bus.throttling import QUIET, ThrottleLog
from common.errors import Throttled, TransientError
from common.message import Message
from common.retry import Backoff
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.receiving.pace import Pace
from router.receiving.slot import Forwarder
from router.tally import Tally
from tests.fakes.bus import FakeBroker

TOPIC = "orders"


class Metered:
    """A sender that takes as many messages as it has credits, and refuses the others."""

    def __init__(self, credits: int = 0) -> None:
        self.credits = credits
        self.took: list[Message] = []
        self.asked: list[int] = []
        self.closed = 0

    def open(self) -> None: ...

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        self.asked.append(len(messages))
        accepted = range(min(self.credits, len(messages)))
        self.took += messages[: self.credits]
        self.credits -= len(accepted)
        if len(accepted) < len(messages):
            raise SendInterrupted("the namespace is being throttled", accepted=accepted, throttled=True)

    def close(self) -> None:
        self.closed += 1


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def some(count: int, session: str = "s") -> list[Message]:
    return [
        Message(b"{}", f"{session}-{n}", session, application_properties={"destination": TOPIC}) for n in range(count)
    ]


def test_refusals_in_a_row_wait_longer_up_to_two_seconds_and_progress_begins_anew() -> None:
    sender, clock, tally = Metered(), Time(), Tally()
    topic = Publisher(TOPIC, sender, clock=clock, chance=lambda: 1.0, tally=tally)
    pauses = []
    for credits in (0, 0, 0, 0, 1, 0):
        sender.credits = credits
        with pytest.raises(SendInterrupted):
            topic.send(some(3))
        pauses.append(topic.pause())
        clock.now += topic.pause()
    assert pauses == [0.5, 1.0, 2.0, 2.0, 0.5, 1.0]
    assert (sender.closed, tally.figures().throttled) == (0, 6)


def test_topics_of_one_namespace_tell_of_one_spell() -> None:
    clock = Time()
    throttling = ThrottleLog(clock)
    senders = [Metered() for _ in range(20)]
    topics = [Publisher(f"{TOPIC}{n}", sender, clock=clock, throttling=throttling) for n, sender in enumerate(senders)]
    with capture_logs() as lines:
        for _ in range(5):
            for topic, sender in zip(topics, senders, strict=True):
                with pytest.raises(SendInterrupted):
                    topic.send(some(1))
                sender.credits = 1
                topic.send(some(1))
        clock.now += QUIET
        senders[0].credits = 1
        topics[0].send(some(1))
    assert [line["event"] for line in lines] == ["Service Bus throttles", "Service Bus throttles no longer"]
    assert lines[1]["refused_sends"] == 100


def routed(sent: Sequence[Message], credits: int, then: int) -> tuple[Metered, Tally, FakeBroker]:
    """Forward `sent` to a topic that has credits for so many messages, and after each refusal for `then` more."""
    broker, stop, tally = FakeBroker(), threading.Event(), Tally()
    broker.create("queue", sessions=True)
    broker.sender("queue").send(sent)
    sender, clock = Metered(credits), Time()

    def patience(attempt: int = 0) -> float:
        sender.credits = then  # a second has passed
        return 0.0

    topic = Publisher(TOPIC, sender, clock=clock, chance=patience)
    forwarder = Forwarder(
        broker.receivers("queue", sessions=True),
        Publishers([topic]),
        stop,
        sessions=True,
        pace=Pace(accept_wait=0.01, poll=0.01, idle=0.01),
        tally=tally,
    )
    slot = threading.Thread(target=forwarder.run)
    slot.start()
    try:
        for _ in range(1_000):
            if tally.routed.total() == len(sent) or stop.wait(0.01):
                break
    finally:
        stop.set()
        slot.join(10)
    return sender, tally, broker


def test_what_was_taken_of_a_batch_is_settled_and_only_the_rest_is_sent_again() -> None:
    sender, tally, broker = routed(some(10), 4, then=3)
    assert sender.took == some(10)
    assert sender.asked == [10, 6, 3]
    assert (tally.retries[TOPIC], tally.routed[TOPIC], broker.entity("queue").held) == (2, 10, [])


def test_two_deliveries_of_one_message_are_settled_each_when_the_topic_took_it() -> None:
    sender, tally, broker = routed(some(1) * 3, 1, then=1)
    assert sender.took == some(1) * 3
    assert (tally.routed[TOPIC], broker.entity("queue").held) == (3, [])


def test_slots_that_are_refused_when_they_ask_tell_of_one_spell() -> None:
    broker, throttling = FakeBroker(), ThrottleLog()
    broker.create("queue", sessions=True)
    broker.open_faults.extend(Throttled("the namespace is being throttled") for _ in range(6))
    stop = threading.Event()
    slots = [
        Forwarder(
            broker.receivers("queue", sessions=True),
            Publishers([]),
            stop,
            sessions=True,
            pace=Pace(accept_wait=0.01, poll=0.01),
            backoff=Backoff(first=0.001, longest=0.001),
            throttling=throttling,
        )
        for _ in range(2)
    ]
    with capture_logs() as lines:
        threads = [threading.Thread(target=slot.run) for slot in slots]
        for thread in threads:
            thread.start()
        while broker.open_faults:
            stop.wait(0.01)
        stop.set()
        for thread in threads:
            thread.join(10)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["Service Bus throttles"]


class Waiting(threading.Event):
    """Waits by moving the clock; each wait brings the topic a credit."""

    def __init__(self, clock: Time, sender: Metered) -> None:
        super().__init__()
        self._clock, self._sender = clock, sender

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now += timeout or 0.0
        self._sender.credits = 1
        return self.is_set()

    def is_set(self) -> bool:
        return len(self._sender.took) == 100


@pytest.mark.timeout(20)
def test_a_session_whose_topic_takes_a_little_now_and_then_is_kept_beyond_its_turn() -> None:
    """Given up, it would come again with one delivery more for each of its messages."""
    broker, clock, sender = FakeBroker(), Time(), Metered()
    broker.create("queue", sessions=True)
    broker.sender("queue").send(some(100))
    receivers = broker.receivers("queue", sessions=True)
    topic = Publisher(TOPIC, sender, clock=clock, chance=lambda: 1.0)
    stop = Waiting(clock, sender)
    pace = Pace(accept_wait=0.01, turn=10.0)
    Forwarder(receivers, Publishers([topic]), stop, sessions=True, pace=pace, clock=clock).run()
    assert sender.took == some(100)
    assert clock.now > 100 + 4 * pace.turn
    assert receivers.opened == ["s"]


def test_a_fault_that_is_no_refusal_still_closes_the_link() -> None:
    broker, clock = FakeBroker(), Time()
    entity, sender = broker.create(TOPIC), broker.sender(TOPIC)
    topic = Publisher(TOPIC, sender, clock=clock)
    entity.faults.append(TransientError("away"))
    with pytest.raises(SendInterrupted):
        topic.send(some(1))
    assert sender.closed
