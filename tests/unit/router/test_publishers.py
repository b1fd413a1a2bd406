"""Senders kept open, opened side by side, and backed off from when a topic is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from common.bus import SendInterrupted, TimeLeft
from common.errors import DStreamError, PermanentError, TransientError
from common.message import Message
from common.retry import Backoff
from router.publishers import Publisher, Publishers
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
    del broker.entities["orders"]
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
        ("warning", "destination away", None),
        ("error", "destination away", "create it"),
        ("info", "destination back", None),
    ]


def test_opening_names_every_topic_that_is_missing_at_once() -> None:
    broker = FakeBroker()
    broker.create("there")
    publishers = Publishers(Publisher(topic, broker.sender(topic)) for topic in ("gone-1", "there", "gone-2"))
    with pytest.raises(PermanentError) as refused:
        publishers.open()
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
    Publishers(Publisher(f"t{number}", Meeting(barrier)) for number in range(8)).open()
    assert not barrier.broken


def test_topics_are_found_in_lower_case() -> None:
    broker = FakeBroker()
    broker.create("Orders")
    publishers = Publishers([Publisher("Orders", broker.sender("Orders"))])
    assert list(publishers.topics) == ["orders"]
    assert publishers["orders"].topic == "Orders"
