"""A connection: protocol headers, SASL, open, and the sessions on its channels.

No I/O: octets go in by `receive`, what is to be sent is taken by `output`, and `wake` is called when there is some.
Anything malformed ends this connection with a close frame and leaves every other one alone. Refuses connections that skip
the SASL layer, as the service does, and an upgrade to TLS inside AMQP.
Source: OASIS AMQP 1.0, part 2, sections 2.2 to 2.4 and 2.7; part 5, section 5.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, Protocol

from . import performatives as p
from .frames import AMQP_FRAME, AMQP_HEADER, HEARTBEAT, SASL_FRAME, SASL_HEADER, Frame, FrameReader, frame
from .link import Link
from .session import Session, SessionError
from .values import AmqpError, DecodeError, Value

MAX_FRAME: Final = 65_536
CHANNEL_MAX: Final = 4_999
MAX_LINKS: Final = 4_999
"""Links of one connection, as the service counts them (Azure/azure-sdk-for-net issue 25954)."""
IDLE_TIMEOUT: Final = 240.0
"""Seconds of silence after which the peer is taken for dead; what Service Bus announces."""
MECHANISMS: Final = ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"]
MOST_QUEUED: Final = 1 << 20
"""Octets waiting for the transport, or for the client to read, above which deliveries wait."""
LINK_IDLE: Final = 600.0
"""Seconds without a call after which a link is detached."""
LINKLESS: Final = 300.0
"""Seconds a connection may be without a link once it had one; the first one must come within `FIRST_LINK`."""
FIRST_LINK: Final = 60.0
_IDLE_CHECK: Final = 1.0
_MIN_FRAME: Final = 512
_LARGEST_PEER_FRAME: Final = 1 << 20

_log = logging.getLogger(__name__)


class Application(Protocol):
    """Who decides what a connection may do."""

    def authenticate(self, key_name: str, key: str) -> bool:
        """SASL PLAIN: are these a shared access key and its name?"""
        ...

    def attach(self, link: Link) -> None:
        """Answer with `link.accept` or `link.refuse`, at once or later."""
        ...

    def timer(self, link: Link) -> str | None:
        """What the service calls the one who detaches an idle link; None for a link that does not count as one in use."""
        ...


class _Phase(Enum):
    HEADER = auto()
    SASL = auto()
    AMQP_HEADER = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSED = auto()


class Connection:
    """The state of one connection. `now` is a monotonic clock in seconds, for what happens to the idle only.

    Deliveries wait while the transport says that the client does not read, or much is queued. `divert` sees every frame before
    it is sent and may keep it, to send it later by `emit`, or for good. `heed` sees every header and frame that comes in; one for
    which it is True is not heeded here.
    """

    def __init__(
        self,
        application_of: Callable[[Connection], Application],
        wake: Callable[[], None],
        now: float = 0.0,
        container: str = "servicebus-emulator",
        divert: Callable[[Connection, bytes], bool] | None = None,
        heed: Callable[[Connection, bytes | Frame], bool] | None = None,
    ) -> None:
        self.peer_max_frame = _MIN_FRAME
        self.sessions: dict[int, Session] = {}
        self.now = now
        self._unread = False
        self._queued = 0
        self._held_back = False
        self._ended: set[int] = set()
        self._divert = divert
        self._heed = heed
        self._hushed = False
        self._linked_at = now
        self._had_links = False
        self._next_idle_check = now + _IDLE_CHECK
        self._container = container
        self._wake = wake
        self._reader = FrameReader(MAX_FRAME)
        self._out: list[bytes] = []
        self._phase = _Phase.HEADER
        self._last_heard = self._last_sent = now
        self._heartbeat: float | None = None
        self.application = application_of(self)

    @property
    def closed(self) -> bool:
        """Nothing more will be read; the transport closes after the last output."""
        return self._phase is _Phase.CLOSED

    def write(self, data: bytes) -> None:
        """Send a frame or header."""
        if self._divert is None or not self._divert(self, data):
            self.emit(data)

    def emit(self, data: bytes) -> None:
        """Queue octets; the first ones wake the transport. Nothing leaves a closed connection."""
        if self.closed or self._hushed:
            return
        if not self._out:
            self._wake()
        self._out.append(data)
        self._queued += len(data)

    def output(self, now: float) -> bytes:
        """What is to be sent, taken."""
        data = b"".join(self._out)
        self._out.clear()
        self._queued = 0
        if data:
            self._last_sent = now
        return data

    def sever(self) -> None:
        """Close without a word, after what is queued; the links end when the transport does (`lost`)."""
        self._phase = _Phase.CLOSED
        self._wake()

    def hush(self) -> None:
        """Hear and say nothing from now on, but for what is queued; links and locks stay until the transport is lost."""
        self._hushed = True

    @property
    def congested(self) -> bool:
        """Do deliveries have to wait?"""
        congested = self._unread or self._queued >= MOST_QUEUED
        self._held_back |= congested
        return congested

    def pause(self) -> None:
        """The client does not read what it was sent."""
        self._unread = True

    def resume(self) -> None:
        """It reads again."""
        self._unread = False
        self.flushed()

    def flushed(self) -> None:
        """What was taken by `output` is with the transport: deliver what waited for that."""
        if self._held_back and not self._unread:
            self._held_back = False
            for session in list(self.sessions.values()):
                session.resume()

    def links(self) -> Iterator[Link]:
        """Links of all sessions, those included that wait for their answer; may be detached meanwhile."""
        for session in list(self.sessions.values()):
            yield from list(session.links.values())

    def has_room_for_a_link(self) -> bool:
        """May there be one more?"""
        return sum(len(session.links) for session in self.sessions.values()) < MAX_LINKS

    def receive(self, data: bytes, now: float) -> None:
        """Octets of the peer."""
        if self.closed or self._hushed:
            return
        self._last_heard = self.now = now
        try:
            for item in self._reader.feed(data):
                if self._heed is not None and self._heed(self, item):
                    if self._hushed:
                        return
                    continue
                if isinstance(item, bytes):
                    self._header(item)
                else:
                    self._frame(item)
                if self.closed or self._hushed:
                    return
        except AmqpError as failure:
            self.abort(failure)
        except Exception:  # one client's connection ends here, not everybody's server
            _log.exception("handling a frame")
            self.abort(AmqpError("amqp:internal-error", "The server failed to handle a frame."))

    def tick(self, now: float) -> None:
        """Send a heartbeat when the peer wants one; detach and close what has been idle too long."""
        if self.closed or self._hushed:
            return
        self.now = now
        if self._heartbeat is not None and now - self._last_sent >= self._heartbeat:
            self.write(HEARTBEAT)
        if now - self._last_heard > IDLE_TIMEOUT:
            allowed = f"the allowed {IDLE_TIMEOUT * 1000:.0f} milliseconds"
            self._force(
                f"The connection was inactive for more than {allowed} and is closed by container '{self._container}'."
            )
        elif now >= self._next_idle_check:
            self._next_idle_check = now + _IDLE_CHECK
            self._check_links(now)

    def _check_links(self, now: float) -> None:
        """learn.microsoft.com "AMQP errors in Azure Service Bus": idle links, then connections without any."""
        for link in self.links():
            timer = self.application.timer(link)
            if timer is None:
                continue
            if link.attached and now - link.used >= LINK_IDLE:
                text = f"The link '{link.name}' is force detached. Details: {timer}.IdleTimerExpired: Idle timeout: 00:10:00."
                link.close(AmqpError("amqp:link:detach-forced", text))
            self._had_links = True
            self._linked_at = now
        allowed = LINKLESS if self._had_links else FIRST_LINK
        if now - self._linked_at > allowed:
            text = (
                f"The connection was closed by container '{self._container}' because it did not have any active links"
            )
            self._force(f"{text} in the past {allowed * 1000:.0f} milliseconds.")

    def _force(self, text: str) -> None:
        self.abort(AmqpError("amqp:connection:forced", text))

    def abort(self, failure: AmqpError) -> None:
        """Close from our side, with an error."""
        if self.closed:
            return
        if self._phase is _Phase.OPENING:
            self._answer_open()
        if self._phase is _Phase.OPEN:
            self.write(frame(0, p.perform(p.CLOSE, p.error(failure))))
        self._phase = _Phase.CLOSED
        self._wake()
        self.lost()

    def lost(self) -> None:
        """The transport is gone, or about to be: every link ends."""
        self._phase = _Phase.CLOSED
        sessions = list(self.sessions.values())
        self.sessions.clear()
        for session in sessions:
            session.gone()

    # -- what the peer says

    def _header(self, header: bytes) -> None:
        if self._phase is _Phase.HEADER and header == SASL_HEADER:
            self._phase = _Phase.SASL  # before a word: a fault may sever the connection in the middle of it
            self.write(SASL_HEADER)
            self.write(frame(0, p.sasl_mechanisms(MECHANISMS), SASL_FRAME))
        elif self._phase is _Phase.AMQP_HEADER and header == AMQP_HEADER:
            self._phase = _Phase.OPENING
            self.write(AMQP_HEADER)
        else:
            # Part 2, section 2.2: answer with the header that would have been right, then close.
            self.write(SASL_HEADER if self._phase is _Phase.HEADER else AMQP_HEADER)
            self.sever()

    def _frame(self, item: Frame) -> None:
        if not item.body:
            return
        code, fields, end = p.parse(item.body)
        if self._phase is _Phase.SASL:
            self._sasl(item.kind, code, fields)
        elif item.kind != AMQP_FRAME:
            raise DecodeError("a SASL frame after SASL")
        elif self._phase is _Phase.OPENING:
            self._open(code, fields)
        else:
            self._performative(item, code, fields, end)

    def _sasl(self, kind: int, code: int, fields: list[Value]) -> None:
        if kind != SASL_FRAME or code != p.SASL_INIT:
            raise DecodeError("expected sasl-init")
        mechanism, response = fields[0], fields[1]
        good = mechanism in MECHANISMS
        if mechanism == "PLAIN":
            parts = (response or b"").decode("utf-8", "replace").split("\0")
            good = len(parts) == 3 and self.application.authenticate(parts[1], parts[2])
        if good:
            self._phase = _Phase.AMQP_HEADER
            self._reader.expect_header()
        self.write(frame(0, p.sasl_outcome(0 if good else 1), SASL_FRAME))
        if not good:
            self.sever()

    def _open(self, code: int, fields: list[Value]) -> None:
        if code != p.OPEN:
            raise DecodeError("expected open")
        wanted = _LARGEST_PEER_FRAME if fields[2] is None else fields[2]
        self.peer_max_frame = max(_MIN_FRAME, min(wanted, _LARGEST_PEER_FRAME))
        if fields[4]:
            self._heartbeat = fields[4] / 2000
        self._answer_open()

    def _answer_open(self) -> None:
        self._phase = _Phase.OPEN
        self.write(frame(0, p.open_(self._container, MAX_FRAME, CHANNEL_MAX, int(IDLE_TIMEOUT * 1000))))

    def _performative(self, item: Frame, code: int, fields: list[Value], end: int) -> None:
        if code == p.CLOSE:
            self.write(frame(0, p.perform(p.CLOSE)))
            self.sever()
            self.lost()
            return
        if code == p.BEGIN:
            self._begin(item.channel, fields)
            return
        session = self.sessions.get(item.channel)
        if session is None:
            if code == p.END:
                self._ended.discard(item.channel)
            return  # the SDK sends detach after end
        try:
            self._to_session(session, item, code, fields, end)
        except SessionError as failure:
            del self.sessions[item.channel]
            self._ended.add(item.channel)
            session.write(p.perform(p.END, p.error(failure)))
            session.gone()

    def _to_session(self, session: Session, item: Frame, code: int, fields: list[Value], end: int) -> None:
        if code == p.TRANSFER:
            session.transfer(fields, item.body[end:])
        elif code == p.DISPOSITION:
            session.disposition(fields)
        elif code == p.FLOW:
            session.flow(fields)
        elif code == p.ATTACH:
            session.attach(fields)
        elif code == p.DETACH:
            session.detach(fields)
        elif code == p.END:
            del self.sessions[item.channel]
            session.write(p.perform(p.END))
            session.gone()
        else:
            raise DecodeError(f"performative 0x{code:02x} has no place here")

    def _begin(self, channel: int, fields: list[Value]) -> None:
        if fields[0] is not None:
            raise AmqpError("amqp:connection:framing-error", "begin answers a session that was not begun")
        if channel > CHANNEL_MAX or channel in self.sessions or channel in self._ended:
            raise AmqpError("amqp:connection:framing-error", f"channel {channel} is not free")
        self.sessions[channel] = Session(self, channel, fields)
