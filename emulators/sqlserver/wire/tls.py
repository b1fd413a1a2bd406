"""TLS inside TDS 7.x (MS-TDS 3.3.5.2): the server's half of the encryption, bytes in and bytes out, without a socket.

The handshake travels in PRELOGIN packets; afterwards TLS records carry the packets. With login-only encryption the first packet
that comes in clear text ends it, for both directions: some drivers encrypt all of LOGIN7, some only its first packet. TLS that
starts before PRELOGIN is TDS 8.0 ("strict"), which is not spoken here: see packets.StrictEncryption.
"""

from __future__ import annotations

import ssl

from emulators.sqlserver.wire.errors import ProtocolError

_RECORD_HEADER = 5
_RECORD_TYPES = range(0x14, 0x18)
_RECORD_LIMIT = 16384 + 2048


class TlsChannel:
    """One connection's TLS. Its methods raise ProtocolError when the peer breaks TLS, ConnectionAbortedError when it ended TLS.

    `login_only`: drop the encryption with the first clear packet of the client, instead of calling that an error.
    """

    def __init__(self, context: ssl.SSLContext, *, login_only: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._login_only = login_only
        self._received = bytearray()
        self.established = False
        self.dropped = False
        """Whether the client went back to clear text; from then on bytes pass as they are."""

    def handshake(self, data: bytes) -> bytes:
        """Take the body of a PRELOGIN packet; what to send back in one, maybe nothing. Sets `established` at the end."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read()
        except ssl.SSLError as error:
            raise ProtocolError(f"the TLS handshake failed: {error.reason or error}") from error
        self.established = True
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """The packets in received bytes, as far as their records are whole."""
        if self.dropped:
            return data
        self._received += data
        return self._decrypted() + self._rest()

    def encrypt(self, data: bytes) -> bytes:
        """Bytes to send for a part of an answer; none for none."""
        if self.dropped or not data:
            return data
        self._tls.write(data)
        return self._outgoing.read()

    def drop(self) -> None:
        """End the encryption, as both sides do after the login when it was only for that."""
        self.dropped = True

    def _decrypted(self) -> bytes:
        clear = []
        while (size := self._record()) is not None:
            self._incoming.write(self._received[:size])
            del self._received[:size]
            clear.append(self._read())
        return b"".join(clear)

    def _record(self) -> int | None:
        """The length of the record that comes next, once it is whole."""
        if len(self._received) < _RECORD_HEADER or self._received[0] not in _RECORD_TYPES:
            return None
        size = _RECORD_HEADER + int.from_bytes(self._received[3:5], "big")
        if size > _RECORD_HEADER + _RECORD_LIMIT:
            raise ProtocolError(f"a TLS record cannot have {size} bytes")
        return size if len(self._received) >= size else None

    def _read(self) -> bytes:
        clear = []
        try:
            while data := self._tls.read(_RECORD_LIMIT):
                clear.append(data)
        except ssl.SSLWantReadError:
            return b"".join(clear)
        except ssl.SSLError as error:
            raise ProtocolError(f"a TLS record cannot be read: {error.reason or error}") from error
        raise ConnectionAbortedError("the client ended TLS")

    def _rest(self) -> bytes:
        """Clear bytes after the records: packet types and record types have no value in common."""
        if not self._received or self._received[0] in _RECORD_TYPES:
            return b""
        if not self._login_only:
            raise ProtocolError("clear text where TLS records were due")
        self.dropped = True
        rest = bytes(self._received)
        self._received.clear()
        return rest
