"""A pack is many deliveries to the router and one to the broker: what is settled when, and what becomes of poison in it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from common.bus.packing import MOST, PACK_TYPE, condemned, packed
from common.bus.ports import Delivery, MessageRefused, MessageTooLarge, TimeLeft
from common.errors import DStreamError, EntityUnavailable, TransientError
from common.message import Message, PropertyValue
from common.retry import Backoff
from router.publishing.publisher import Publisher
from router.publishing.publishers import Publishers
from router.receiving.pace import Pace
from router.receiving.slot import Forwarder
from router.receiving.unpack import Seen, UnpackingReceiver, UnpackingReceivers
from router.routes import REASONS, plan
from router.tally import Tally
from tests.fakes.bus import FakeBroker, FakeEntity, FakeReceiver, Held

SESSION = "s"
QUICK = Backoff(first=0.001, longest=0.001)


def change(number: int, destination: str = "orders") -> Message:
    body = b'{"n":%d}' % number
    return Message(body, f"m{number}", SESSION, "insert", application_properties={"destination": destination})


def pack(*changes: Message) -> Message:
    (parcel,) = packed(changes, most=MOST, limit=262_144)
    return parcel.message


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def queue(broker: FakeBroker) -> FakeEntity:
    return broker.create("ingest", sessions=True)


@pytest.fixture
def receiver(broker: FakeBroker, queue: FakeEntity) -> Iterator[UnpackingReceiver]:
    """Of a session with a pack of four and a change alone; the second of the pack is of another kind."""
    queue.held += [Held(pack(change(0), change(1, "people"), change(2), change(3))), Held(change(4))]
    receivers = UnpackingReceivers(broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"))
    opened = receivers.open(max_wait=0)
    assert isinstance(opened, UnpackingReceiver)
    yield opened
    opened.close()


def take(receiver: UnpackingReceiver) -> Sequence[Delivery]:
    return receiver.receive(max_count=10, max_wait=0)


def test_changes_come_out_single_and_in_order(receiver: UnpackingReceiver) -> None:
    deliveries = take(receiver)
    assert [delivery.message for delivery in deliveries] == [
        change(0),
        change(1, "people"),
        *(change(number) for number in (2, 3, 4)),
    ]
    assert [(delivery.delivery_count, delivery.fault) for delivery in deliveries] == [(0, None)] * 5
    assert receiver.session_id == SESSION


def test_a_pack_is_completed_with_the_last_of_its_changes(receiver: UnpackingReceiver, queue: FakeEntity) -> None:
    deliveries = take(receiver)
    assert receiver.settle_many([deliveries[1], deliveries[4]]) == []
    assert len(queue.held) == 1
    assert receiver.settle_many([deliveries[0]]) == []
    assert len(queue.held) == 1
    assert receiver.settle_many([deliveries[2], deliveries[3]]) == []
    assert queue.held == []


def test_a_lost_lock_is_told_of_the_changes_that_would_have_completed_the_pack(
    receiver: UnpackingReceiver, broker: FakeBroker, queue: FakeEntity
) -> None:
    deliveries = take(receiver)
    receiver.settle_many(deliveries[:2])
    broker.expire_locks()
    assert list(receiver.settle_many(deliveries[2:])) == list(deliveries[2:])
    assert len(queue.held) == 2


def test_a_poison_change_leaves_the_pack_alone_and_is_dead_lettered_when_it_comes_back(
    receiver: UnpackingReceiver, queue: FakeEntity
) -> None:
    deliveries = take(receiver)
    receiver.dead_letter(deliveries[1], reason="UnknownDestination", description="no people here")
    assert len(queue.held) == 3
    receiver.settle_many([deliveries[0], *deliveries[2:]])
    (left,) = queue.held
    assert (left.message.message_id, left.message.body, left.message.session_id) == ("m1", b'{"n":1}', SESSION)
    assert take(receiver) == []
    assert queue.held == []
    ((dead, reason, description),) = queue.dead
    assert (dead.message_id, reason, description) == ("m1", "UnknownDestination", "no people here")


def test_a_poison_change_whose_description_utf_8_cannot_hold_leaves_its_pack(
    receiver: UnpackingReceiver, queue: FakeEntity
) -> None:
    deliveries = take(receiver)
    receiver.dead_letter(deliveries[1], reason="Oversize", description="key \ud800")
    receiver.settle_many([deliveries[0], *deliveries[2:]])
    assert take(receiver) == []
    ((dead, reason, description),) = queue.dead
    assert (dead.message_id, reason, description) == ("m1", "Oversize", "key \\ud800")


def test_a_pack_of_nothing_but_poison_is_completed_too(receiver: UnpackingReceiver, queue: FakeEntity) -> None:
    deliveries = take(receiver)
    for delivery in deliveries[:4]:
        receiver.dead_letter(delivery, reason="MessageTooLarge", description="too large")
    assert [held.message.message_id for held in queue.held] == ["m4", "m0", "m1", "m2", "m3"]


def test_a_poison_change_that_cannot_be_sent_back_stays_in_its_pack(
    receiver: UnpackingReceiver, queue: FakeEntity
) -> None:
    deliveries = take(receiver)
    queue.faults.append(TransientError("away"))
    with pytest.raises(TransientError):
        receiver.dead_letter(deliveries[1], reason="UnknownDestination", description="")
    receiver.settle_many([deliveries[0], *deliveries[2:]])
    assert len(queue.held) == 1


def test_a_lock_that_is_lost_while_the_last_change_is_set_aside_is_an_error(
    receiver: UnpackingReceiver, broker: FakeBroker
) -> None:
    deliveries = take(receiver)
    receiver.settle_many([deliveries[0], *deliveries[2:]])
    broker.expire_locks()
    with pytest.raises(TransientError, match="lock"):
        receiver.dead_letter(deliveries[1], reason="UnknownDestination", description="")


def test_single_messages_pass_untouched(receiver: UnpackingReceiver, queue: FakeEntity) -> None:
    single = take(receiver)[4]
    receiver.renew([single])
    receiver.dead_letter(single, reason="MalformedMessage", description="bad")
    assert [(message.message_id, reason) for message, reason, _ in queue.dead] == [("m4", "MalformedMessage")]


def test_packs_are_renewed_and_given_back_once_and_whole(receiver: UnpackingReceiver, queue: FakeEntity) -> None:
    deliveries = take(receiver)
    receiver.renew(deliveries)
    receiver.release(deliveries[1:3])
    assert [held.holder is None for held in queue.held] == [True, False]


def test_a_pack_that_cannot_be_read_is_one_delivery_with_a_fault(broker: FakeBroker, queue: FakeEntity) -> None:
    queue.held.append(Held(replace(pack(change(0), change(1)), body=b"[]")))
    inner = broker.receivers("ingest", sessions=True).open(max_wait=0)
    assert inner is not None
    receiver = UnpackingReceiver(inner, lambda: broker.sender("ingest"))
    (delivery,) = take(receiver)
    assert delivery.fault is not None
    assert "cannot be read" in delivery.fault
    assert (delivery.message.message_id, delivery.delivery_count) == (queue.held[0].message.message_id, 0)
    receiver.dead_letter(delivery, reason="MalformedMessage", description=delivery.fault)
    assert len(queue.dead) == 1


def test_fewer_messages_are_asked_for_while_packs_are_large(broker: FakeBroker, queue: FakeEntity) -> None:
    queue.held += [Held(pack(*(change(10 * first + n) for n in range(5)))) for first in range(3)]
    queue.held += [Held(change(number)) for number in range(100, 120)]
    inner = broker.receivers("ingest", sessions=True).open(max_wait=0)
    assert inner is not None
    receiver = UnpackingReceiver(inner, lambda: broker.sender("ingest"), Seen(2))
    counts = [len(receiver.receive(max_count=4, max_wait=0)) for _ in range(5)]
    assert counts == [10, 5, 1, 2, 4]


def test_a_session_begins_with_what_this_process_has_seen_lately(broker: FakeBroker, queue: FakeEntity) -> None:
    """Eight reads of one message each would go before the first large one where every session learns for itself."""
    queue.held += [Held(replace(change(number), session_id=f"s{number // 20}")) for number in range(1_200)]
    receivers = UnpackingReceivers(
        broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"), Seen(MOST)
    )
    first_reads = []
    for _ in range(60):
        with closing(opened(receivers)) as receiver:
            found = receiver.receive(max_count=20, max_wait=0)
            first_reads.append(len(found))
            receiver.settle_many(found)
            while found := receiver.receive(max_count=20, max_wait=0):
                receiver.settle_many(found)
    assert (first_reads[0], first_reads[-1]) == (1, 20)
    queue.held.append(Held(pack(*(change(number) for number in range(10)))))
    queue.held += [Held(change(number)) for number in range(20)]
    with closing(opened(receivers)) as receiver:
        assert len(receiver.receive(max_count=20, max_wait=0)) == 29
    with closing(opened(receivers)) as receiver:
        assert len(receiver.receive(max_count=20, max_wait=0)) == 11  # two messages, the pack and one more


def opened(receivers: UnpackingReceivers) -> UnpackingReceiver:
    receiver = receivers.open(max_wait=0)
    assert isinstance(receiver, UnpackingReceiver)
    return receiver


NO_WAY_BACK: list[DStreamError] = [
    EntityUnavailable("sending to ingest: 'Send' claim(s) are required"),
    MessageRefused("ingest", change(1), "was refused: amqp:not-allowed", at=0),
]


@pytest.mark.parametrize("error", NO_WAY_BACK, ids=lambda error: type(error).__name__)
def test_where_poison_cannot_leave_its_pack_the_pack_is_dead_lettered_whole_when_the_others_are_sent(
    receiver: UnpackingReceiver, queue: FakeEntity, error: DStreamError
) -> None:
    deliveries = take(receiver)
    queue.faults.append(error)
    receiver.dead_letter(deliveries[1], reason="UnknownDestination", description="no people here")
    assert (len(queue.held), queue.dead) == (2, [])
    receiver.settle_many([deliveries[0], *deliveries[2:4]])
    ((dead, reason, description),) = queue.dead
    assert (dead, reason) == (pack(change(0), change(1, "people"), change(2), change(3)), "UnknownDestination")
    assert "m1 (UnknownDestination: no people here)" in description
    assert "of the 4 changes of this pack 1 are poison" in description
    assert receiver.settle_many(deliveries[4:]) == []
    assert queue.held == []


def test_a_router_that_may_not_send_to_the_queue_goes_on_at_poison_in_a_pack(
    broker: FakeBroker, queue: FakeEntity
) -> None:
    topic = broker.create("orders")
    queue.faults.append(NO_WAY_BACK[0])
    queue.held += [Held(pack(change(0), change(1, "people"), change(2))), Held(change(3))]
    tally = routed(broker, queue, until=1)
    assert [held.message for held in topic.held] == [change(0), change(2), change(3)]
    assert [reason for _, reason, _ in queue.dead] == ["UnknownDestination"]
    assert dict(tally.dead_lettered) == {"UnknownDestination": 1}


def routed(broker: FakeBroker, queue: FakeEntity, *, until: int) -> Tally:
    """Run a slot until so many messages of the queue are dead and none is left."""
    stop, tally = threading.Event(), Tally()
    publishers = Publishers([Publisher("orders", broker.sender("orders"), backoff=QUICK)])
    receivers = UnpackingReceivers(broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"))
    pace = Pace(batch=10, accept_wait=0.01, poll=0.005, idle=0.01, turn=5.0)
    slot = threading.Thread(target=Forwarder(receivers, publishers, stop, True, pace, tally=tally).run)
    slot.start()
    try:
        deadline = time.monotonic() + 10
        while (queue.held or len(queue.dead) < until) and time.monotonic() < deadline:
            stop.wait(0.005)
    finally:
        stop.set()
        slot.join()
    return tally


def test_the_router_sends_a_packs_changes_and_poison_takes_no_neighbour_along(
    broker: FakeBroker, queue: FakeEntity
) -> None:
    topic = broker.create("orders", limit=100)
    large = replace(change(3), body=b'{"x":"%s"}' % (b"x" * 200))
    held = [change(0), change(1, "people"), change(2), large, change(4)]
    queue.held += [Held(pack(*held)), Held(change(5))]
    tally = routed(broker, queue, until=2)
    assert [held.message for held in topic.held] == [change(number) for number in (0, 2, 4, 5)]
    assert {(message.message_id, reason) for message, reason, _ in queue.dead} == {
        ("m1", "UnknownDestination"),
        ("m3", "MessageTooLarge"),
    }
    assert tally.routed.total() == 4
    assert dict(tally.dead_lettered) == {"UnknownDestination": 1, "MessageTooLarge": 1}


def test_a_topic_that_is_away_for_a_while_gets_every_change_once(broker: FakeBroker, queue: FakeEntity) -> None:
    topic = broker.create("orders")
    topic.faults += [TransientError("away"), TransientError("away")]
    held = [change(number) for number in range(8)]
    queue.held += [Held(pack(*held[:5])), Held(pack(*held[5:]))]
    routed(broker, queue, until=0)
    assert [held.message for held in topic.held] == held


def test_closing_closes_the_sender_that_was_used(broker: FakeBroker, receiver: UnpackingReceiver) -> None:
    sender = broker.sender("ingest")
    receiver.resend = lambda: sender
    receiver.dead_letter(take(receiver)[1], reason="UnknownDestination", description="")
    receiver.close()
    assert sender.closed


def test_a_topics_own_refusal_names_the_change(broker: FakeBroker, receiver: UnpackingReceiver) -> None:
    """The router finds the refused change by its place in what it sent."""
    broker.create("small", limit=1)
    deliveries = take(receiver)
    with pytest.raises(MessageTooLarge) as refused:
        broker.sender("small").send([delivery.message for delivery in deliveries])
    assert (refused.value.refused, refused.value.at) == (deliveries[0].message, 0)


def test_a_pack_larger_than_any_that_is_made_says_nothing_of_what_messages_hold(
    broker: FakeBroker, queue: FakeEntity
) -> None:
    count = 20 * MOST
    index = json.dumps({"ids": "x", "subjects": None, "properties": {}})
    properties: dict[str, PropertyValue] = {"pack": count, "pack_index": index}
    body = b"[" + b",\n".join([b"1"] * count) + b"]"
    queue.held.append(Held(Message(body, "p", SESSION, content_type=PACK_TYPE, application_properties=properties)))
    seen = Seen(1)
    receivers = UnpackingReceivers(broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"), seen)
    with closing(opened(receivers)) as receiver:
        (delivery,) = take(receiver)
        assert delivery.fault is not None
        assert "up to 500" in delivery.fault
    assert seen.most == 1


def test_a_poison_change_is_sent_alone_only_while_the_lock_of_its_pack_lasts(
    broker: FakeBroker, receiver: UnpackingReceiver
) -> None:
    sender, times = broker.sender("ingest"), list[float]()

    def send(messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        assert left is not None
        times.append(left())

    sender.send = send  # type: ignore[method-assign]
    receiver.resend = lambda: sender
    first, second, *_ = take(receiver)
    assert isinstance(receiver.inner, FakeReceiver)
    for delivery, lasts in ((first, 8.0), (second, -1.0)):
        receiver.inner.lock_lasts = lasts
        receiver.dead_letter(delivery, reason="UnknownDestination", description="")
    assert times == [6.0, -1.0]


@pytest.mark.parametrize("sessions", [True, False])
def test_a_stop_waits_for_no_more_than_one_marked_message(sessions: bool) -> None:
    """What 500 poison changes of a pack leave behind comes back in hundreds."""
    broker, stop = FakeBroker(), threading.Event()
    queue = broker.create("ingest", sessions=sessions)
    queue.held += [Held(condemned(change(number), reason="Refused", description="")) for number in range(5)]

    def goes_on() -> bool:
        if len(queue.dead) == 2:
            stop.set()
        return not stop.is_set()

    receivers = UnpackingReceivers(
        broker.receivers("ingest", sessions=sessions), lambda: broker.sender("ingest"), goes_on=goes_on
    )
    receiver = opened(receivers)
    assert take(receiver) == []
    assert len(queue.dead) == 2
    assert isinstance(receiver.inner, FakeReceiver)
    assert receiver.inner.renewals == 2
    receiver.close()
    assert [held.holder for held in queue.held] == [None] * 3


@pytest.mark.parametrize("forged", ["None.None", "", "None", "\ud800"])
def test_a_mark_with_a_reason_that_no_router_gives_is_a_fault_and_no_dead_letters_reason(
    broker: FakeBroker, queue: FakeEntity, forged: str
) -> None:
    marks: dict[str, PropertyValue] = {"dead_letter_reason": forged, "dead_letter_description": "None"}
    marked = replace(change(0), application_properties={**change(0).application_properties, **marks})
    queue.held += [Held(marked), Held(change(1))]
    receivers = UnpackingReceivers(broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"))
    with closing(opened(receivers)) as receiver:
        suspect, good = take(receiver)
        assert good.fault is None
        assert (suspect.fault or "").endswith(f"with an unknown reason: {forged!r}")
        decided = plan([suspect, good], {"orders"})
        ((poison,), (group,)) = decided.poison, decided.groups
        receiver.dead_letter(poison.delivery, reason=poison.reason, description=poison.description)
        receiver.settle_many(group.deliveries)
    ((dead, reason, _),) = queue.dead
    assert (dead.message_id, reason) == ("m0", "MalformedMessage")


def test_every_reason_of_the_routers_may_stand_in_a_mark(broker: FakeBroker, queue: FakeEntity) -> None:
    for number, reason in enumerate(sorted(REASONS)):
        queue.held.append(Held(condemned(change(number), reason=reason, description="")))
    receivers = UnpackingReceivers(broker.receivers("ingest", sessions=True), lambda: broker.sender("ingest"))
    with closing(opened(receivers)) as receiver:
        assert take(receiver) == []
    assert [reason for _, reason, _ in queue.dead] == sorted(REASONS)


def test_changes_without_ids_never_leave_their_pack(broker: FakeBroker, queue: FakeEntity) -> None:
    """A topic would take each send of such a change for a new message, or all of them for one."""
    index = json.dumps({"ids": {"each": ["m0", ""]}, "subjects": None, "properties": {"destination": "orders"}})
    properties: dict[str, PropertyValue] = {"pack": 2, "pack_index": index}
    for number in range(2):
        body = b'[{"n":%d},\n{}]' % number
        queue.held.append(
            Held(Message(body, f"p{number}", SESSION, content_type=PACK_TYPE, application_properties=properties))
        )
    broker.create("orders")
    routed(broker, queue, until=0)
    assert broker.entity("orders").bodies == []
    assert [(dead.message_id, reason) for dead, reason, _ in queue.dead] == [
        ("p0", "MalformedMessage"),
        ("p1", "MalformedMessage"),
    ]
    assert all("1 of 2 changes have an empty id" in description for _, _, description in queue.dead)
