"""A session: windows, delivery ids, links by handle, and which delivery a disposition speaks of.

No I/O. A disposition of first..last is applied delivery by delivery, in order; answers of consecutive deliveries are
merged only inside the range the client itself sent (azure-servicebus aio starves when answers of single settlements are
merged), and a delivery that could not be settled is answered alone. Who breaks the rules of a session loses the session, not
the connection. Ids and counts are serial numbers of 32 bits (RFC 1982).
Source: OASIS AMQP 1.0, part 2, sections 2.5, 2.6.1, 2.6.12 and 2.7.6.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final

from . import performatives as p
from .encode import encode, encode_uint
from .frames import frame
from .link import SERIAL, Link
from .values import AmqpError, Described, Raw, UInt, Value

if TYPE_CHECKING:
    from .connection import Connection

WINDOW: Final = 65_536
"""Transfer frames a client may have on the way; topped up at half."""
HANDLE_MAX: Final = 262_143
"""What the service's gateway announces; how many links there may be is another question (`connection.MAX_LINKS`)."""
_TRANSFER_OVERHEAD: Final = 96
_HALF: Final = 1 << 31
_HEAD = struct.Struct(">IBBH").pack


class SessionError(AmqpError):
    """The client broke a rule of its session, which ends."""


class Session:
    """One session of a connection; both sides use the client's channel number and handles."""

    def __init__(self, connection: Connection, channel: int, begin: list[Value]) -> None:
        self.connection = connection
        self.channel = channel
        self.links: dict[int, Link] = {}
        self._detaching: set[int] = set()
        self._next_incoming = begin[1]
        self._incoming_window = WINDOW
        self._next_outgoing = 1
        self._next_delivery = 1
        self._remote_window = begin[2]
        self._held: deque[bytes] = deque()
        self._unsettled: dict[int, tuple[Link, bytes]] = {}
        self._over = False
        self.write(p.begin(channel, self._next_outgoing, WINDOW, HANDLE_MAX))

    @property
    def blocked(self) -> bool:
        """Deliveries have to wait: the client's window is closed, or it does not read what it was sent."""
        return self._remote_window <= 0 or bool(self._held) or self.connection.congested

    def write(self, body: bytes) -> None:
        """Send a performative on this session's channel, unless the session is over."""
        if not self._over:
            self.connection.write(frame(self.channel, body))

    def write_flow(self, link: Link | None = None, drain: bool = False) -> None:
        """Tell our windows, and of a link its delivery count and credit."""
        fields: list[Value] = [UInt(n) for n in (self._next_incoming, WINDOW, self._next_outgoing, WINDOW)]
        if link is not None:
            fields += [UInt(link.handle), UInt(link.delivery_count), UInt(link.granted), None, drain]
        self._incoming_window = WINDOW
        self.write(p.perform(p.FLOW, *fields))

    def forget(self, link: Link, *, detached_by_us: bool = False) -> None:
        """The link's handle is free again; its deliveries can no longer be settled here."""
        if self.links.get(link.handle) is link:
            del self.links[link.handle]
            if detached_by_us:
                self._detaching.add(link.handle)
        for delivery in [key for key, (owner, _) in self._unsettled.items() if owner is link]:
            del self._unsettled[delivery]

    def gone(self) -> None:
        """The session ended: its links are gone, and nothing more is said on its channel."""
        self._over = True
        links = list(self.links.values())
        self.links.clear()
        self._held.clear()
        for link in links:
            link.gone()

    # -- frames of the client

    def attach(self, fields: list[Value]) -> None:
        """A new link, handed to the application for its answer; an older one of the same name is stolen from its session."""
        link = Link(self, fields)
        if link.handle in self.links:
            raise SessionError("amqp:session:handle-in-use", f"The handle '{link.handle}' is already in use.")
        if link.handle > HANDLE_MAX:
            raise AmqpError("amqp:connection:framing-error", f"handle {link.handle} is above handle-max")
        for older in self.connection.links():
            if older.name == link.name and older.client_receives == link.client_receives:
                older.close(AmqpError("amqp:link:stolen", f"The link '{link.name}' was attached again."))
        room = self.connection.has_room_for_a_link()
        self._detaching.discard(link.handle)
        self.links[link.handle] = link
        if not room:
            link.refuse(AmqpError("amqp:resource-limit-exceeded", "The connection has as many links as it may have."))
        elif link.objection is not None:
            link.refuse(link.objection)
        else:
            self.connection.application.attach(link)

    def detach(self, fields: list[Value]) -> None:
        """The client detaches; answered in kind, unless it is the answer to a detach of ours."""
        link = self.links.get(fields[0])
        if link is None:
            self._detaching.discard(fields[0])
            return
        self.forget(link)
        link.gone()
        self.write(p.detach(link.handle, closed=bool(fields[1])))

    def flow(self, fields: list[Value]) -> None:
        """Windows of the client, then the credit of a link."""
        self._next_incoming = fields[2]
        expected = fields[0] if fields[0] is not None else 1
        on_the_way = (self._next_outgoing - expected) % SERIAL
        waited = self.blocked
        self._remote_window = fields[1] - on_the_way if on_the_way < _HALF else 0
        while self._held and self._remote_window > 0:
            self._put(self._held.popleft())
        if waited:
            self.resume()
        if fields[4] is not None:
            link = self._attached(fields[4])
            if link is not None:
                link.flow(fields)
        elif fields[9]:
            self.write_flow()

    def transfer(self, fields: list[Value], payload: bytes) -> None:
        """One transfer frame of the client."""
        if self._incoming_window <= 0:
            raise SessionError("amqp:session:window-violation", "More transfers were sent than the window allows.")
        self._next_incoming = (self._next_incoming + 1) % SERIAL
        self._incoming_window -= 1
        if self._incoming_window < WINDOW // 2:
            self.write_flow()
        link = self._attached(fields[0])
        if link is None:
            return
        if link.client_receives:
            raise SessionError("amqp:not-allowed", f"The handle '{link.handle}' is of a link that receives.")
        link.transfer(fields, payload)

    def _attached(self, handle: int) -> Link | None:
        """The link of a handle; None while a detach of ours is on its way to the client."""
        link = self.links.get(handle)
        if link is None and handle not in self._detaching:
            raise SessionError("amqp:session:unattached-handle", f"The handle '{handle}' is not attached.")
        return link

    def disposition(self, fields: list[Value]) -> None:
        """Outcomes of our deliveries first..last; a state that says no outcome yet changes nothing."""
        role, first, last, settled, state = fields[:5]
        if not role:
            return
        deliveries = self._within(first, first if last is None else last)
        if state is None and settled:
            state = Described(p.ACCEPTED, [])
        if state is None or state.descriptor == p.RECEIVED:
            return
        echo = p.OUTCOMES.get(state.descriptor) if isinstance(state.descriptor, int) else None
        if echo is None:
            self._refuse_state(deliveries, state)
            return
        run: list[int] = []
        for delivery in deliveries:
            entry = self._unsettled.pop(delivery, None)
            if entry is None:  # its link was detached by what an earlier one of the range brought about
                continue
            link, tag = entry
            link.touch()
            failure = link.endpoint.settle(link, tag, state) if link.endpoint is not None else None
            if settled or self.links.get(link.handle) is not link:
                continue
            if run and (failure is not None or delivery != (run[-1] + 1) % SERIAL):
                self._answer(run, echo)
                run = []
            if failure is None:
                run.append(delivery)
            else:
                self.write(p.disposition(False, delivery, delivery, p.rejected(failure)))
        if run:
            self._answer(run, echo)

    def _refuse_state(self, deliveries: list[int], state: Described) -> None:
        """Part 4, section 4.4: a transactional state among them; transactions are not supported."""
        failure = AmqpError("amqp:not-implemented", f"The delivery state {state.descriptor!r} is not supported.")
        for link in {id(link): link for link, _ in (self._unsettled[n] for n in deliveries)}.values():
            link.close(failure)

    def _within(self, first: int, last: int) -> list[int]:
        span = (last - first) % SERIAL
        if last < first and span >= _HALF:
            raise SessionError("amqp:invalid-field", f"A disposition of deliveries {first} to {last} is none.")
        if span < len(self._unsettled):
            return [n for n in ((first + i) % SERIAL for i in range(span + 1)) if n in self._unsettled]
        found = [n for n in self._unsettled if (n - first) % SERIAL <= span]
        return sorted(found, key=lambda n: (n - first) % SERIAL)

    def _answer(self, run: list[int], echo: Raw) -> None:
        self.write(p.disposition(False, run[0], run[-1] if len(run) > 1 else None, echo))

    # -- deliveries to the client

    def deliver(self, link: Link, tag: bytes, payload: bytes, settled: bool) -> None:
        """Send a message in as many frames as the client's frame size asks; hold them while its window is closed."""
        delivery = self._next_delivery
        self._next_delivery = (delivery + 1) % SERIAL
        if not settled:
            self._unsettled[delivery] = (link, tag)
        head = b"".join(
            (encode_uint(link.handle), encode_uint(delivery), encode(tag), b"\x43", b"\x41" if settled else b"\x42")
        )
        step = self.connection.peer_max_frame - _TRANSFER_OVERHEAD
        if len(payload) <= step:
            self._transfer(head, b"\x42", payload)
            return
        for at in range(0, len(payload), step):
            self._transfer(head, b"\x41" if at + step < len(payload) else b"\x42", payload[at : at + step])

    def _transfer(self, head: bytes, more: bytes, payload: bytes) -> None:
        # The tail: rcv-settle-mode, state, resume and aborted null, batchable true, as the service marks its deliveries.
        size = len(head) + 7
        size_of_frame = size + 13 + len(payload)  # 8 of header, 3 of descriptor, constructor, size
        data = b"".join(
            (
                _HEAD(size_of_frame, 2, 0, self.channel), b"\x00\x53\x14\xc0", bytes((size, 11)),
                head, more, b"\x40\x40\x40\x40\x41", payload,
            )
        )  # fmt: skip
        if self._remote_window <= 0 or self._held:
            self._held.append(data)
            return
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._remote_window -= 1
        self._next_outgoing = (self._next_outgoing + 1) % SERIAL
        if not self._over:
            self.connection.write(data)

    def resume(self) -> None:
        """Deliver what waited for the client's window, or for the client to read."""
        for link in list(self.links.values()):
            if self.blocked:
                return
            link.resume()
