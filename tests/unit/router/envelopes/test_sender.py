"""The converting sender on the fake broker, and in a slot: whatever happens to converted messages is said of those in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.bus.ports import MessageRefused, MessageTooLarge, OpenableSender, OutOfTime, SendInterrupted, TimeLeft
from common.message import Message
from router.envelopes.port import Converter
from router.envelopes.sender import ConvertingSender, NotConvertible, in_envelope
from router.outputs.port import Stream
from router.publishing.publisher import Publisher
from tests.fakes.bus import FakeBroker, FakeEntity, Held
from tests.unit.router.envelopes.golden import converter, native, output
from tests.unit.router.receiving.test_slot import Bench

DELETE = native("delete_in_another_schema")
INSERT = native("insert")


def message(kind: Message, number: int) -> Message:
    return replace(kind, message_id=f"m{number}")


class Trouble:
    """A sender that raises; it knows what it was given."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.given: list[str | None] = []
        self.left: TimeLeft | None = None

    def open(self) -> None:
        raise self.error

    def batch_bytes(self) -> int:
        return 77

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        self.given, self.left = [each.message_id for each in messages], left
        raise self.error

    def close(self) -> None:
        self.given.append("closed")


def over(inner: OpenableSender, made: Converter | None = None) -> ConvertingSender:
    return ConvertingSender("persons", inner, made or converter("debezium"), "debezium")


MIXED = [message(DELETE, 0), message(INSERT, 1), message(DELETE, 2), message(INSERT, 3)]
SENT = ["m0", "m0:tombstone", "m1", "m2", "m2:tombstone", "m3"]


@pytest.mark.parametrize(
    ("accepted", "originals"),
    [((), set()), ((0,), set()), ((0, 1), {0}), ((1, 2), {1}), ((0, 1, 2, 3), {0, 1}), (range(6), {0, 1, 2, 3})],
)
@pytest.mark.parametrize("kind", [SendInterrupted, OutOfTime])
def test_a_message_is_accepted_when_all_that_it_became_is(
    kind: type[SendInterrupted], accepted: Sequence[int], originals: set[int]
) -> None:
    inner = Trouble(kind("cut", accepted=accepted, throttled=True))
    with pytest.raises(kind) as raised:
        over(inner).send(MIXED)
    assert raised.value.accepted == originals
    assert raised.value.throttled
    assert inner.given == SENT


@pytest.mark.parametrize(("at", "original"), [(0, 0), (1, 0), (2, 1), (4, 2), (5, 3)])
def test_a_refused_message_is_named_by_its_place_in_the_queue(at: int, original: int) -> None:
    inner = Trouble(MessageRefused("persons", MIXED[original], "was refused", at=at, accepted=range(at)))
    with pytest.raises(MessageRefused) as raised:
        over(inner).send(MIXED)
    assert raised.value.at == original
    assert raised.value.refused is MIXED[original]
    assert raised.value.accepted == set(range(original))


def test_everything_else_of_the_port_is_the_senders_own() -> None:
    inner = Trouble(SendInterrupted("cut"))
    sender = over(inner)
    assert sender.batch_bytes() == 77
    with pytest.raises(SendInterrupted):
        sender.open()
    with pytest.raises(SendInterrupted):
        sender.send(MIXED, left=lambda: 7.0)
    assert inner.left is not None
    assert inner.left() == 7.0
    sender.close()
    assert inner.given[-1] == "closed"


def test_without_an_envelope_there_is_no_object_between() -> None:
    def senders(stream: Stream) -> OpenableSender:
        return FakeBroker().sender(stream.destination)

    assert in_envelope(output(), senders) is senders
    assert isinstance(in_envelope(output(envelope="changes"), senders)(Stream("t", None, "persons")), ConvertingSender)


def test_one_that_is_too_large_says_how_large_it_was_in_the_queue() -> None:
    broker = FakeBroker()
    broker.create("persons", limit=len(INSERT.body) + 10)
    sender = over(broker.sender("persons"), converter("cloudevents"))
    with pytest.raises(MessageTooLarge) as raised:
        sender.send([INSERT])
    assert raised.value.size > len(INSERT.body) + 10
    assert f"it has the envelope debezium, and its body in the queue has {len(INSERT.body)} bytes" in str(raised.value)


@pytest.mark.parametrize("before", [0, 2])
def test_what_comes_before_one_that_cannot_be_converted_is_sent(before: int) -> None:
    broker = FakeBroker()
    topic = broker.create("persons")
    foreign = Message(b"hello", "foreign", "s")
    messages = [*(message(INSERT, number) for number in range(before)), foreign, message(INSERT, 9)]
    with pytest.raises(NotConvertible, match="cannot be written in the envelope debezium: the body") as raised:
        over(broker.sender("persons")).send(messages)
    assert (raised.value.at, raised.value.accepted) == (before, frozenset(range(before)))
    assert raised.value.refused is foreign
    assert not raised.value.by_entity
    assert [held.message.message_id for held in topic.held] == [f"m{number}" for number in range(before)]


def test_a_topic_that_is_unavailable_refuses_nothing() -> None:
    with pytest.raises(SendInterrupted, match="away"):
        over(Trouble(SendInterrupted("away"))).send([Message(b"hello", "foreign")])


def in_a_slot(bench: Bench, *messages: Message) -> None:
    """In the session of the topic `persons`, which has the converting sender."""
    publisher = bench.publishers["persons"]
    assert isinstance(publisher, Publisher)
    publisher._sender = over(publisher._sender)
    for each in messages:
        properties = {**each.application_properties, "destination": "persons"}
        bench.queue.held.append(Held(replace(each, session_id="persons", application_properties=properties)))


def ids(entity: FakeEntity) -> list[str | None]:
    return [held.message.message_id for held in entity.held]


def test_poison_is_dead_lettered_as_it_came_and_its_neighbours_arrive_in_order() -> None:
    bench = Bench()
    foreign = Message(b"hello", "foreign", "persons")
    in_a_slot(bench, message(INSERT, 0), foreign, message(DELETE, 1))
    bench.run()
    assert ids(bench.topics["persons"]) == ["m0", "m1", "m1:tombstone"]
    [(dead, reason, description)] = bench.queue.dead
    assert (dead.body, reason) == (b"hello", "MalformedMessage")
    assert "envelope debezium" in description
    assert bench.tally.routed == {"persons": 2}


def test_a_session_stops_at_poison_with_everything_before_it_delivered() -> None:
    bench = Bench(on_poison="stop")
    in_a_slot(bench, message(INSERT, 0), message(INSERT, 1), Message(b"hello", "foreign"), message(INSERT, 2))
    bench.run(until=lambda: bench.parking.stopped == 1 and len(bench.queue.held) == 2)
    assert ids(bench.topics["persons"]) == ["m0", "m1"]
    assert ids(bench.queue) == ["foreign", "m2"]


def test_a_delete_whose_tombstone_was_not_accepted_is_sent_again_with_it() -> None:
    bench = Bench()
    bench.topics["persons"].faults.append(SendInterrupted("cut", accepted=[0, 1, 2]))
    in_a_slot(bench, message(INSERT, 0), message(INSERT, 1), message(DELETE, 2))
    bench.run()
    assert ids(bench.topics["persons"]) == ["m2", "m2:tombstone"]
    assert bench.tally.routed == {"persons": 3}


def test_the_id_of_a_tombstone_is_its_deletes_and_fits() -> None:
    whole = [made.message_id for made in converter("debezium").converted(DELETE)]
    assert whole == [DELETE.message_id, f"{DELETE.message_id}:tombstone"]
    longest = {"x" * 118, *("y" * 120 + str(number) for number in range(100, 110))}
    ids = set()
    for each in longest:
        [_, made] = converter("debezium").converted(replace(DELETE, message_id=each))
        assert made.message_id is not None
        assert len(made.message_id) <= 128
        assert made.message_id.endswith(":tombstone")
        assert (made.body, made.session_id, made.content_type) == (b"", DELETE.session_id, None)
        ids.add(made.message_id)
    assert len(ids) == len(longest)
