"""The promises of common/bus/ports.py, kept by the fake and by the real adapter alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from common.bus.ports import Delivery, MessageRefused, MessageTooLarge, OpenableSender, Receiver
from common.errors import EntityUnavailable, PermanentError, TransientError
from common.message import Message
from tests.contracts.bus.conftest import Bus

WAIT = 3.0


def message(number: int, session: str | None = None) -> Message:
    return Message(b'{"n":%d}' % number, f"m-{session}-{number}", session_id=session)


@pytest.fixture
def sender(bus: Bus) -> Iterator[OpenableSender]:
    opened = bus.sender(bus.plain)
    yield opened
    bus.close_later(opened)


@pytest.fixture
def lane_sender(bus: Bus) -> Iterator[OpenableSender]:
    opened = bus.sender(bus.lanes)
    yield opened
    bus.close_later(opened)


def opened(bus: Bus, queue: str) -> Receiver:
    receiver = bus.receivers(queue).open(max_wait=WAIT)
    assert receiver is not None
    return receiver


def take(receiver: Receiver, count: int) -> list[Delivery]:
    """Exactly the next `count` deliveries, in as many calls as it takes."""
    taken: list[Delivery] = []
    while len(taken) < count:
        more = receiver.receive(max_count=count - len(taken), max_wait=WAIT)
        assert more, f"{len(taken)} of {count} came"
        taken += more
    return taken


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [delivery.message.body for delivery in deliveries]


def test_every_property_arrives_as_it_was_sent(bus: Bus, sender: OpenableSender) -> None:
    whole = Message(
        body=b'{"data": {"name": "\xc3\x84"}}\n\x00',
        message_id="id-1",
        session_id="lane",
        subject="Insert",
        content_type="application/json",
        partition_key=None,
        correlation_id="c",
        reply_to="r",
        to="t",
        time_to_live=timedelta(hours=3),
        application_properties={"table": "Persons", "n": 7, "flag": True, "ratio": 0.5, "Größe": "ß"},
    )
    keyed = Message(b"{}", "id-2", partition_key="p")
    bare = Message(b"", None, content_type=None)
    sender.send([whole, keyed, bare])

    with closing(opened(bus, bus.plain)) as receiver:
        deliveries = take(receiver, 3)
        first, second, third = (delivery.message for delivery in deliveries)
        receiver.settle_many(deliveries)

    session_key = {
        whole.partition_key,
        whole.session_id,
    }  # the service gives a session's message its session id as the key
    assert first.partition_key in session_key
    assert (first.body, first.message_id, first.session_id) == (whole.body, "id-1", "lane")
    assert (first.subject, first.content_type, first.correlation_id) == ("Insert", "application/json", "c")
    assert (first.reply_to, first.to, first.time_to_live) == ("r", "t", timedelta(hours=3))
    assert first.application_properties == whole.application_properties
    assert (second.message_id, second.partition_key) == ("id-2", "p")
    assert (third.body, third.content_type, third.subject) == (b"", None, None)
    assert third.application_properties == {}


def test_messages_arrive_in_the_order_they_were_sent(bus: Bus, sender: OpenableSender) -> None:
    for start in (0, 150):
        sender.send([message(number) for number in range(start, start + 150)])
    with closing(opened(bus, bus.plain)) as receiver:
        deliveries = take(receiver, 300)
        assert receiver.settle_many(deliveries) == []
    assert bodies(deliveries) == [b'{"n":%d}' % number for number in range(300)]


def test_order_holds_within_each_session_of_a_mixed_send(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(number, "ab"[number % 2]) for number in range(20)])
    found = {}
    for _ in range(2):
        with closing(opened(bus, bus.lanes)) as receiver:
            deliveries = take(receiver, 10)
            found[receiver.session_id] = bodies(deliveries)
            receiver.settle_many(deliveries)
    assert found == {
        "a": [b'{"n":%d}' % number for number in range(0, 20, 2)],
        "b": [b'{"n":%d}' % number for number in range(1, 20, 2)],
    }


def test_an_empty_queue_gives_nothing_within_the_wait(bus: Bus) -> None:
    with closing(opened(bus, bus.plain)) as receiver:
        assert list(receiver.receive(max_count=10, max_wait=0.1)) == []


def test_a_receive_returns_what_is_there_without_waiting_for_more(bus: Bus, sender: OpenableSender) -> None:
    sender.send([message(0)])
    with closing(opened(bus, bus.plain)) as receiver:
        deliveries = receiver.receive(max_count=100, max_wait=60)
        assert bodies(deliveries) == [b'{"n":0}']
        receiver.settle_many(deliveries)


def test_who_only_ever_looks_gets_all_that_comes(bus: Bus, lane_sender: OpenableSender) -> None:
    """More than is fetched ahead, by receives that hardly wait, as of a slot that waits for an output meanwhile."""
    lane_sender.send([message(number, "a") for number in range(450)])
    with closing(opened(bus, bus.lanes)) as receiver:
        taken, until = list[Delivery](), time.monotonic() + 60
        while len(taken) < 450 and time.monotonic() < until:
            taken += receiver.receive(max_count=200, max_wait=0.05)
        assert bodies(taken) == [message(number, "a").body for number in range(450)]
        receiver.settle_many(taken)


def test_what_was_not_settled_comes_again_first_and_what_was_does_not(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(number, "a") for number in range(6)])
    with closing(opened(bus, bus.lanes)) as receiver:
        deliveries = take(receiver, 6)
        settled = [deliveries[at] for at in (0, 1, 3, 5)]
        assert receiver.settle_many(settled) == []
    with closing(opened(bus, bus.lanes)) as receiver:
        again = take(receiver, 2)
        assert bodies(again) == [b'{"n":2}', b'{"n":4}']
        assert list(receiver.receive(max_count=10, max_wait=0.1)) == []


def test_a_closed_session_does_not_count_as_a_failed_delivery(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(0, "a")])
    for _ in range(2):
        with closing(opened(bus, bus.lanes)) as receiver:
            (delivery,) = take(receiver, 1)
            assert delivery.delivery_count == 0


def test_released_messages_come_again_at_once_and_uncounted(bus: Bus, sender: OpenableSender) -> None:
    sender.send([message(0), message(1)])
    with closing(opened(bus, bus.plain)) as receiver:
        receiver.release(take(receiver, 2))
        again = take(receiver, 2)
        assert [(delivery.message.body, delivery.delivery_count) for delivery in again] == [
            (b'{"n":0}', 0),
            (b'{"n":1}', 0),
        ]


def test_closing_gives_back_what_was_not_settled_at_once_and_uncounted(bus: Bus, sender: OpenableSender) -> None:
    sender.send([message(number) for number in range(4)])
    with closing(opened(bus, bus.plain)) as receiver:
        first, second, *_ = take(receiver, 3)
        assert receiver.settle_many([first]) == []
        receiver.dead_letter(second, reason="r", description="d")
    with closing(opened(bus, bus.plain)) as receiver:
        again = take(receiver, 2)
        assert {(delivery.message.body, delivery.delivery_count) for delivery in again} == {
            (b'{"n":2}', 0),
            (b'{"n":3}', 0),
        }


def test_dead_letters_leave_with_reason_and_description(bus: Bus, sender: OpenableSender) -> None:
    sender.send([message(0), message(1)])
    with closing(opened(bus, bus.plain)) as receiver:
        first, second = take(receiver, 2)
        receiver.dead_letter(first, reason="MalformedMessage", description="no JSON: é")
        assert receiver.settle_many([second]) == []
    assert bus.dead_letters(bus.plain) == [(b'{"n":0}', "MalformedMessage", "no JSON: é")]


def test_a_message_whose_lock_ran_out_is_reported_lost_and_comes_again(bus: Bus, sender: OpenableSender) -> None:
    sender.send([message(number) for number in range(3)])
    with closing(opened(bus, bus.plain)) as receiver:
        deliveries = take(receiver, 3)
        bus.expire_locks()
        assert list(receiver.settle_many(deliveries)) == deliveries
    with closing(opened(bus, bus.plain)) as receiver:
        again = take(receiver, 3)
        assert [delivery.delivery_count for delivery in again] == [1, 1, 1]
        assert receiver.settle_many(again) == []


def test_a_session_whose_lock_ran_out_settles_nothing_more(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(number, "a") for number in range(3)])
    with closing(opened(bus, bus.lanes)) as receiver:
        deliveries = take(receiver, 3)
        bus.expire_locks()
        with suppress(TransientError):  # the link went with the lock: the port allows this answer as well
            assert len(receiver.settle_many(deliveries)) == 3
    with closing(opened(bus, bus.lanes)) as receiver:
        assert bodies(take(receiver, 3)) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']


def test_no_session_is_held_twice_and_none_is_left_when_all_are_held(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(0, "a"), message(1, "b")])
    with closing(opened(bus, bus.lanes)) as one, closing(opened(bus, bus.lanes)) as other:
        assert {one.session_id, other.session_id} == {"a", "b"}
        assert bus.receivers(bus.lanes).open(max_wait=0.2) is None


def test_no_sessions_at_all_is_none_and_no_error(bus: Bus) -> None:
    assert bus.receivers(bus.lanes).open(max_wait=0.2) is None


def test_a_state_stays_with_its_session_whoever_has_it(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(1, "a")])
    with closing(opened(bus, bus.lanes)) as receiver:
        assert receiver.state() is None
        receiver.set_state(b'{"v":1}')
    with closing(opened(bus, bus.lanes)) as receiver:
        assert receiver.state() == b'{"v":1}'
        receiver.set_state(None)
        assert receiver.state() is None
        receiver.settle_many(take(receiver, 1))


def test_a_queue_without_sessions_has_no_state(bus: Bus) -> None:
    with closing(opened(bus, bus.plain)) as receiver:
        receiver.set_state(b"anything")
        assert receiver.state() is None


def test_positions_rise_within_a_session_and_stay_with_their_message(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(number, "a") for number in range(3)])
    with closing(opened(bus, bus.lanes)) as receiver:
        first = [delivery.position for delivery in take(receiver, 3)]
    with closing(opened(bus, bus.lanes)) as receiver:
        again = take(receiver, 3)
        receiver.settle_many(again)
    assert first == sorted(set(first)) == [delivery.position for delivery in again]


def test_renewing_a_fresh_lock_costs_nothing_and_changes_nothing(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(0, "a")])
    with closing(opened(bus, bus.lanes)) as receiver:
        deliveries = take(receiver, 1)
        receiver.renew(deliveries)
        assert receiver.settle_many(deliveries) == []


def test_a_missing_entity_is_told_by_name_and_is_no_table_s_own_trouble(bus: Bus) -> None:
    with closing(bus.sender("nowhere")) as sender, pytest.raises(EntityUnavailable, match="nowhere"):
        sender.open()
    with pytest.raises(EntityUnavailable, match="nowhere"):
        bus.receivers("nowhere").open(max_wait=0.2)


def test_a_queue_of_the_other_kind_is_told(bus: Bus) -> None:
    for queue in (bus.plain, bus.lanes):
        with pytest.raises(EntityUnavailable, match=queue):
            bus.mismatched(queue).open(max_wait=0.2)


def test_a_message_that_fits_no_message_is_named_and_those_before_it_are_told(bus: Bus, sender: OpenableSender) -> None:
    big = Message(b"x" * 300_000, "big")
    before, after = message(0), message(1)
    with pytest.raises(MessageTooLarge, match="big") as refused:
        sender.send([before, big, after])
    assert refused.value.refused is big
    assert refused.value.accepted == {0}
    sender.send([after])
    with closing(opened(bus, bus.plain)) as receiver:
        assert bodies(take(receiver, 2)) == [before.body, after.body]


def test_what_was_accepted_is_told_by_its_place_so_a_message_may_be_in_a_send_twice(
    bus: Bus, sender: OpenableSender
) -> None:
    big, twice = Message(b"x" * 300_000, "big"), message(0)
    sent = [twice, big, twice]
    with pytest.raises(MessageTooLarge) as refused:
        sender.send(sent)
    assert (refused.value.at, refused.value.accepted) == (1, frozenset({0}))
    sender.send([message for at, message in enumerate(sent) if at not in {*refused.value.accepted, refused.value.at}])
    with closing(opened(bus, bus.plain)) as receiver:
        assert bodies(take(receiver, 1)) == [twice.body]  # duplicate detection removes the other


@pytest.mark.refuses_messages
def test_a_message_that_is_refused_is_named_and_those_before_it_are_told(bus: Bus, sender: OpenableSender) -> None:
    bad, others = Message(b"bad", "bad"), [message(number) for number in range(6)]
    bus.refuse("bad")
    with pytest.raises(MessageRefused, match="message bad was refused") as refused:
        sender.send([*others[:3], bad, *others[3:]])
    assert not isinstance(refused.value, MessageTooLarge)
    assert refused.value.refused is bad
    assert refused.value.accepted == {0, 1, 2}
    sender.send(others[3:])
    with closing(opened(bus, bus.plain)) as receiver:
        assert bodies(take(receiver, 6)) == [each.body for each in others]


def test_more_than_one_batch_of_bytes_goes_in_one_call(bus: Bus, sender: OpenableSender) -> None:
    sender.send([Message(bytes([48 + number]) * 100_000, f"m{number}") for number in range(6)])
    with closing(opened(bus, bus.plain)) as receiver:
        deliveries = take(receiver, 6)
        assert [body[:1] for body in bodies(deliveries)] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_message_without_a_session_is_refused_by_a_queue_with_sessions(bus: Bus, lane_sender: OpenableSender) -> None:
    with pytest.raises(PermanentError):
        lane_sender.send([message(0)])


@pytest.mark.cuts_connections
def test_a_sender_survives_a_cut_connection(bus: Bus, sender: OpenableSender) -> None:
    sender.send([message(0)])
    bus.cut()
    with pytest.raises(TransientError):
        sender.send([message(1)])
    sender.send([message(2)])
    with closing(opened(bus, bus.plain)) as receiver:
        found = bodies(take(receiver, 2))
        assert (found[0], b'{"n":2}' in found or found[1] == b'{"n":1}') == (b'{"n":0}', True)


@pytest.mark.cuts_connections
def test_a_receiver_says_that_its_connection_is_cut(bus: Bus, lane_sender: OpenableSender) -> None:
    lane_sender.send([message(0, "a")])
    with closing(opened(bus, bus.lanes)) as receiver:
        deliveries = take(receiver, 1)
        bus.cut()
        with pytest.raises(TransientError):
            receiver.settle_many(deliveries)
        with pytest.raises(TransientError):
            receiver.receive(max_count=1, max_wait=WAIT)
    with closing(opened(bus, bus.lanes)) as receiver:
        assert bodies(take(receiver, 1)) == [b'{"n":0}']


def test_who_waits_for_a_session_can_give_up_and_gets_the_first_that_comes(bus: Bus) -> None:
    """Long before the wait is over, in both cases."""
    asked: list[None] = []

    def after_some() -> bool:
        asked.append(None)
        return len(asked) > 2

    began = time.monotonic()
    assert bus.receivers(bus.lanes).open(max_wait=60, give_up=after_some) is None
    found: list[Receiver | None] = []
    waiting = threading.Thread(target=lambda: found.append(bus.receivers(bus.lanes).open(max_wait=60)))
    waiting.start()
    sender = bus.sender(bus.lanes)
    sender.send([Message(b"{}", "m", "s")])
    waiting.join(30)
    assert found[0] is not None
    found[0].close()
    bus.close_later(sender)
    assert time.monotonic() - began < 50
