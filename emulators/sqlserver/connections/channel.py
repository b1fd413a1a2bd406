"""One client's messages over its socket, in packets and inside TLS; where a client's ATTENTION is noticed, and where faults cut or mute it.

It reads no token and knows neither login nor session: what a message means is for those who take it (handshake.py, connection.py).
"""

from __future__ import annotations

import logging
import socket
import time
from typing import NoReturn

from emulators.sqlserver import turns
from emulators.sqlserver.connections import silence
from emulators.sqlserver.injection import Faults, Stage
from emulators.sqlserver.wire.packets import Message, MessageWriter, Reassembler
from emulators.sqlserver.wire.tls import TlsChannel

log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 15.0
_HANDSHAKE_LIMIT = 128 * 1024
_MESSAGE_LIMIT = 128 * 1024 * 1024
_POLL_SECONDS = 0.01
_RECEIVE = 65536


class Closed(Exception):
    """The connection is over: the client went away, or was told why and let go."""


class Channel:
    """Messages in and out, on the thread that runs the connection; `abort` alone may come from another."""

    def __init__(self, client: socket.socket, faults: Faults) -> None:
        self._socket = client
        self._faults = faults
        self._incoming = Reassembler(_HANDSHAKE_LIMIT)
        self._outgoing = MessageWriter()
        self._tls: TlsChannel | None = None
        self._logged_in = False
        self._gone = False
        self._polled = 0.0
        self._quota: silence.Quota | None = None
        self.attention = False
        """The client has sent an ATTENTION that `finish` has not acknowledged yet."""

    # -- its life

    def open(self) -> None:
        """The client is a stranger: it must hurry, and its messages must be small."""
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(_HANDSHAKE_SECONDS)

    def let_in(self) -> None:
        """The client has logged in: it may take its time, and send large messages."""
        self._socket.settimeout(None)
        self._incoming.limit = _MESSAGE_LIMIT
        self._logged_in = True

    def use_session(self, session_id: int) -> None:
        """From now on packets carry the session's number."""
        self._outgoing.session_id = session_id

    @property
    def session_id(self) -> int:
        """0 before the login."""
        return self._outgoing.session_id

    def use_packets_of(self, size: int) -> None:
        self._outgoing.packet_size = size

    def encrypt(self, tls: TlsChannel) -> None:
        """From now on everything passes through `tls`, whose handshake is over."""
        self._tls = tls

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        """End the connection from another thread: whoever reads, writes or waits in it finds the client gone."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("aborting a connection that had ended")

    # -- messages in

    def receive(self) -> Message:
        """The next message. Before TLS begins no byte after a message is read: it may be a record."""
        while (message := self._incoming.pop()) is None:
            exact = self._tls is None and not self._logged_in
            data = self._socket.recv(self._incoming.wanted if exact else _RECEIVE)
            if not data:
                raise Closed
            self._feed(data)
        return message

    def cancelled(self) -> bool:
        """Whether the client sent an ATTENTION or went away; looks at the socket at most every 10 ms."""
        if not (self.attention or self._gone):
            now = time.monotonic()
            if now - self._polled >= _POLL_SECONDS:
                self._polled = now
                self._poll()
        return self.attention or self._gone

    def _poll(self) -> None:
        """Read what came meanwhile. With a whole message waiting nothing more is read: the client is ahead of its answers."""
        self._socket.setblocking(False)
        try:
            while not self._incoming.waiting:
                data = self._socket.recv(_RECEIVE)
                if not data:
                    self._gone = True
                    return
                self._feed(data)
        except BlockingIOError:
            pass
        except OSError:
            self._gone = True
            return
        finally:
            self._socket.setblocking(True)
        self.attention = self._incoming.take_attention()

    def _feed(self, data: bytes) -> None:
        self._incoming.feed(data if self._tls is None else self._tls.decrypt(data))

    # -- messages out

    def write(self, data: bytes) -> None:
        """A part of a message; it goes out once it fills a packet. Raises Closed when the client is gone."""
        if self._gone:
            raise Closed
        if packets := self._outgoing.add(data):
            self._transmit(packets)

    def end_message(self) -> None:
        self._transmit(self._outgoing.finish())

    def send(self, data: bytes) -> None:
        """A whole message, or the rest of one."""
        self.write(data)
        self.end_message()

    def send_handshake(self, data: bytes) -> None:
        """A part of the TLS handshake, in a message of the type that its question had."""
        self._transmit(self._outgoing.handshake(data))

    def last_words(self, data: bytes) -> None:
        """Octets as they are, to a client that may have gone."""
        try:
            self._socket.sendall(data)
        except OSError:
            log.debug("closing a connection that had ended")

    def _transmit(self, packets: bytes) -> None:
        if self._quota is not None and (some := self._quota.of(packets)) is not None:
            self.last_words(some if self._tls is None else self._tls.encrypt(some))
            self._fall_silent()
        allowed = self._faults.sending(len(packets))
        if allowed < len(packets):
            self.last_words(packets[:allowed] if self._tls is None else self._tls.encrypt(packets[:allowed]))
            raise Closed
        with turns.elsewhere():
            self._socket.sendall(packets if self._tls is None else self._tls.encrypt(packets))

    # -- silence

    def may_fall_silent(self, stage: Stage, text: str = "") -> None:
        """Where a fault mutes the connection; it does not return from there."""
        if (found := self._faults.silent(stage, text)) is not None:
            if stage in (Stage.ACCEPT, Stage.READING):
                silence.wait_unread(self._socket, found)
            self._fall_silent()

    def limit_answer(self, stage: Stage, text: str = "") -> None:
        """Where a fault lets a part of what is sent next get out, and mutes the connection then."""
        if (found := self._faults.silent(stage, text)) is not None:
            self._quota = silence.Quota(found)

    def _fall_silent(self) -> NoReturn:
        turns.give_up()
        silence.wait(self._socket)
        raise Closed
