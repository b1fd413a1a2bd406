"""A session: windows, delivery ids, links by handle, and which delivery a disposition speaks of.

No I/O. A disposition of first..last is applied delivery by delivery, in order; answers of consecutive deliveries are
merged only inside the range the client itself sent (azure-servicebus aio starves when answers of single settlements are
merged), and a delivery that could not be settled is answered alone.
Source: OASIS AMQP 1.0, part 2, sections 2.5, 2.6.12 and 2.7.6.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final

from . import performatives as p
from .encode import encode, encode_uint
from .frames import frame
from .link import Link
from .values import AmqpError, Described, Raw, UInt, Value

if TYPE_CHECKING:
    from .connection import Connection

WINDOW: Final = 65_536
"""Transfer frames a client may have on the way; topped up at half."""
HANDLE_MAX: Final = 255
_TRANSFER_OVERHEAD: Final = 96
_HEAD = struct.Struct(">IBBH").pack


class Session:
    """One session of a connection; both sides use the client's channel number and handles."""

    def __init__(self, connection: Connection, channel: int, begin: list[Value]) -> None:
        self.connection = connection
        self.channel = channel
        self.links: dict[int, Link] = {}
        self._next_incoming = begin[1]
        self._incoming_window = WINDOW
        self._next_outgoing = 1
        self._next_delivery = 1
        self._remote_window = begin[2]
        self._held: deque[bytes] = deque()
        self._unsettled: dict[int, tuple[Link, bytes]] = {}
        self.write(p.begin(channel, self._next_outgoing, WINDOW, HANDLE_MAX))

    def write(self, body: bytes) -> None:
        """Send a performative on this session's channel."""
        self.connection.write(frame(self.channel, body))

    def write_flow(self, link: Link | None = None, drain: bool = False) -> None:
        """Tell our windows, and of a link its delivery count and credit."""
        fields: list[Value] = [UInt(n) for n in (self._next_incoming, WINDOW, self._next_outgoing, WINDOW)]
        if link is not None:
            fields += [UInt(link.handle), UInt(link.delivery_count), UInt(max(link.credit, 0)), None, drain]
        self._incoming_window = WINDOW
        self.write(p.perform(p.FLOW, *fields))

    def forget(self, link: Link) -> None:
        """The link's handle is free again; its deliveries can no longer be settled here."""
        if self.links.get(link.handle) is link:
            del self.links[link.handle]
        for delivery in [key for key, (owner, _) in self._unsettled.items() if owner is link]:
            del self._unsettled[delivery]

    def gone(self) -> None:
        """The session ended: its links are gone."""
        links = list(self.links.values())
        self.links.clear()
        for link in links:
            link.gone()

    # -- frames of the client

    def attach(self, fields: list[Value]) -> None:
        """A new link, handed to the application for its answer."""
        link = Link(self, fields)
        if link.handle in self.links:
            raise AmqpError("amqp:session:handle-in-use", f"handle {link.handle} is attached already")
        if link.handle > HANDLE_MAX:
            raise AmqpError("amqp:connection:framing-error", f"handle {link.handle} is above handle-max")
        self.links[link.handle] = link
        self.connection.application.attach(link)

    def detach(self, fields: list[Value]) -> None:
        """The client detaches; answered in kind."""
        link = self.links.get(fields[0])
        if link is None:
            return
        self.forget(link)
        link.gone()
        self.write(p.detach(link.handle))

    def flow(self, fields: list[Value]) -> None:
        """Windows of the client, then the credit of a link."""
        self._next_incoming = fields[2]
        expected = fields[0] if fields[0] is not None else 1
        self._remote_window = expected + fields[1] - self._next_outgoing
        self._release()
        link = None if fields[4] is None else self.links.get(fields[4])
        if link is not None:
            link.flow(fields)
        elif fields[4] is None and fields[9]:
            self.write_flow()

    def transfer(self, fields: list[Value], payload: bytes) -> None:
        """One transfer frame of the client."""
        self._next_incoming += 1
        self._incoming_window -= 1
        if self._incoming_window < WINDOW // 2:
            self.write_flow()
        link = self.links.get(fields[0])
        if link is not None and not link.client_receives:
            link.transfer(fields, payload)

    def disposition(self, fields: list[Value]) -> None:
        """Outcomes of our deliveries first..last."""
        role, first, last, settled, state = fields[:5]
        if not role:
            return
        last = first if last is None else last
        if state is None and settled:
            state = Described(p.ACCEPTED, [])
        if not isinstance(state, Described) or state.descriptor not in p.OUTCOMES:
            return
        echo = p.OUTCOMES[state.descriptor]
        run: list[int] = []
        for delivery in self._within(first, last):
            link, tag = self._unsettled.pop(delivery)
            failure = link.endpoint.settle(link, tag, state) if link.endpoint is not None else None
            if settled:
                continue
            if run and (failure is not None or delivery != run[-1] + 1):
                self._answer(run, echo)
                run = []
            if failure is None:
                run.append(delivery)
            else:
                self.write(p.disposition(False, delivery, delivery, p.rejected(failure)))
        if run:
            self._answer(run, echo)

    def _within(self, first: int, last: int) -> list[int]:
        if last - first < len(self._unsettled):
            return [n for n in range(first, last + 1) if n in self._unsettled]
        return sorted(n for n in self._unsettled if first <= n <= last)

    def _answer(self, run: list[int], echo: Raw) -> None:
        self.write(p.disposition(False, run[0], run[-1] if len(run) > 1 else None, echo))

    # -- deliveries to the client

    def deliver(self, link: Link, tag: bytes, payload: bytes, settled: bool) -> None:
        """Send a message in as many frames as the client's frame size asks; hold them while its window is closed."""
        delivery = self._next_delivery
        self._next_delivery += 1
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
        self._remote_window -= 1
        self._next_outgoing += 1
        self.connection.write(data)

    def _release(self) -> None:
        while self._held and self._remote_window > 0:
            self._remote_window -= 1
            self._next_outgoing += 1
            self.connection.write(self._held.popleft())
