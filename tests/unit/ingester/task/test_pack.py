"""Packs are between the sender and the queue: whoever sends speaks of changes, and learns which of them were taken or refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.bus.packing import is_pack, unpack
from common.bus.ports import MessageRefused, MessageTooLarge, SendInterrupted, TimeLeft
from common.errors import TransientError
from common.message import Message
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
    assert refused.value.accepted == set(range(3))
    assert arrived(queue) == sent[:3]


class Stricter:
    """A sender whose entity takes packs of few changes only, as where the service counts more than was thought."""

    def __init__(self, changes: int) -> None:
        self.changes = changes
        self.took: list[Message] = []

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        for at, message in enumerate(messages):
            if is_pack(message) and len(unpack(message)) > self.changes:
                raise MessageTooLarge("queue", message, at=at, limit=1_000, accepted=range(at))
            if message.subject == "refused":
                raise MessageTooLarge("queue", message, at=at, limit=1_000, accepted=range(at))
            self.took.append(message)

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
    assert refused.value.accepted == set(range(4))


class Metered:
    """Takes so many messages, and refuses the others for a lack of credits."""

    def __init__(self, credits: int) -> None:
        self.credits = credits

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        raise SendInterrupted("throttled", accepted=range(self.credits), throttled=True)

    def close(self) -> None: ...


def test_a_change_that_is_in_a_send_twice_is_accepted_by_its_places() -> None:
    """A pack never holds one id twice, so each of these is a message of its own."""
    with pytest.raises(SendInterrupted) as interrupted:
        PackingSender(Metered(2), most=10).send([change(1)] * 3)
    assert interrupted.value.accepted == {0, 1}


def test_what_packs_took_is_told_by_the_places_of_the_changes_although_sessions_are_packed_one_by_one() -> None:
    sent = [change(number, "ab"[number % 2]) for number in range(8)]
    with pytest.raises(SendInterrupted) as interrupted:
        PackingSender(Metered(2), most=3).send(sent)
    assert interrupted.value.accepted == {0, 2, 4, 6}


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


class Moody:
    """An entity that refuses some changes for good, packs of more than so many, and at times everything for a lack of credits."""

    def __init__(self, refuses: frozenset[int], largest: int, credits: list[int]) -> None:
        self._refuses, self._largest, self._credits = refuses, largest, credits
        self.took: list[Message] = []

    def batch_bytes(self) -> int:
        return 262_144

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        credits = self._credits.pop() if self._credits else len(messages)
        for at, message in enumerate(messages):
            held = unpack(message) if is_pack(message) else (message,)
            if at >= credits:
                raise SendInterrupted("throttled", accepted=range(at), throttled=True)
            if len(held) > self._largest or any(number(change) in self._refuses for change in held):
                raise MessageRefused("queue", message, "was refused", at=at, accepted=range(at))
            self.took += held

    def close(self) -> None: ...


def number(message: Message) -> int:
    assert message.message_id is not None
    return int(message.message_id[1:])


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), max_size=25),
    st.frozensets(st.integers(0, 9), max_size=3),
    st.integers(1, 4),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_whatever_an_entity_refuses_each_change_is_taken_once_or_named(
    sent: list[tuple[int, str]], refuses: frozenset[int], largest: int, credits: list[int]
) -> None:
    """As the drain sends: what was accepted is not sent again, and what was refused is left out. Changes may be the same object twice."""
    changes = {each: change(each[0], each[1]) for each in sent}
    inner = Moody(refuses, largest, credits)
    sender = PackingSender(inner, most=5)
    left, named = [changes[each] for each in sent], list[Message]()
    while left:
        try:
            sender.send(left)
            left = []
        except SendInterrupted as error:
            left = [message for at, message in enumerate(left) if at not in error.accepted]
        except MessageRefused as error:
            named.append(left[error.at])
            left = [message for at, message in enumerate(left) if at not in {*error.accepted, error.at}]
    assert sorted(map(number, [*inner.took, *named])) == sorted(n for n, _ in sent)
    assert {number(message) for message in named} == refuses & {n for n, _ in sent}
    for session in "ab":
        told = [number(message) for message in inner.took if message.session_id == session]
        assert told == [n for n, each in sent if each == session and n not in refuses]
