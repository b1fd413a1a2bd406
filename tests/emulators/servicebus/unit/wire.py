"""A client made of frames, without sockets: says to a `Connection` whatever a test wants said."""

from __future__ import annotations

from typing import Any

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.decode import decode
from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, Frame, FrameReader, frame
from emulators.servicebus.amqp.values import Described, Symbol, UByte, UInt, ULong, UShort
from emulators.servicebus.description import Description, QueueDescription
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.links.broker import ClientBroker
from emulators.servicebus.message import sections
from emulators.servicebus.sas import AccessPolicies

KEY = "key"
WINDOW = 65_536
CHANNEL = 1
SEND, RECEIVE = 0, 1
"""Handles of a sender and a receiver of `peer_with_sender`'s queue."""


class Peer:
    """One connection to a namespace of its own (or another peer's), with faults if need be. `now` is both clocks, in seconds."""

    def __init__(self, namespace: Namespace | None = None, faults: Faults | None = None) -> None:
        self.now = 1_000_000.0
        self.namespace = namespace or Namespace(lambda: self.now, Forgetful())
        self.woken = 0
        policies = AccessPolicies({"root": KEY})
        self.connection = Connection(
            lambda _: ClientBroker(self.namespace, policies, lambda: self.now),
            self._wake,
            self.now,
            divert=None if faults is None else faults.writing,
            heed=None if faults is None else faults.reading,
        )
        self._reader = FrameReader(1 << 24)
        self._next_id = 0

    def _wake(self) -> None:
        self.woken += 1

    def create(self, path: str, description: Description | None = None) -> None:
        self.namespace.create(path, description or QueueDescription())

    # -- saying

    def raw(self, octets: bytes) -> None:
        self.connection.receive(octets, self.now)

    def say(self, code: int, *fields: Any, payload: bytes = b"", channel: int = CHANNEL) -> None:
        self.raw(frame(channel, p.perform(code, *fields) + payload))

    def sasl(self, mechanism: str = "PLAIN", response: bytes | None = b"\0root\0key") -> list[Any]:
        self.raw(SASL_HEADER)
        self.raw(frame(0, p.perform(p.SASL_INIT, Symbol(mechanism), response), SASL_FRAME))
        return self.heard()

    def open(self, max_frame: int = WINDOW, window: int = WINDOW, idle: int | None = None) -> Peer:
        """SASL, open and begin in one breath, as the SDK does; what was heard is forgotten."""
        self.sasl()
        self._reader.expect_header()
        self.raw(AMQP_HEADER)
        self.say(p.OPEN, "client", None, UInt(max_frame), UShort(10), idle if idle is None else UInt(idle), channel=0)
        self.say(p.BEGIN, None, UInt(0), UInt(window), UInt(window))
        self.heard()
        return self

    def attach(self, address: str, receive: bool, handle: int = 0, settled: bool = False, **source: Any) -> list[Any]:
        terms: list[Any] = [Described(ULong(code), [address]) for code in (p.SOURCE, p.TARGET)]
        if "filters" in source:
            terms[0] = Described(ULong(p.SOURCE), [address, *[None] * 6, source["filters"]])
        mode = UByte(1 if settled else 0)
        self.say(p.ATTACH, f"link{handle}", UInt(handle), receive, mode, UByte(0), *terms)
        return self.heard()

    def credit(
        self, handle: int, credit: int, delivery_count: int = 0, drain: bool = False, window: int = WINDOW
    ) -> None:
        fields: list[Any] = [UInt(1), UInt(window), UInt(0), UInt(WINDOW)]
        self.say(p.FLOW, *fields, UInt(handle), UInt(delivery_count), UInt(credit), None, drain)

    def transfer(self, handle: int, payload: bytes, message_format: int = 0, more: bool = False, **over: Any) -> None:
        identifier, tag = UInt(self._next_id), self._next_id.to_bytes(4, "big")
        if not more:
            self._next_id += 1
        fields = [UInt(handle), identifier, tag, UInt(message_format), over.get("settled", False), more]
        self.say(p.TRANSFER, *fields, None, None, None, over.get("aborted", False), payload=payload)

    # -- hearing

    def heard(self, code: int | None = None) -> list[Any]:
        """(code, fields, payload) of every performative since the last time, headers as octets; or those of one code."""
        found: list[Any] = []
        for item in self._reader.feed(self.connection.output(self.now)):
            if isinstance(item, Frame) and item.body:
                code_heard, fields, end = p.parse(item.body)
                found.append((code_heard, fields, item.body[end:]))
            else:
                found.append(("heartbeat",) if isinstance(item, Frame) else item)
        return found if code is None else [item for item in found if item[0] == code]

    @property
    def condition(self) -> str | None:
        """Of the last error heard in a detach, close or rejection."""
        found = None
        for item in self.heard():
            found = error_of(item) or found
        return found


def error_of(item: Any) -> str | None:
    """The error condition a performative carries."""
    if isinstance(item, bytes) or item[0] not in (p.DETACH, p.CLOSE, p.DISPOSITION):
        return None
    value = item[1][{p.DETACH: 2, p.CLOSE: 0, p.DISPOSITION: 4}[item[0]]]
    if item[0] == p.DISPOSITION and value is not None:
        value = value.value[0] if value.value else None
    return None if value is None else str(value.value[0])


def message(body: bytes, *properties: Any) -> bytes:
    """An encoded message with a data body."""
    head = encode(Described(ULong(0x73), list(properties))) if properties else b""
    return head + encode(Described(ULong(0x75), body))


def body_of(payload: bytes) -> Any:
    """The (last) body section of an encoded message."""
    code, start, _ = sections(payload)[-1]
    assert code in (0x75, 0x77)
    return decode(payload, start)[0]


def peer_with_sender() -> Peer:
    """A peer with an open connection, a queue `q` and a sender to it."""
    fresh = Peer()
    fresh.create("q")
    fresh.open()
    fresh.attach("q", receive=False, handle=SEND)
    return fresh


def send(peer: Peer, *bodies: bytes) -> None:
    """Messages of these bodies to `q`; what is heard meanwhile is forgotten."""
    for body in bodies:
        peer.transfer(SEND, message(body))
    peer.heard()


def deliveries(peer: Peer) -> list[tuple[int, Any]]:
    """Delivery id and body of every message heard."""
    return [(fields[1], body_of(payload)) for _, fields, payload in peer.heard(p.TRANSFER)]
