"""What links and sessions owe to AMQP beyond the daily round: credit and windows at their edges, idleness, names, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import FIRST_LINK, LINK_IDLE, LINKLESS, MAX_LINKS
from emulators.servicebus.amqp.session import WINDOW
from emulators.servicebus.amqp.values import Described, Symbol, UByte, UInt, ULong

from .wire import RECEIVE, SEND, Peer, deliveries, error_of, message, peer_with_sender, send

LAST = 2**32 - 1
ACCEPTED = Described(ULong(p.ACCEPTED), [])


@pytest.fixture
def peer() -> Peer:
    return peer_with_sender()


def attach_raw(peer: Peer, handle: int, name: str, receive: bool, **over: Any) -> list[Any]:
    terms: list[Any] = [Described(ULong(code), ["q"]) for code in (p.SOURCE, p.TARGET)]
    fields: list[Any] = [name, UInt(handle), receive, UByte(0), UByte(0), *terms]
    fields += [over.get("unsettled"), None, over.get("initial", UInt(0))]
    peer.say(p.ATTACH, *fields)
    return peer.heard()


# Credit


def test_a_smaller_credit_takes_back_what_is_not_used(peer: Peer) -> None:
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 10)
    peer.credit(RECEIVE, 1)
    send_heard = [message(body) for body in (b"a", b"b")]
    for payload in send_heard:
        peer.transfer(SEND, payload)
    assert [body for _, body in deliveries(peer)] == [b"a"]
    peer.credit(RECEIVE, 0, delivery_count=0)  # the client has not seen the first one yet
    peer.credit(RECEIVE, 2, delivery_count=1)
    assert [body for _, body in deliveries(peer)] == [b"b"]


def test_a_delivery_count_goes_on_from_where_the_sender_begins_it(peer: Peer) -> None:
    *_, flow = attach_raw(peer, 5, "far", receive=False, initial=UInt(LAST))
    assert flow[1][5] == LAST
    for _ in range(501):
        peer.transfer(5, message(b"x"))
    again = peer.heard(p.FLOW)[-1]
    assert again[1][5] == 500


def test_an_echo_is_answered_for_links_of_either_direction_and_for_the_session(peer: Peer) -> None:
    peer.attach("q", receive=True, handle=RECEIVE)
    windows = [UInt(1), UInt(WINDOW), UInt(0), UInt(WINDOW)]
    for handle in (SEND, RECEIVE):
        peer.say(p.FLOW, *windows, UInt(handle), None, None, None, False, True)
        ((_, fields, _),) = peer.heard(p.FLOW)
        assert fields[4] == handle
    peer.say(p.FLOW, *windows, None, None, None, None, False, True)
    ((_, fields, _),) = peer.heard(p.FLOW)
    assert fields[4] is None


def test_a_drain_waits_for_what_the_window_holds_back() -> None:
    peer = Peer()
    peer.create("q")
    peer.open(window=1)
    peer.attach("q", receive=False, handle=SEND)
    send(peer, b"a", b"b")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 5, drain=True, window=1)
    assert [item[0] for item in peer.heard()] == [p.TRANSFER]
    peer.say(p.FLOW, UInt(2), UInt(9), UInt(0), UInt(9))
    heard = peer.heard()
    assert [item[0] for item in heard] == [p.TRANSFER, p.FLOW]
    assert (heard[-1][1][5], heard[-1][1][6], heard[-1][1][8]) == (5, 0, True)


def test_an_aborted_delivery_counts_as_one(peer: Peer) -> None:
    before = peer.namespace.get("q").counts.active
    for _ in range(501):
        peer.transfer(SEND, b"half", more=True)
        peer.transfer(SEND, b"", aborted=True)
    assert peer.heard(p.FLOW)[-1][1][5] == 501
    assert peer.namespace.get("q").counts.active == before


def test_a_message_sent_settled_is_taken_without_an_answer(peer: Peer) -> None:
    peer.transfer(SEND, message(b"x"), settled=True)
    assert peer.heard() == []
    assert peer.namespace.get("q").counts.active == 1


# Slow consumers


def test_a_closed_window_takes_nothing_from_other_receivers() -> None:
    slow = Peer()
    slow.create("q")
    slow.open(window=1)
    slow.attach("q", receive=True, handle=RECEIVE)
    slow.credit(RECEIVE, 1000, window=1)
    quick = Peer(slow.namespace).open()
    quick.attach("q", receive=True, handle=RECEIVE)
    quick.credit(RECEIVE, 1000)
    quick.attach("q", receive=False, handle=SEND)
    for number in range(20):
        quick.transfer(SEND, message(b"%d" % number))
    assert len(deliveries(slow)) == 1
    assert len(deliveries(quick)) == 19


def test_a_client_that_does_not_read_is_sent_nothing_until_it_does(peer: Peer) -> None:
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 3)
    peer.connection.pause()
    send(peer, b"a", b"b")
    assert deliveries(peer) == []
    peer.connection.resume()
    assert [body for _, body in deliveries(peer)] == [b"a", b"b"]


def test_requests_that_nobody_takes_the_answers_of_end_their_link(peer: Peer) -> None:
    peer.attach("q/$management", receive=True, handle=5)
    peer.attach("q/$management", receive=False, handle=6)
    for _ in range(1001):
        peer.transfer(6, message(b""))
    assert peer.condition == "amqp:resource-limit-exceeded"


# Names, handles, sessions


def test_a_link_attached_again_is_stolen_from_its_first_attachment(peer: Peer) -> None:
    """AMQP 2.6.1."""
    attach_raw(peer, 5, "same", receive=True)
    detach, attach = attach_raw(peer, 6, "same", receive=True)
    assert (detach[0], detach[1][0], error_of(detach)) == (p.DETACH, 5, "amqp:link:stolen")
    assert (attach[0], attach[1][1]) == (p.ATTACH, 6)
    assert [item[0] for item in attach_raw(peer, 7, "same", receive=False)] == [p.ATTACH, p.FLOW]


@pytest.mark.parametrize(("frames", "condition"), [
    ([(p.ATTACH, "other", UInt(SEND), True, None, None, Described(ULong(p.SOURCE), ["q"]))], "amqp:session:handle-in-use"),
    ([(p.TRANSFER, UInt(77), UInt(0), b"t", UInt(0))], "amqp:session:unattached-handle"),
    ([(p.FLOW, UInt(1), UInt(9), UInt(0), UInt(9), UInt(77))], "amqp:session:unattached-handle"),
    ([(p.DISPOSITION, True, UInt(LAST - 5), UInt(3 << 30), False, ACCEPTED)], "amqp:invalid-field"),
])  # fmt: skip
def test_who_breaks_a_rule_of_the_session_loses_it_and_nothing_else(
    peer: Peer, frames: list[tuple[Any, ...]], condition: str
) -> None:
    peer.say(p.BEGIN, None, UInt(0), UInt(9), UInt(9), channel=2)
    peer.heard()
    for code, *fields in frames:
        peer.say(code, *fields)
    (end,) = peer.heard()
    assert (end[0], end[1][0].value[0]) == (p.END, condition)
    peer.say(p.TRANSFER, UInt(SEND), UInt(0), b"t", UInt(0), payload=message(b"late"))
    peer.say(p.END)
    assert peer.heard() == []
    peer.say(p.BEGIN, None, UInt(0), UInt(9), UInt(9))
    assert [item[0] for item in peer.heard()] == [p.BEGIN]
    peer.say(p.ATTACH, "on2", UInt(0), False, None, None, None, Described(ULong(p.TARGET), ["q"]), channel=2)
    assert [item[0] for item in peer.heard()] == [p.ATTACH, p.FLOW]


def test_more_transfers_than_the_window_allows_end_the_session(peer: Peer) -> None:
    session = peer.connection.sessions[1]
    session._incoming_window = 0
    peer.transfer(SEND, message(b"x"))
    ((_, fields, _),) = peer.heard(p.END)
    assert fields[0].value[0] == "amqp:session:window-violation"


def test_frames_for_a_handle_we_detached_are_not_held_against_the_client(peer: Peer) -> None:
    peer.namespace.delete("q")
    assert peer.condition == "amqp:not-found"
    peer.transfer(SEND, message(b"on its way"))
    peer.say(p.DETACH, UInt(SEND), True)
    assert peer.heard() == []
    assert not peer.connection.closed


def test_ids_begin_anew_after_the_last(peer: Peer) -> None:
    peer.say(p.BEGIN, None, UInt(LAST), UInt(WINDOW), UInt(WINDOW), channel=2)
    session = peer.connection.sessions[2]
    session._next_delivery = LAST
    session._next_outgoing = LAST
    send(peer, b"a", b"b", b"c")
    target = Described(ULong(p.TARGET), [None])
    peer.say(p.ATTACH, "r", UInt(9), True, UByte(0), UByte(0), Described(ULong(p.SOURCE), ["q"]), target, channel=2)
    windows = [UInt(LAST), UInt(WINDOW), UInt(LAST), UInt(WINDOW)]
    peer.say(p.FLOW, *windows, UInt(9), UInt(0), UInt(3), channel=2)
    assert [identifier for identifier, _ in deliveries(peer)] == [LAST, 0, 1]
    peer.say(p.DISPOSITION, True, UInt(LAST), UInt(1), False, ACCEPTED, channel=2)
    (answer,) = peer.heard(p.DISPOSITION)
    assert (answer[1][1], answer[1][2]) == (LAST, 1)
    assert peer.namespace.get("q").counts.active == 0


def test_a_detach_is_answered_in_kind(peer: Peer) -> None:
    peer.say(p.DETACH, UInt(SEND), False)
    ((_, fields, _),) = peer.heard()
    assert (fields[0], fields[1], fields[2]) == (SEND, False, None)


def test_a_connection_has_so_many_links_and_no_more() -> None:
    peer = Peer()
    peer.create("q")
    peer.open()
    for handle in range(MAX_LINKS):
        peer.say(p.ATTACH, f"l{handle}", UInt(handle), True, None, None, Described(ULong(p.SOURCE), ["q"]))
        if handle == 50:  # the rest as quickly as can be: only their number matters
            links = peer.connection.sessions[1].links
            links.update((n, links[50]) for n in range(51, MAX_LINKS))
            break
    peer.heard()
    attach, detach = attach_raw(peer, MAX_LINKS, "one more", receive=True)
    assert (attach[1][5], error_of(detach)) == (None, "amqp:resource-limit-exceeded")


# Refused by name


def test_a_coordinator_is_refused_and_the_connection_goes_on(peer: Peer) -> None:
    """Row 55. service-bus-transactions."""
    coordinator = Described(ULong(0x30), [])
    source = Described(ULong(p.SOURCE), ["x"])
    peer.say(p.ATTACH, "tx", UInt(9), False, None, None, source, coordinator, None, None, UInt(0))
    attach, detach = peer.heard()
    assert (attach[1][5], attach[1][6], error_of(detach)) == (None, None, "amqp:not-implemented")
    assert "Transactions" in str(detach[1][2].value[1])
    assert not peer.connection.closed


def test_a_link_is_not_resumed(peer: Peer) -> None:
    attach, detach = attach_raw(peer, 9, "again", receive=True, unsettled={b"tag": ACCEPTED})
    assert (attach[1][5], error_of(detach)) == (None, "amqp:not-implemented")


def test_a_delivery_is_not_resumed(peer: Peer) -> None:
    peer.say(p.TRANSFER, UInt(SEND), UInt(0), b"t", UInt(0), False, False, None, None, True, payload=message(b"x"))
    assert peer.condition == "amqp:not-implemented"


def test_a_transactional_state_is_refused_on_a_transfer_and_on_a_disposition(peer: Peer) -> None:
    declared = Described(ULong(0x34), [b"txn", ACCEPTED])
    peer.say(p.TRANSFER, UInt(SEND), UInt(0), b"t", UInt(0), False, False, None, declared, payload=message(b"x"))
    assert peer.condition == "amqp:not-implemented"
    assert peer.namespace.get("q").counts.active == 0
    send(peer, b"a")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 1)
    ((identifier, _),) = deliveries(peer)
    peer.say(p.DISPOSITION, True, UInt(identifier), None, False, declared)
    assert peer.condition == "amqp:not-implemented"
    assert peer.namespace.get("q").counts.active == 1


def test_a_state_that_is_no_outcome_yet_changes_nothing(peer: Peer) -> None:
    send(peer, b"a")
    peer.attach("q", receive=True, handle=RECEIVE)
    peer.credit(RECEIVE, 1)
    ((identifier, _),) = deliveries(peer)
    received = Described(ULong(p.RECEIVED), [UInt(0), ULong(0)])
    peer.say(p.DISPOSITION, True, UInt(identifier), None, False, received)
    assert peer.heard() == []
    peer.say(p.DISPOSITION, True, UInt(identifier), None, False, ACCEPTED)
    assert peer.namespace.get("q").counts.active == 0


# Idleness: service-bus-amqp-troubleshoot


def wait(peer: Peer, seconds: float) -> None:
    """Time passes; the client keeps the connection alive with empty frames."""
    end = peer.now + seconds
    while peer.now < end:
        peer.now = min(peer.now + 60, end)
        peer.raw(b"\x00\x00\x00\x08\x02\x00\x00\x00")
        peer.connection.tick(peer.now)


def test_a_link_without_calls_is_detached_and_its_connection_closed_later(peer: Peer) -> None:
    """Row 54."""
    wait(peer, LINK_IDLE - 1)
    assert peer.heard() == []
    wait(peer, 1)
    (detach,) = peer.heard()
    assert (detach[0], error_of(detach)) == (p.DETACH, "amqp:link:detach-forced")
    assert "AmqpMessagePublisher.IdleTimerExpired: Idle timeout: 00:10:00" in detach[1][2].value[1]
    wait(peer, LINKLESS)
    assert not peer.connection.closed
    wait(peer, 2)
    (close,) = peer.heard()
    assert (close[0], error_of(close)) == (p.CLOSE, "amqp:connection:forced")
    assert "did not have any active links in the past 300000 milliseconds" in close[1][0].value[1]


def test_every_call_keeps_a_link(peer: Peer) -> None:
    peer.attach("q", receive=True, handle=RECEIVE)
    for _ in range(3):
        wait(peer, LINK_IDLE / 2)
        send(peer, b"a")
        peer.credit(RECEIVE, 1, delivery_count=peer.connection.sessions[1].links[RECEIVE].delivery_count)
        ((identifier, _),) = deliveries(peer)
        wait(peer, LINK_IDLE / 2)
        peer.say(p.DISPOSITION, True, UInt(identifier), None, True, ACCEPTED)
        send(peer, b"b")
    assert peer.heard() == []


def test_a_connection_that_never_gets_a_link_is_closed(peer: Peer) -> None:
    """`$cbs` does not count."""
    idle = Peer(peer.namespace).open()
    idle.attach("$cbs", receive=True)
    wait(idle, FIRST_LINK)
    assert not idle.connection.closed
    wait(idle, 2)
    assert idle.connection.closed
    assert "in the past 60000 milliseconds" in idle.heard(p.CLOSE)[0][1][0].value[1]


def test_a_wait_for_a_session_is_no_idleness(peer: Peer) -> None:
    from emulators.servicebus.description import QueueDescription

    peer.create("s", QueueDescription(requires_session=True))
    waiting = Peer(peer.namespace).open()
    waiting.attach("s", receive=True, handle=RECEIVE, filters={Symbol("com.microsoft:session-filter"): None})
    wait(waiting, LINK_IDLE + 1)
    assert not waiting.connection.closed


@pytest.mark.parametrize("descriptor", [ULong(0x0000_468C_0000_0004), Symbol("apache.org:selector-filter:string")])
def test_a_selector_of_jms_is_refused_by_name(peer: Peer, descriptor: Any) -> None:
    """Whatever the filter is called; other filters that nobody knows are left out of the answer.

    Microsoft, "Use Java Message Service 1.1 with Azure Service Bus standard and AMQP 1.0": message selectors are not supported.
    """
    selector = {Symbol("jms-selector"): Described(descriptor, "colour = 'red'")}
    attach, detach = peer.attach("q", receive=True, handle=RECEIVE, filters=selector)
    assert (attach[1][5], error_of(detach)) == (None, "amqp:not-implemented")
    assert "selectors" in str(detach[1][2].value[1])
    assert not peer.connection.closed
