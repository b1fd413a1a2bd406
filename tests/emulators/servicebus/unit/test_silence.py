"""A connection that falls silent: at which stage, how often, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import IDLE_TIMEOUT
from emulators.servicebus.amqp.values import UInt
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.faults.silence import Mute, Stage

from .wire import RECEIVE, SEND, Peer, message

ON_THE_WIRE = [stage for stage in Stage if stage not in (Stage.ACCEPT, Stage.TLS, Stage.HTTP, Stage.HALF_ANSWER)]


class Line:
    """A client that says one thing after the other, and how far it is answered."""

    def __init__(self, fault: Mute) -> None:
        self.seconds = 0.0
        self.faults = Faults()
        server: Any = SimpleNamespace(loop=SimpleNamespace(time=lambda: self.seconds))
        self.faults.begin(fault, server)
        self.namespace = None

    def peer(self, other: Peer | None = None) -> Peer:
        peer = Peer(other.namespace if other else None, self.faults)
        if other is None:
            peer.create("q")
        return peer


def put_token(peer: Peer) -> None:
    peer.attach("$cbs", False, 8)
    peer.transfer(8, message(b"no token"))


def receive(peer: Peer) -> None:
    peer.attach("q", True, RECEIVE)
    peer.credit(RECEIVE, 5)


def manage(peer: Peer) -> None:
    peer.attach("q/$management", False, 9)
    peer.transfer(9, message(b"nonsense"))


STEPS: dict[str, Callable[[Peer], object]] = {
    "open": Peer.open,
    "cbs": put_token,
    "attach": lambda peer: peer.attach("q", False, SEND),
    "transfer": lambda peer: peer.transfer(SEND, message(b"body")),
    "flow": receive,
    "disposition": lambda peer: peer.say(p.DISPOSITION, True, UInt(1), None, True, p.OUTCOMES[p.ACCEPTED]),
    "management": manage,
}


def said(peer: Peer) -> list[str]:
    """What a client of `q` was answered to, in turn, until it got no answer."""
    done = []
    for name, step in STEPS.items():
        step(peer)
        if peer.connection._hushed:
            break
        peer.heard()
        done.append(name)
    return done


SILENT_AFTER = [
    (Stage.HEADER, []),
    (Stage.SASL, []),
    (Stage.OPEN, []),
    (Stage.BEGIN, []),
    (Stage.HALF_FRAME, []),
    (Stage.CBS, ["open"]),
    (Stage.ATTACH, ["open", "cbs"]),
    (Stage.FLOW, ["open", "cbs"]),
    (Stage.TRANSFER, ["open", "cbs", "attach"]),
    (Stage.ANSWER, ["open", "cbs", "attach"]),
    (Stage.DISPOSITION, ["open", "cbs", "attach", "transfer", "flow"]),
    (Stage.MANAGEMENT, ["open", "cbs", "attach", "transfer", "flow", "disposition"]),
]


@pytest.mark.parametrize(("stage", "before"), SILENT_AFTER)
def test_a_connection_falls_silent_at_its_stage_and_the_next_one_does_not(stage: Stage, before: list[str]) -> None:
    line = Line(Mute(stage))
    first = line.peer()
    assert said(first) == before
    assert len(said(line.peer(first))) == len(STEPS)


def test_every_stage_on_the_wire_is_tried() -> None:
    assert {stage for stage, _ in SILENT_AFTER} == set(ON_THE_WIRE)


@pytest.mark.parametrize(("stage", "kept"), [(Stage.TRANSFER, 0), (Stage.ANSWER, 1)])
def test_what_is_sent_is_taken_or_not_and_in_neither_case_answered(stage: Stage, kept: int) -> None:
    peer = Line(Mute(stage)).peer()
    said(peer)
    assert peer.namespace.get("q").counts.active == kept
    assert peer.heard() == []


def test_half_a_frame_is_said() -> None:
    peer = Line(Mute(Stage.HALF_FRAME)).peer()
    peer.sasl()
    peer._reader.expect_header()
    whole = Peer()
    whole.sasl()
    for each in (peer, whole):
        each.raw(b"AMQP\x00\x01\x00\x00")
        each.say(p.OPEN, "client", None, UInt(65_536), channel=0)
    half, all_of_it = peer.connection.output(peer.now), whole.connection.output(whole.now)
    assert half == all_of_it[: 8 + (len(all_of_it) - 8) // 2]


def test_a_silent_connection_is_never_hung_up_on_and_says_no_heartbeat() -> None:
    peer = Line(Mute(Stage.ATTACH)).peer()
    said(peer)
    peer.connection.tick(peer.now + 2 * IDLE_TIMEOUT)
    assert not peer.connection.closed
    assert peer.heard() == []


def test_as_many_connections_fall_silent_as_asked_for_all_of_them_or_those_within_the_time() -> None:
    for fault, silent in ((Mute("open", 2), 2), (Mute("open", 0), 5), (Mute("open", 0, 2.5), 3)):
        line = Line(fault)
        peers = []
        for number in range(5):
            line.seconds = float(number)
            peers.append(line.peer())
            said(peers[-1])
        assert sum(peer.connection._hushed for peer in peers) == silent
