"""The protocol without sockets: handshakes, windows, credit, ranges, and what happens to those who do not keep to it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import IDLE_TIMEOUT, MAX_FRAME
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.frames import AMQP_HEADER, SASL_HEADER, frame
from emulators.servicebus.amqp.values import Described, Symbol, UInt, ULong
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.message import BATCH_FORMAT

from .wire import RECEIVE, SEND, Peer, body_of, deliveries, error_of, message, peer_with_sender, send


@pytest.fixture
def peer() -> Peer:
    return peer_with_sender()


def test_sasl_offers_what_the_service_offers_and_plain_checks_the_key() -> None:
    header, mechanisms, outcome = Peer().sasl()
    assert header == SASL_HEADER
    assert set(mechanisms[1][0]) >= {"MSSBCBS", "PLAIN", "ANONYMOUS"}
    assert outcome[1][0] == 0
    stranger = Peer()
    assert stranger.sasl(response=b"\0root\0wrong")[-1][1][0] == 1
    assert stranger.connection.closed


def test_a_connection_without_sasl_is_shown_the_header_it_should_have_sent() -> None:
    peer = Peer()
    peer.raw(AMQP_HEADER)
    assert peer.connection.closed
    assert peer.connection.output(0) == SASL_HEADER


def test_anonymous_without_a_token_reaches_no_entity() -> None:
    peer = Peer()
    peer.create("q")
    peer.sasl("ANONYMOUS", None)
    peer._reader.expect_header()
    peer.raw(AMQP_HEADER)
    peer.say(p.OPEN, "client", None, UInt(1000), channel=0)
    peer.say(p.BEGIN, None, UInt(0), UInt(9), UInt(9))
    for receive in (True, False):
        heard = peer.attach("q", receive=receive, handle=int(receive))
        assert error_of(heard[-1]) == "amqp:unauthorized-access"


def test_a_refused_link_is_attached_without_termini_and_detached(peer: Peer) -> None:
    attach, detach = peer.attach("nowhere", receive=True, handle=7)
    assert (attach[0], attach[1][5], attach[1][6]) == (p.ATTACH, None, None)
    assert (detach[1][1], error_of(detach)) == (True, "amqp:not-found")


def test_a_transaction_coordinator_is_refused() -> None:
    """Row 55. service-bus-transactions."""
    peer = Peer().open()
    coordinator = Described(ULong(0x30), [])
    peer.say(p.ATTACH, "tx", UInt(0), False, None, None, Described(ULong(p.SOURCE), ["x"]), coordinator)
    assert peer.condition == "amqp:not-implemented"


def test_a_message_in_many_frames_arrives_whole_and_leaves_in_frames_the_peer_can_take() -> None:
    peer = Peer()
    peer.create("q")
    peer.open(max_frame=512)
    peer.attach("q", receive=False, handle=SEND)
    body = bytes(range(256)) * 20
    encoded = message(body)
    for at in range(0, len(encoded), 400):
        peer.transfer(SEND, encoded[at : at + 400], more=at + 400 < len(encoded))
    assert [item[1][4].descriptor for item in peer.heard(p.DISPOSITION)] == [p.ACCEPTED]
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 1)
    frames = peer.heard(p.TRANSFER)
    assert len(frames) > 10
    assert [fields[5] for _, fields, _ in frames] == [True] * (len(frames) - 1) + [False]
    assert all(len(payload) < 512 for _, _, payload in frames)
    assert body_of(b"".join(payload for _, _, payload in frames)) == body


def test_an_aborted_transfer_leaves_nothing(peer: Peer) -> None:
    peer.transfer(SEND, b"half of", more=True)
    peer.transfer(SEND, b"", aborted=True)
    send(peer, b"whole")
    assert peer.namespace.get("q").counts.active == 1


def test_credit_is_never_exceeded_and_drain_gives_back_the_rest(peer: Peer) -> None:
    send(peer, b"a", b"b", b"c")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 2)
    assert [body for _, body in deliveries(peer)] == [b"a", b"b"]
    peer.credit(RECEIVE, 5, delivery_count=2, drain=True)
    heard = peer.heard()
    assert [item[0] for item in heard] == [p.TRANSFER, p.FLOW]
    flow = heard[-1][1]
    assert (flow[5], flow[6], flow[8]) == (7, 0, True)
    send(peer, b"d")
    assert deliveries(peer) == []


def test_deliveries_wait_for_the_session_window() -> None:
    peer = Peer()
    peer.create("q")
    peer.open(window=2)
    peer.attach("q", receive=False, handle=SEND)
    send(peer, b"a", b"b", b"c")
    peer.attach("q", receive=True, handle=RECEIVE)
    fields: list[Any] = [UInt(1), UInt(2), UInt(3), UInt(9), UInt(RECEIVE), UInt(0), UInt(10)]
    peer.say(p.FLOW, *fields)
    assert [body for _, body in deliveries(peer)] == [b"a", b"b"]
    peer.say(p.FLOW, UInt(3), UInt(2), UInt(3), UInt(9))
    assert [body for _, body in deliveries(peer)] == [b"c"]


def test_senders_get_new_credit_before_they_run_out(peer: Peer) -> None:
    for _ in range(600):
        peer.transfer(SEND, message(b"x"))
    flows = peer.heard(p.FLOW)
    assert flows
    assert flows[-1][1][5] + flows[-1][1][6] > 1000


def test_a_range_is_settled_exactly_and_answered_as_one(peer: Peer) -> None:
    """Row 52. service-bus-amqp-protocol-guide."""
    send(peer, b"a", b"b", b"c", b"d")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 4)
    first = deliveries(peer)[0][0]
    accepted = Described(ULong(p.ACCEPTED), [])
    peer.say(p.DISPOSITION, True, UInt(first + 1), UInt(first + 2), False, accepted)
    (answer,) = peer.heard(p.DISPOSITION)
    assert (answer[1][1], answer[1][2], answer[1][3]) == (first + 1, first + 2, True)
    assert peer.namespace.get("q").counts.active == 2
    peer.say(p.DISPOSITION, True, UInt(first), UInt(2**32 - 1), False, accepted)
    assert [(i[1][1], i[1][2]) for i in peer.heard(p.DISPOSITION)] == [(first, None), (first + 3, None)]
    assert peer.namespace.get("q").counts.active == 0


def test_single_settlements_are_answered_one_by_one(peer: Peer) -> None:
    """Reference 5.4: merged answers starve the SDK's coroutines."""
    send(peer, b"a", b"b")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 2)
    for identifier, _ in deliveries(peer):
        peer.say(p.DISPOSITION, True, UInt(identifier), None, False, Described(ULong(p.ACCEPTED), []))
    assert len(peer.heard(p.DISPOSITION)) == 2


@pytest.mark.parametrize(("state", "echo", "active", "dead"), [
    (Described(ULong(p.ACCEPTED), []), p.ACCEPTED, 0, 0),
    (Described(ULong(p.RELEASED), []), p.RELEASED, 1, 0),
    (Described(ULong(p.MODIFIED), [True, False, None]), p.MODIFIED, 1, 0),
    (Described(ULong(p.REJECTED), [None]), p.REJECTED, 0, 1),
])  # fmt: skip
def test_the_outcome_is_echoed_without_fields(peer: Peer, state: Described, echo: int, active: int, dead: int) -> None:
    send(peer, b"a")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 1)
    ((identifier, _),) = deliveries(peer)
    peer.say(p.DISPOSITION, True, UInt(identifier), None, False, state)
    (answer,) = peer.heard(p.DISPOSITION)
    assert (answer[1][4].descriptor, answer[1][4].value) == (echo, [])
    counts = peer.namespace.get("q").counts
    assert (counts.active, counts.dead_letter) == (active, dead)


def test_a_rejected_send_carries_an_error_of_three_fields(peer: Peer) -> None:
    """Reference 3.1 no. 2: with two, `send_messages` of 7.15.0 never returns."""
    peer.transfer(SEND, b"no message")
    (answer,) = peer.heard(p.DISPOSITION)
    (error,) = answer[1][4].value
    assert error.value[0] == "amqp:decode-error"
    assert len(error.value) == 3


def test_a_batch_with_one_bad_message_is_refused_whole(peer: Peer) -> None:
    batch = b"".join(encode(Described(ULong(0x75), inner)) for inner in (message(b"good"), b"bad"))
    peer.transfer(SEND, batch, message_format=BATCH_FORMAT)
    assert peer.condition == "amqp:decode-error"
    assert peer.namespace.get("q").counts.active == 0


def test_an_unknown_message_format_is_refused_by_name(peer: Peer) -> None:
    peer.transfer(SEND, message(b"x"), message_format=1)
    assert peer.condition == "amqp:not-implemented"


def test_all_fields_of_every_performative_are_written(peer: Peer) -> None:
    """Reference 3.1 no. 1: azure-servicebus up to 7.14.3 indexes fields without padding."""
    from emulators.servicebus.amqp.decode import decode

    for code, count in {p.OPEN: 10, p.BEGIN: 8, p.ATTACH: 14, p.FLOW: 11, p.DETACH: 3, p.END: 1, p.CLOSE: 1}.items():
        described, _ = decode(p.perform(code))
        assert len(described.value) == count


def test_frames_after_end_are_ignored(peer: Peer) -> None:
    """Reference 3.1 no. 6."""
    peer.say(p.END)
    assert [item[0] for item in peer.heard()] == [p.END]
    peer.say(p.DETACH, UInt(SEND), True)
    assert peer.heard() == []
    assert not peer.connection.closed


def test_management_answers_only_on_credit(peer: Peer) -> None:
    """Row 60, reference 3.1 no. 7: the SDK never renews the credit of its management link."""
    peer.attach("q/$management", receive=True, handle=5)
    peer.attach("q/$management", receive=False, handle=6)
    peer.credit(5, 1)
    request = encode(Described(ULong(0x73), ["id"]))
    request += encode(Described(ULong(0x74), {"operation": "com.microsoft:peek-message"}))
    request += encode(Described(ULong(0x77), {"from-sequence-number": 1, "message-count": 1}))
    for _ in range(3):
        peer.transfer(6, request)
    assert len(peer.heard(p.TRANSFER)) == 1
    peer.credit(5, 5, delivery_count=1)
    assert len(peer.heard(p.TRANSFER)) == 2


def test_an_unknown_operation_is_refused_by_name(peer: Peer) -> None:
    peer.attach("q/$management", receive=True, handle=5)
    peer.attach("q/$management", receive=False, handle=6)
    peer.credit(5, 1)
    request = encode(Described(ULong(0x73), ["id"]))
    request += encode(Described(ULong(0x74), {"operation": "com.microsoft:do-magic"})) + message(b"")
    peer.transfer(6, request)
    ((_, fields, payload),) = peer.heard(p.TRANSFER)
    assert fields[4] is True
    assert b"do-magic" in payload
    assert encode(Symbol("amqp:not-implemented")) in payload


def test_heartbeats_are_sent_for_a_peer_that_wants_them_and_silence_ends_the_connection() -> None:
    peer = Peer().open(idle=10_000)
    peer.connection.tick(peer.now + 4)
    assert peer.heard() == []
    peer.connection.tick(peer.now + 5)
    assert peer.heard() == [("heartbeat",)]
    peer.connection.tick(peer.now + IDLE_TIMEOUT + 1)
    assert peer.connection.closed
    assert error_of(peer.heard()[-1]) == "amqp:connection:forced"


def test_a_lost_connection_leaves_locks_to_expire(peer: Peer) -> None:
    send(peer, b"a")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 1)
    peer.connection.lost()
    heir = Peer(peer.namespace).open()
    heir.attach("q", receive=True, handle=RECEIVE)
    heir.credit(RECEIVE, 1)
    assert deliveries(heir) == []
    peer.now += QueueDescription().lock_duration.total_seconds()
    peer.namespace.sweep()
    assert [body for _, body in deliveries(heir)] == [b"a"]


def test_credit_sent_while_waiting_for_a_session_counts_when_it_is_granted(peer: Peer) -> None:
    peer.create("s", QueueDescription(requires_session=True))
    peer.attach("s", receive=False, handle=SEND + 3)
    anything = {Symbol("com.microsoft:session-filter"): None}
    assert peer.attach("s", receive=True, handle=RECEIVE, filters=anything) == []
    peer.credit(RECEIVE, 1, drain=True)
    assert peer.heard() == []
    peer.transfer(SEND + 3, message(b"x", *[None] * 10, "S"))
    heard = [item[0] for item in peer.heard() if item[0] != p.DISPOSITION]
    assert heard == [p.ATTACH, p.TRANSFER]


def test_a_session_wait_ends_with_a_refusal_when_its_entity_is_deleted(peer: Peer) -> None:
    peer.create("s", QueueDescription(requires_session=True))
    peer.attach("s", receive=True, handle=RECEIVE, filters={Symbol("com.microsoft:session-filter"): None})
    peer.namespace.delete("s")
    attach, detach = peer.heard()
    assert (attach[0], attach[1][5], error_of(detach)) == (p.ATTACH, None, "amqp:not-found")
    peer.now += 100
    peer.namespace.sweep()
    assert peer.heard() == []


@pytest.mark.parametrize(("settled", "tag_octets"), [(True, 0), (False, 16)])
def test_only_a_delivery_that_locks_has_a_tag(peer: Peer, settled: bool, tag_octets: int) -> None:
    """In receive-and-delete mode it is empty: Azure/azure-sdk-for-js pull request 1021."""
    peer.attach("q", receive=True, handle=RECEIVE, settled=settled)
    peer.credit(RECEIVE, 1)
    peer.transfer(SEND, message(b"x"))
    ((_, fields, _),) = peer.heard(p.TRANSFER)
    assert len(fields[2]) == tag_octets


def test_a_session_nobody_asked_a_time_for_is_waited_for_65_seconds(peer: Peer) -> None:
    """Azure/azure-sdk-for-python issue 28495: "the allotted timeout of 00:01:05"."""
    peer.create("s", QueueDescription(requires_session=True))
    peer.attach("s", receive=True, handle=RECEIVE, filters={Symbol("com.microsoft:session-filter"): None})
    peer.now += 64.9
    peer.namespace.sweep()
    assert peer.heard() == []
    peer.now += 0.2
    peer.namespace.sweep()
    assert error_of(peer.heard(p.DETACH)[0]) == "com.microsoft:timeout"


MALFORMED = [
    b"\x00\x00\x00\x07\x02\x00\x00\x01", b"\xff\xff\xff\xff\x02\x00\x00\x01", b"\x00\x00\x00\x09\x01\x00\x00\x01x",
    b"\x00\x00\x00\x0c\xff\x00\x00\x01abcd", frame(1, b"\x40"), frame(1, b"\x00\x53\x99\x45"),
    frame(1, b"\x00\x53\x12\x45"), frame(1, b"\x00\x53\x13\x45"), frame(1, b"\x00\x53\x15\xc0\x02\x01\x41"),
    frame(1, b"\x00\x53\x12\xc0\xff\x01\x41"), frame(9, b"\x00\x53\x11\x45"), frame(1, b"\x00\x53\x10\x45"),
    frame(1, b"\x00\x53\x14\xc0\x03\x01\x52\x00"), frame(1, b"\x00\xa3\x04open\x45"), frame(0, b"\x00\x53\x41\x45", 1),
]  # fmt: skip


@pytest.mark.parametrize("octets", MALFORMED)
def test_a_malformed_frame_closes_its_connection_with_an_error(peer: Peer, octets: bytes) -> None:
    peer.raw(octets)
    assert peer.connection.closed
    last = peer.heard()[-1]
    assert last[0] == p.CLOSE
    assert error_of(last) not in (None, "amqp:internal-error")


FIELD = st.one_of(
    st.none(), st.booleans(), st.integers(0, 5).map(UInt), st.integers(-5, 5), st.text(max_size=3), st.binary(max_size=3),
    st.lists(st.none(), max_size=2), st.sampled_from([
        Described(ULong(p.SOURCE), ["q"]), Described(ULong(p.TARGET), [7]), Described(ULong(p.MODIFIED), [1, "x"]),
        Described(ULong(p.REJECTED), [Described(ULong(p.ERROR), [None])]), Described(ULong(p.ACCEPTED), None),
        Described(ULong(p.SOURCE), ["q", None, None, None, None, None, None, {Symbol("com.microsoft:session-filter"): 5}]),
    ]),
)  # fmt: skip
PERFORMATIVE = st.tuples(
    st.sampled_from([p.OPEN, p.BEGIN, p.ATTACH, p.FLOW, p.TRANSFER, p.DISPOSITION, p.DETACH, p.END]),
    st.lists(FIELD, max_size=11),
    st.binary(max_size=6),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversation=st.lists(PERFORMATIVE, max_size=6))
def test_any_performatives_are_served_or_end_the_connection_cleanly(
    caplog: pytest.LogCaptureFixture, conversation: list[tuple[int, list[Any], bytes]]
) -> None:
    """No field of the wrong type may reach code that trusts it: that would be logged as a failure of the server."""
    peer = Peer()
    peer.create("q")
    peer.open()
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.attach("q", receive=False, handle=SEND)
    with caplog.at_level(logging.ERROR):
        for code, fields, payload in conversation:
            peer.say(code, *fields[: p.FIELDS[code]], payload=payload)
    logged = [str(record.exc_info) for record in caplog.records]
    caplog.clear()
    assert logged == []
    again = Peer(peer.namespace).open()
    again.attach("q", receive=False, handle=SEND)
    again.transfer(SEND, message(b"still serving"))
    assert [i[1][4].descriptor for i in again.heard(p.DISPOSITION)] == [p.ACCEPTED]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80), st.integers(1, 20))
def test_any_octets_in_any_pieces_do_no_harm(octets: bytes, step: int) -> None:
    peer = Peer().open()
    for at in range(0, len(octets), step):
        peer.raw(octets[at : at + step])
    size = int.from_bytes(octets[:4], "big")
    assert peer.connection.closed or len(octets) < 8 or size <= MAX_FRAME
