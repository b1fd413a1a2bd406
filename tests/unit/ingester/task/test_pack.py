"""Packs are between the sender and the queue: whoever sends speaks of changes, and learns which of them were taken or refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from common.bus import MessageTooLarge, TimeLeft
from common.errors import TransientError
from common.message import Message
from common.packing import is_pack, unpack
from ingester.task.pack import PackingSender
from tests.fakes.bus import FakeBroker, FakeEntity


def change(number: int, session: str = "s", size: int = 20) -> Message:
    return Message(b'{"x":"%s"}' % (b"x" * size), f"m{number}", session, application_properties={"table": "t"})


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def queue(broker: FakeBroker) -> FakeEntity:
    return broker.create("queue", sessions=True)


@pytest.fixture
def sender(broker: FakeBroker, queue: FakeEntity) -> PackingSender:
    return PackingSender(broker.sender("queue"), most=10)


def arrived(queue: FakeEntity) -> list[Message]:
    messages = [held.message for held in queue.held]
    return [each for message in messages for each in (unpack(message) if is_pack(message) else (message,))]


def test_the_queue_takes_fewer_messages_and_the_router_finds_all_changes_in_them(
    queue: FakeEntity, sender: PackingSender
) -> None:
    sent = [change(number) for number in range(25)]
    sender.send(sent)
    assert len(queue.held) == 3
    assert len(queue.sends) == 1
    assert arrived(queue) == sent
    assert sender.batch_bytes() == queue.limit


def test_one_change_is_one_message_as_ever(queue: FakeEntity, sender: PackingSender) -> None:
    sender.send([change(1)])
    assert arrived(queue) == [queue.held[0].message] == [change(1)]


def test_a_change_that_fits_no_message_is_named_with_those_before_it(queue: FakeEntity, sender: PackingSender) -> None:
    sent = [change(0, "a"), change(1), change(2), change(3, size=queue.limit), change(4), change(5)]
    with pytest.raises(MessageTooLarge) as refused:
        sender.send(sent)
    assert refused.value.refused is sent[3]
    assert refused.value.accepted == tuple(sent[:3])
    assert arrived(queue) == sent[:3]


class Stricter:
    """A sender whose entity takes packs of few changes only, as where the service counts more than was thought."""

    def __init__(self, changes: int) -> None:
        self.changes = changes
        self.took: list[Message] = []

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        before: list[Message] = []
        for message in messages:
            if is_pack(message) and len(unpack(message)) > self.changes:
                raise MessageTooLarge("queue", message, limit=1_000, accepted=before)
            if message.subject == "refused":
                raise MessageTooLarge("queue", message, limit=1_000, accepted=before)
            self.took.append(message)
            before.append(message)

    def close(self) -> None: ...


def test_a_pack_that_the_service_finds_too_large_goes_in_halves_until_it_fits() -> None:
    strict = Stricter(3)
    sent = [change(number) for number in range(20)]
    PackingSender(strict, most=10).send(sent)
    took = [unpack(message) if is_pack(message) else (message,) for message in strict.took]
    assert [each for pack in took for each in pack] == sent
    assert max(map(len, took)) <= 3


def test_what_halves_took_is_told_when_a_later_change_is_refused() -> None:
    sent = [*(change(number) for number in range(4)), Message(b"", "bad", "s", "refused"), change(9)]
    with pytest.raises(MessageTooLarge) as refused:
        PackingSender(Stricter(2), most=10).send(sent)
    assert refused.value.refused is sent[4]
    assert refused.value.accepted == tuple(sent[:4])


def test_an_outage_passes_through_and_the_same_changes_make_the_same_packs_again(
    queue: FakeEntity, sender: PackingSender
) -> None:
    sent = [change(number) for number in range(25)]
    queue.faults.append(TransientError("away"))
    with pytest.raises(TransientError):
        sender.send(sent)
    sender.send(sent)
    first = [held.message.message_id for held in queue.held]
    sender.send(sent)
    assert [held.message.message_id for held in queue.held] == first * 2


def test_closing_closes_the_sender_within(broker: FakeBroker, queue: FakeEntity) -> None:
    inner = broker.sender("queue")
    PackingSender(inner, most=2).close()
    assert inner.closed
