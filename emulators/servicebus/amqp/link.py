"""A link as the server sees it: attach, credit, assembly of incoming deliveries.

No I/O: what is to be sent goes to the connection's output. What a link is for (an entity, `$cbs`, `$management`) is its
endpoint's business. Credit given to a sending client is advice: the SDK tops up its own, so overrunning it is forgiven.
Refuses by name what the service does not do: resuming a link, transactions, termini other than a plain source and target.
Source: OASIS AMQP 1.0, part 2, sections 2.6 and 2.7.3 to 2.7.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from . import performatives as p
from .values import AmqpError, DecodeError, Described, Symbol, UByte, UInt, ULong, Value

if TYPE_CHECKING:
    from .session import Session

CREDIT: Final = 1000
SERIAL: Final = 1 << 32
"""Ids and counts of 32 bits begin anew after this many (part 2, section 2.8.7)."""
_SETTLED: Final = 1
_COORDINATOR: Final = (0x30, "amqp:coordinator:list")
"""Part 4, section 4.5.1."""
_SELECTOR: Final = (0x0000_468C_0000_0004, "apache.org:selector-filter:string")
"""What JMS calls a message selector (AMQP capabilities registry: filters)."""


@dataclass(slots=True)
class Delivery:
    """A complete incoming message. `payload` is None when it outgrew the link's maximum and was thrown away."""

    id: int
    tag: bytes
    message_format: int
    settled: bool
    payload: bytes | None


class Endpoint(Protocol):
    """What stands behind an attached link."""

    def credited(self, link: Link) -> None:
        """The client granted (or took back) credit; deliver what it allows."""
        ...

    def received(self, link: Link, delivery: Delivery) -> None:
        """A message came in. Answer an unsettled one with `link.accepted` or `link.rejected`."""
        ...

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """The client states the outcome of a delivery; None, or why it could not be applied."""
        ...

    def detached(self, link: Link) -> None:
        """The link is gone, by detach, end, close or a lost connection. Called once."""
        ...


class Link:
    """One link. `client_receives` tells its direction; `granted` is the client's credit when it receives, ours when it sends.

    `objection` is why it cannot be attached, whatever its address. `used` is when it was last used, on the connection's clock.
    """

    __slots__ = (
        "_assembling", "_attach", "_oversize", "_payload", "attached", "client_receives", "delivery_count", "drain",
        "endpoint", "granted", "handle", "max_message_size", "name", "objection", "properties", "session",
        "settled_deliveries", "source", "target", "used",
    )  # fmt: skip

    def __init__(self, session: Session, attach: list[Value]) -> None:
        self.session = session
        self._attach = attach
        self.attached = False
        self.used = session.connection.now
        self.name: str = attach[0]
        self.handle: int = attach[1]
        self.client_receives: bool = attach[2]
        self.settled_deliveries = attach[3] == _SETTLED
        self.objection: AmqpError | None = None
        if attach[7]:
            self.objection = AmqpError("amqp:not-implemented", "Links cannot be resumed.")
        self.source = self._terminus(attach[5], p.SOURCE)
        self.target = self._terminus(attach[6], p.TARGET)
        self.properties: dict[Value, Value] = attach[13] or {}
        self.endpoint: Endpoint | None = None
        self.granted = 0
        self.delivery_count = 0 if self.client_receives else attach[9] or 0
        self.drain = False
        self.max_message_size = 0
        self._assembling: Delivery | None = None
        self._payload = bytearray()
        self._oversize = False

    @property
    def address(self) -> str | None:
        """The node the client names: its source when it receives, its target when it sends."""
        terminus = self.source if self.client_receives else self.target
        address = terminus[0] if terminus else None
        return address if isinstance(address, str) else None

    @property
    def credit(self) -> int:
        """Deliveries that may be sent now; none while the client's window is closed or its buffers are full."""
        return 0 if self.session.blocked else self.granted

    def touch(self) -> None:
        """The link is in use."""
        self.used = self.session.connection.now

    def _terminus(self, value: Described | None, code: int) -> list[Value] | None:
        if value is None:
            return None
        if value.descriptor != code or not isinstance(value.value, list):
            text = f"Termini of type {value.descriptor!r} are not supported."
            if value.descriptor in _COORDINATOR:
                text = "Transactions are not supported by the emulator: there is no coordinator to attach to."
            self.objection = AmqpError("amqp:not-implemented", text)
            return None
        return value.value

    def accept(
        self,
        endpoint: Endpoint,
        *,
        max_message_size: int = 0,
        filters: dict[Value, Value] | None = None,
        properties: dict[Value, Value] | None = None,
    ) -> None:
        """Answer the attach. `filters` replaces the source's filter set; sizes in octets."""
        self.endpoint = endpoint
        self.max_message_size = max_message_size
        self.attached = True
        source = list(self.source) if self.source else [None]
        if filters is not None:
            source = p.padded(source, 8)
            source[7] = filters
        ask = self._attach
        self.session.write(
            p.perform(
                p.ATTACH,
                self.name,
                UInt(self.handle),
                not self.client_receives,
                UByte(ask[3] if ask[3] is not None else 2),
                UByte(ask[4] or 0),
                Described(ULong(p.SOURCE), source),
                Described(ULong(p.TARGET), self.target or [None]),
                None,
                None,
                UInt(0) if self.client_receives else None,
                ULong(max_message_size),
                None,
                None,
                properties,
            )
        )
        if not self.client_receives:
            self._grant()

    def refuse(self, failure: AmqpError) -> None:
        """Answer the attach with no termini and detach at once."""
        count = UInt(0) if self.client_receives else None
        role = not self.client_receives
        body = p.perform(p.ATTACH, self.name, UInt(self.handle), role, None, None, None, None, None, None, count)
        self.session.write(body)
        self.session.write(p.detach(self.handle, failure))
        self.session.forget(self, detached_by_us=True)

    def close(self, failure: AmqpError) -> None:
        """Detach from our side, with an error; a link that waits for its answer is refused."""
        if self.attached:
            self.session.write(p.detach(self.handle, failure))
            self.session.forget(self, detached_by_us=True)
        else:
            self.refuse(failure)
        self.gone()

    def gone(self) -> None:
        """Tell the endpoint, once."""
        endpoint, self.endpoint = self.endpoint, None
        self.granted = 0
        if endpoint is not None:
            endpoint.detached(self)

    # -- the client receives

    def send(self, tag: bytes, payload: bytes, settled: bool) -> None:
        """Deliver a message; the caller has seen to it that there is credit."""
        self.granted -= 1
        self.delivery_count = (self.delivery_count + 1) % SERIAL
        self.touch()
        self.session.deliver(self, tag, payload, settled)

    def flow(self, fields: list[Value]) -> None:
        """A flow of the client: new credit, perhaps to be drained, perhaps to be echoed."""
        self.touch()
        if self.client_receives and fields[6] is not None:
            on_the_way = (self.delivery_count - (fields[5] or 0)) % SERIAL
            self.granted = max(fields[6] - on_the_way, 0)
            self.drain = bool(fields[8])
        if not self.attached or self.endpoint is None:
            return  # a session not granted yet: the credit counts when it is
        if self.client_receives and fields[6] is not None:
            self.endpoint.credited(self)
        if not self._drained() and fields[9] and self.session.links.get(self.handle) is self:
            self.session.write_flow(self)

    def resume(self) -> None:
        """What kept deliveries back is gone."""
        if self.client_receives and self.attached and self.endpoint is not None and (self.granted > 0 or self.drain):
            self.endpoint.credited(self)
            self._drained()

    def _drained(self) -> bool:
        """Give back credit there is nothing for, when that is asked and nothing keeps deliveries back."""
        if not self.drain or self.endpoint is None or self.session.blocked:
            return False
        self.drain = False
        self.delivery_count = (self.delivery_count + self.granted) % SERIAL
        self.granted = 0
        self.session.write_flow(self, drain=True)
        return True

    # -- the client sends

    def transfer(self, fields: list[Value], payload: bytes) -> None:
        """One transfer frame; the last of a delivery hands it to the endpoint."""
        self.touch()
        if fields[8]:
            self.close(AmqpError("amqp:not-implemented", "Deliveries cannot be resumed."))
            return
        delivery = self._assembling
        if delivery is None:
            if fields[1] is None or fields[2] is None:
                raise DecodeError("the first transfer of a delivery must have its id and tag")
            delivery = Delivery(fields[1], fields[2], fields[3] or 0, bool(fields[4]), None)
        elif fields[1] is not None and fields[1] != delivery.id:
            raise DecodeError(f"a transfer of delivery {fields[1]} amid delivery {delivery.id}")
        elif fields[4]:
            delivery.settled = True
        if fields[9]:  # settled, and nothing of it is kept (section 2.6.14)
            self._clear()
            self._used_credit()
            return
        if fields[5]:
            self._assembling = delivery
            self._collect(payload)
            return
        if self._assembling is not None:
            self._collect(payload)
            payload = bytes(self._payload)
        too_large = self._oversize or 0 < self.max_message_size < len(payload)
        delivery.payload = None if too_large else payload
        self._clear()
        self._used_credit()
        if fields[7] is not None:  # of a transaction: outcomes have no place in a transfer that resumes nothing
            text = f"The delivery state {fields[7].descriptor!r} of a transfer is not supported."
            self.rejected(delivery, AmqpError("amqp:not-implemented", text))
        elif self.endpoint is not None:
            self.endpoint.received(self, delivery)

    def _used_credit(self) -> None:
        self.delivery_count = (self.delivery_count + 1) % SERIAL
        self.granted = max(self.granted - 1, 0)
        if self.granted < CREDIT // 2:
            self._grant()

    def _collect(self, payload: bytes) -> None:
        if self._oversize:
            return
        self._payload += payload
        if 0 < self.max_message_size < len(self._payload):
            self._oversize = True
            self._payload = bytearray()

    def _clear(self) -> None:
        self._assembling = None
        self._oversize = False
        if self._payload:
            self._payload = bytearray()

    def _grant(self) -> None:
        self.granted = CREDIT
        self.session.write_flow(self)

    def accepted(self, delivery: Delivery) -> None:
        """The message is safe."""
        if not delivery.settled:
            self.session.write(p.disposition(True, delivery.id, None, p.OUTCOMES[p.ACCEPTED]))

    def rejected(self, delivery: Delivery, failure: AmqpError) -> None:
        """The message was not taken; a settled one is lost, as its sender chose."""
        if not delivery.settled:
            self.session.write(p.disposition(True, delivery.id, None, p.rejected(failure)))


def selectors_of(link: Link) -> list[str]:
    """The names of the source's filters that are selectors of JMS, by their descriptors."""
    given = link.source[7] if link.source and len(link.source) > 7 else None
    if not isinstance(given, dict):
        return []
    return [str(name) for name, item in given.items() if isinstance(item, Described) and item.descriptor in _SELECTOR]


def symbol_map(value: Value) -> dict[str, Any]:
    """A filter set or property map by plain name; a described filter as its value."""
    if not isinstance(value, dict):
        return {}
    return {str(key): item.value if isinstance(item, Described) else item for key, item in value.items()}


def filters_of(link: Link) -> dict[str, Any]:
    """The source's filter set."""
    return symbol_map(link.source[7]) if link.source and len(link.source) > 7 else {}


def symbols(values: dict[str, Value]) -> dict[Value, Value]:
    """A map whose keys are symbols."""
    return {Symbol(key): value for key, value in values.items()}
