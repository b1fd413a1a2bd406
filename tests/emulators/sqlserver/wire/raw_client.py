"""A TDS client without manners: sends what it is told, reads whole messages, and can encrypt as the protocol has it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

BATCH, RPC, ATTENTION, BULK, TRANSACTION, LOGIN, PRELOGIN = 0x01, 0x03, 0x06, 0x07, 0x0E, 0x10, 0x12
HEADERS = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
DONE = 0xFD


def packet(kind: int, body: bytes, status: int = 1) -> bytes:
    return struct.pack(">BBHHBB", kind, status, len(body) + 8, 0, 1, 0) + body


def login_body(user: str = "sa", password: str = "secret", database: str = "demo") -> bytes:
    """A LOGIN7 with its fields in the order of their offsets, all others empty."""
    hidden = bytes(((b << 4 & 0xF0) | b >> 4) ^ 0xA5 for b in password.encode("utf-16-le", "surrogatepass"))
    fields = {
        40: user.encode("utf-16-le", "surrogatepass"),
        44: hidden,
        68: database.encode("utf-16-le", "surrogatepass"),
    }
    body = bytearray(94)
    data = b""
    for at in (36, 40, 44, 48, 52, 56, 60, 64, 68, 78, 82, 86):
        value = fields.get(at, b"")
        struct.pack_into("<HH", body, at, 94 + len(data), len(value) // 2)
        data += value
    struct.pack_into("<III", body, 0, 94 + len(data), 0x74000004, 4096)
    return bytes(body) + data


def batch(text: str) -> bytes:
    return packet(BATCH, HEADERS + text.encode("utf-16-le", "surrogatepass"))


class Client:
    """One connection; `closed` and `message` wait for the server, at most 10 s."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._tls: ssl.SSLObject | None = None
        self._sent, self._received = ssl.MemoryBIO(), ssl.MemoryBIO()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data if self._tls is None else self.record(data))

    def encrypt(self, authority: str, wish: int, host: str = "localhost") -> Client:
        """PRELOGIN with this wish, then the handshake inside of PRELOGIN packets; raises ssl.SSLError when not convinced."""
        self.send(packet(PRELOGIN, struct.pack(">BHHBB", 1, 6, 1, 0xFF, wish)))
        self.message()
        context = ssl.create_default_context(cadata=authority)
        tls = context.wrap_bio(self._received, self._sent, server_hostname=host)
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            self.send(packet(PRELOGIN, self._sent.read()))
            self._received.write(self.message())
        self._tls = tls
        return self

    def record(self, data: bytes) -> bytes:
        """What `send` would send."""
        assert self._tls is not None
        self._tls.write(data)
        return self._sent.read()

    def drop_tls(self) -> None:
        """From here on in clear text."""
        self._tls = None

    def end_tls(self) -> None:
        """Say goodbye as TLS has it (close_notify), and nothing more."""
        assert self._tls is not None
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.socket.sendall(self._sent.read())

    @property
    def tls_version(self) -> str | None:
        return None if self._tls is None else self._tls.version()

    def message(self) -> bytes:
        """The next whole message of the server; EOFError when it closed."""
        body = b""
        while True:
            _, status, length = struct.unpack(">BBH", self._exactly(8)[:4])
            body += self._exactly(length - 8)
            if status & 1:
                return body

    def logged_in(self) -> Client:
        self.send(packet(LOGIN, login_body()))
        self.message()
        return self

    def closed(self) -> bool:
        """Whether the server closes, after whatever it still says."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(65536):
                pass
        return True

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._receive(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _receive(self, count: int) -> bytes:
        if self._tls is None:
            return self.socket.recv(count)
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self._tls.read(count)
            if not (data := self.socket.recv(65536)):
                return b""
            self._received.write(data)
