"""The first messages with a SQL Server: which of its addresses answers, whether it encrypts, and whether its
certificate can be trusted.

This is tried before the driver connects. FreeTDS compares names in certificates letter by letter although Azure's are
wildcards, gives no reason for a refusal, and has a timeout for each read; here Python's rules apply, with one deadline
for all. Sends neither user nor password.
https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.6.5 PRELOGIN, 3.2.5.1 TLS inside PRELOGIN packets)
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from common.errors import ConnectionLost, PermanentError

PRELOGIN, LOGIN7 = 0x12, 0x10
_LAST = 0x01
_PACKET = 4096
_RECORD = 1 << 14
_ENCRYPTION, _FEDERATED = 1, 6
OFF, ON, NOT_SUPPORTED = 0, 1, 2
"""PRELOGIN's encryption: the login alone, everything, nothing."""
_REQUIRED = 3


_TOO_OLD = frozenset(
    {"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "WRONG_VERSION_NUMBER", "SSLV3_ALERT_HANDSHAKE_FAILURE"}
)
"""The reasons of a failed handshake when both sides have no version or no key exchange in common."""


_LET_IT = (
    "check that the server offers TLS 1.2 with ECDHE or DHE; DStream does not log in over weaker encryption: "
    "https://learn.microsoft.com/troubleshoot/sql/database-engine/connect/tls-1-2-support-microsoft-sql-server"
)

NO_ANSWER = "check that this is a port of SQL Server and that no firewall drops packets"
BROKE = (
    "check that this is a port of SQL Server, that the server offers the requested encryption, and that no gateway, proxy or firewall on the way "
    "ends connections"
)


class Untrusted(Exception):
    """The server does not encrypt, or its certificate cannot be trusted; the text says why."""


class Unencrypted(Untrusted):
    """No certificate was seen: none can be the matter."""


class Line:
    """A socket to a server, until `end` of the steady clock. Every method raises ConnectionLost, also at the
    deadline."""

    federated = False
    """Whether the server accepts tokens, by its PRELOGIN."""

    def __init__(self, connected: socket.socket, doing: str, end: float, seconds: float) -> None:
        self.socket = self._socket = connected
        self.doing = self._doing = doing
        self._end, self._seconds = end, seconds
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()

    @classmethod
    def to(cls, host: str, port: int, doing: str, end: float, seconds: float) -> Self:
        """To the first of the host's addresses that answers: all are tried at once, as MultiSubnetFailover requests.

        `doing`: a participle; `seconds`: the total time until `end`, for errors.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectionLost(
                f"{doing}: the host name cannot be resolved", hint="check the host name and this machine's DNS"
            ) from error
        return cls(_first(found, doing, end, seconds), doing, end, seconds)

    @property
    def peer(self) -> str:
        """The IP address that answered."""
        return str(self._socket.getpeername()[0])

    def close(self) -> None:
        self._socket.close()

    def like(self, connected: socket.socket) -> Line:
        """Another socket, to the same end."""
        return Line(connected, self._doing, self._end, self._seconds)

    def shut(self) -> None:
        """From another thread: a thread that reads or writes finds the connection closed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def prelogin(self, encryption: int, *, federated: bool = False) -> int:
        """Request `encryption` and return what the server agrees to. `federated`: a token follows."""
        self.send(PRELOGIN, prelogin(encryption, federated=federated))
        answer = self.receive()
        self.federated = _told(answer).get(_FEDERATED, b"")[:1] == b"\x01"
        return _agreed(answer, self._doing)

    def secure(self, context: ssl.SSLContext, host: str, *, packets: bool) -> Mapping[str, Any]:
        """TLS, inside PRELOGIN packets or (TDS 8.0) around everything; the certificate.

        Raises Untrusted, and PermanentError where the server's TLS is too old.
        """
        tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        first = True
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._carry(packets=packets)
                self._incoming.write(self._answer(packets=packets, first=first))
                first = False
            except ssl.SSLCertVerificationError as error:
                raise Untrusted(error.verify_message) from error
            except (ssl.SSLError, ssl.CertificateError) as error:
                if isinstance(error, ssl.SSLError) and error.reason in _TOO_OLD:
                    raise self._too_old(error) from error
                raise self._broken(error) from error
        self._carry(packets=packets)
        self._tls = tls
        return tls.getpeercert() or {}

    def clear(self) -> None:
        """From now on nothing is encrypted: encryption was for the login alone."""
        self._tls = None

    def send(self, kind: int, body: bytes) -> None:
        """One message, in packets."""
        parts = [body[at : at + _PACKET - 8] for at in range(0, len(body), _PACKET - 8)]
        for number, part in enumerate(parts, start=1):
            status = _LAST if number == len(parts) else 0
            self._write(struct.pack(">BBHHBB", kind, status, len(part) + 8, 0, number & 255, 0) + part)

    def receive(self) -> bytes:
        """The body of the next message."""
        body, status = b"", 0
        while not status & _LAST:
            _, status, length = struct.unpack(">BBH", self._exactly(8)[:4])
            body += self._exactly(max(length - 8, 0))
        return body

    def sealed(self, data: bytes) -> bytes:
        """The bytes to send for `data`."""
        if self._tls is None or not data:
            return data
        self._tls.write(data)
        return self._outgoing.read()

    def opened(self, data: bytes) -> bytes:
        """The clear text of the complete records in `data`. Raises ssl.SSLError, also for the end of TLS."""
        if self._tls is None:
            return data
        self._incoming.write(data)
        said = bytearray()
        with suppress(ssl.SSLWantReadError):
            while more := self._tls.read(_RECORD):
                said += more
        return bytes(said)

    def _carry(self, *, packets: bool) -> None:
        data = self._outgoing.read()
        if data and packets:
            self.send(PRELOGIN, data)
        elif data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self.left())
            self._socket.sendall(self.sealed(data))
        except OSError as error:
            raise self._broken(error) from error

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._read(size - len(data))
        return data

    def _read(self, size: int) -> bytes:
        if self._tls is None:
            return self._some(size)
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                self._incoming.write(self._some())
            except ssl.SSLError as error:
                raise self._broken(error) from error

    def _some(self, size: int = 65536) -> bytes:
        try:
            self._socket.settimeout(self.left())
            data = self._socket.recv(size)
        except OSError as error:
            raise self._broken(error) from error
        if not data:
            raise self._broken(ConnectionAbortedError("the server closed the connection"))
        return data

    def left(self) -> float:
        """Seconds until the end. Raises TimeoutError after it."""
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    def _answer(self, *, packets: bool, first: bool) -> bytes:
        """The server's next message in a handshake. Windows closes the connection without one if there is no TLS
        version in common."""
        try:
            return self.receive() if packets else self._some()
        except ConnectionLost as error:
            if not first or isinstance(error.__cause__, TimeoutError):
                raise
            raise ConnectionLost(
                f"{self._doing}: the server closed the connection when TLS was to begin", hint=_LET_IT
            ) from error

    def _too_old(self, error: ssl.SSLError) -> PermanentError:
        """By Python's defaults; the driver alone would accept less."""
        return PermanentError(
            f"{self._doing}: the server offers no TLS 1.2 with ECDHE or DHE: {error.reason}",
            hint=_LET_IT,
        )

    def _broken(self, error: Exception) -> ConnectionLost:
        if isinstance(error, TimeoutError):
            return late(self._doing, self._seconds)
        tls = isinstance(error, ssl.SSLError)
        return ConnectionLost(
            f"{self._doing}: the {'TLS handshake failed' if tls else 'connection broke while logging in'}: {error}",
            hint=BROKE,
        )


def late(doing: str, seconds: float) -> ConnectionLost:
    return ConnectionLost(f"{doing}: no answer within {seconds:g} s", hint=NO_ANSWER)


def _first(found: Sequence[Any], doing: str, end: float, seconds: float) -> socket.socket:
    """A socket that is connected to one of the addresses; the others are closed."""
    why: OSError | None = None
    with selectors.DefaultSelector() as selector:
        for family, kind, protocol, _, address in found:
            attempt = socket.socket(family, kind, protocol)
            attempt.setblocking(False)
            if (number := attempt.connect_ex(address)) in (0, errno.EINPROGRESS):
                selector.register(attempt, selectors.EVENT_WRITE)
            else:
                attempt.close()
                why = OSError(number, "")
        try:
            while selector.get_map() and (left := end - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    attempt = key.fileobj  # type: ignore[assignment]
                    selector.unregister(attempt)
                    if (number := attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) == 0:
                        return attempt
                    attempt.close()
                    why = OSError(number, "")
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
    raise late(doing, seconds) if why is None or time.monotonic() >= end else _unreachable(doing, why)


def _unreachable(doing: str, why: OSError) -> ConnectionLost:
    return ConnectionLost(
        f"{doing}: the server cannot be reached: {os.strerror(why.errno or 0)}", hint="check host, port and firewall"
    )


def prelogin(encryption: int, *, federated: bool = False) -> bytes:
    values = [(0, bytes(6)), (_ENCRYPTION, bytes([encryption])), (2, b"\0"), (3, bytes(4)), (4, b"\0")]
    if federated:
        values.append((_FEDERATED, b"\1"))
    head, body, offset = b"", b"", 5 * len(values) + 1
    for token, value in values:
        head += struct.pack(">BHH", token, offset + len(body), len(value))
        body += value
    return head + b"\xff" + body


def _told(answer: bytes) -> dict[int, bytes]:
    """The options in a PRELOGIN."""
    at, found = 0, {}
    while at + 5 <= len(answer) and answer[at] != 0xFF:
        token, offset, length = struct.unpack_from(">BHH", answer, at)
        found[token] = answer[offset : offset + length]
        at += 5
    return found


def _agreed(answer: bytes, doing: str) -> int:
    if said := _told(answer).get(_ENCRYPTION):
        return ON if said[0] & 3 == _REQUIRED else said[0] & 3
    raise ConnectionLost(f"{doing}: the server that answers is not a SQL Server", hint="check host and port")
