"""A message that its topic refuses for what it is, and a topic that refuses whatever it is sent, on the fake broker."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from common.bus.ports import MessageRefused, MessageUnwritable, SendInterrupted
from common.message import Message
from common.retry import Backoff
from router.publishing.publisher import REFUSED_IN_A_ROW, Publisher
from router.receiving.unpack import UnpackingReceivers
from tests.fakes.bus import FakeBroker, FakeEntity, Held
from tests.unit.router.receiving.test_parking import PARK_AT_ONCE
from tests.unit.router.receiving.test_slot import Bench, bodies
from tests.unit.router.receiving.test_unpack import broker, change, pack, queue, routed

__all__ = ["broker", "queue"]  # fixtures


def names(topic: str, *numbers: int) -> list[str]:
    return [f"{topic}-{number}" for number in numbers]


@pytest.mark.parametrize("sessions", [True, False])
def test_it_is_dead_lettered_with_the_brokers_words_and_its_neighbours_arrive_in_order(sessions: bool) -> None:
    bench = Bench(sessions=sessions)
    bench.topics["persons"].refuses = names("persons", 0, 7, 8, 14)
    bench.put("persons", *range(15))
    bench.put("orders", *range(5))
    bench.run()
    assert bodies(bench.topics["persons"]) == names("persons", 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13)
    assert bodies(bench.topics["orders"]) == names("orders", *range(5))
    assert [message.message_id for message, _, _ in bench.queue.dead] == names("persons", 0, 7, 8, 14)
    assert {reason for _, reason, _ in bench.queue.dead} == {"Refused"}
    assert all("was refused: not here" in description for _, _, description in bench.queue.dead)
    assert bench.tally.dead_lettered == {"Refused": 4}
    assert bench.tally.retries == {}


def test_no_lock_is_renewed_of_a_message_that_was_accepted_before_it() -> None:
    bench = Bench(sessions=False)
    bench.topics["persons"].refuses = ["persons-2"]
    bench.put("persons", *range(5))
    bench.run()
    assert bench.receivers.opened == [None], "the renewal would have failed, and the receiver with it"


def test_stop_ends_its_session_there() -> None:
    bench = Bench(on_poison="stop")
    bench.topics["persons"].refuses = ["persons-2"]
    bench.put("persons", *range(5))
    bench.put("orders", *range(5))
    bench.run(until=lambda: bench.parking.stopped == 1 and len(bench.queue.held) == 3)
    assert bodies(bench.topics["persons"]) == ["persons-0", "persons-1"]
    assert [held.message.message_id for held in bench.queue.held] == names("persons", 2, 3, 4)
    assert bench.queue.dead == []


def test_in_a_pack_it_takes_no_neighbour_along(broker: FakeBroker, queue: FakeEntity) -> None:
    topic = broker.create("orders")
    topic.refuses = ["m1", "m4"]
    queue.held += [Held(pack(*(change(number) for number in range(4)))), Held(change(4)), Held(change(5))]
    tally = routed(broker, queue, until=2)
    assert [held.message for held in topic.held] == [change(number) for number in (0, 2, 3, 5)]
    assert {(message.message_id, reason) for message, reason, _ in queue.dead} == {("m1", "Refused"), ("m4", "Refused")}
    assert tally.routed == {"orders": 4}


def test_a_topic_that_refuses_everything_does_not_empty_the_queue_into_the_dead_letter_queue() -> None:
    bench = Bench(pace=PARK_AT_ONCE)
    everything = names("persons", *range(40))
    bench.topics["persons"].refuses = everything
    bench.put("persons", *range(40))
    bench.put("orders", *range(5))
    with capture_logs() as told:
        bench.run(until=lambda: bench.tally.retries["persons"] > 3 and len(bench.topics["orders"].held) == 5)
    assert [message.message_id for message, _, _ in bench.queue.dead] == everything[:REFUSED_IN_A_ROW]
    assert [held.message.message_id for held in bench.queue.held] == everything[REFUSED_IN_A_ROW:]
    [line] = [entry for entry in told if entry["event"] == "topic unavailable"]
    assert line["log_level"] == "error"
    assert line["topic"] == "persons"
    assert "was refused: not here" in line["error"]


def test_it_goes_on_in_order_where_it_stood_once_the_topic_takes_messages_again() -> None:
    bench = Bench()
    bench.topics["persons"].refuses = names("persons", *range(40))
    bench.put("persons", *range(40))

    def mended() -> bool:
        if bench.tally.retries["persons"] > 3:
            bench.topics["persons"].refuses = ()
        return not bench.queue.held

    with capture_logs() as told:
        bench.run(until=mended)
    assert bodies(bench.topics["persons"]) == names("persons", *range(REFUSED_IN_A_ROW, 40))
    assert [entry["event"] for entry in told].count("topic available again") == 1


def test_refused_messages_among_accepted_ones_are_never_too_many() -> None:
    bench = Bench()
    odd = [number for number in range(6 * REFUSED_IN_A_ROW) if number % 2]
    bench.topics["persons"].refuses = names("persons", *odd)
    bench.put("persons", *range(6 * REFUSED_IN_A_ROW))
    bench.run()
    assert [message.message_id for message, _, _ in bench.queue.dead] == names("persons", *odd)
    assert bench.tally.retries == {}


def orders(refuses: list[str]) -> tuple[Publisher, FakeEntity]:
    here = FakeBroker()
    entity = here.create("orders")
    entity.refuses = refuses
    return Publisher("orders", here.sender("orders"), backoff=Backoff(1.0, 8.0), chance=lambda: 1.0), entity


def refuse(publisher: Publisher, times: int, message: Message) -> None:
    for _ in range(times):
        with pytest.raises(MessageRefused):
            publisher.send([message])


def test_one_accepted_message_says_that_the_topic_is_well() -> None:
    bad, good = Message(b"{}", "bad"), Message(b"{}", "good")
    publisher, _ = orders(["bad"])
    for _ in range(3):
        refuse(publisher, REFUSED_IN_A_ROW, bad)
        publisher.send([good])
    refuse(publisher, REFUSED_IN_A_ROW, bad)
    with pytest.raises(MessageRefused):
        publisher.send([good, bad])  # accepted before the refused one, in the same send
    refuse(publisher, REFUSED_IN_A_ROW - 1, bad)
    assert publisher.pause() == 0
    with pytest.raises(SendInterrupted):
        publisher.send([bad])
    assert publisher.pause() > 0


def test_messages_that_are_too_large_say_nothing_of_the_topic() -> None:
    publisher, entity = orders(["bad"])
    entity.limit = 10
    refuse(publisher, 3 * REFUSED_IN_A_ROW, Message(b"x" * 11, "large"))
    assert publisher.pause() == 0
    refuse(publisher, REFUSED_IN_A_ROW, Message(b"{}", "bad"))
    with pytest.raises(SendInterrupted):
        publisher.send([Message(b"{}", "bad")])
    refuse(publisher, 1, Message(b"x" * 11, "large"))


def test_a_packed_change_that_the_queue_refuses_too_is_dead_lettered_with_its_pack(
    broker: FakeBroker, queue: FakeEntity
) -> None:
    queue.held.append(Held(pack(*(change(number) for number in range(3)))))
    queue.refuses = ["m1"]
    receivers = UnpackingReceivers(broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"))
    receiver = receivers.open(max_wait=0)
    assert receiver is not None
    deliveries = receiver.receive(max_count=10, max_wait=0)
    receiver.dead_letter(deliveries[1], reason="Refused", description="not here")
    assert len(queue.held) == 1  # the others are not sent yet
    receiver.settle_many([deliveries[0], deliveries[2]])
    assert queue.held == []
    assert [reason for _, reason, _ in queue.dead] == ["Refused"]


def test_messages_that_cannot_be_written_say_nothing_of_the_topic() -> None:
    """Nothing was sent of them, so the topic had no say."""
    publisher, entity = orders(["bad"])
    odd = Message(b"{}", "x" * 129)
    for _ in range(3 * REFUSED_IN_A_ROW):
        entity.faults.append(MessageUnwritable("orders", odd, "cannot be written: too long", at=0))
        with pytest.raises(MessageUnwritable):
            publisher.send([odd])
    assert publisher.pause() == 0
    refuse(publisher, REFUSED_IN_A_ROW, Message(b"{}", "bad"))
    with pytest.raises(SendInterrupted):
        publisher.send([Message(b"{}", "bad")])
    entity.faults.append(MessageUnwritable("orders", odd, "cannot be written: too long", at=0))
    with pytest.raises(MessageUnwritable):
        publisher.send([odd])
