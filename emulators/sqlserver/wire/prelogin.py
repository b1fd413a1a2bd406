"""PRELOGIN (MS-TDS 2.2.6.5): the options both sides exchange before LOGIN7, encryption above all.

`agreed` holds the table of what client and server make of their wishes. It reads and writes messages only; the TLS handshake that
may follow is in tls.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from emulators.sqlserver.wire.errors import ProtocolError

_OPTION = struct.Struct(">BHH")
_TERMINATOR = 0xFF

SERVER_VERSION = (16, 0, 4175)
"""SQL Server 2022: major, minor, build; also told in LOGINACK."""


class Option(IntEnum):
    VERSION = 0
    ENCRYPTION = 1
    INSTANCE = 2
    THREAD_ID = 3
    MARS = 4
    FEDERATED_AUTHENTICATION = 6
    NONCE = 7


class Encryption(IntEnum):
    OFF = 0
    ON = 1
    NOT_SUPPORTED = 2
    REQUIRED = 3


@dataclass(frozen=True, slots=True)
class Prelogin:
    """What the client offered; `encryption` is the two low bits of its option (the rest asks for client certificates).

    `federated`: it asks whether a token is awaited (FEDAUTHREQUIRED). `nonce`: what it gives to be told again, None without.
    """

    encryption: Encryption
    mars: bool
    federated: bool = False
    nonce: bytes | None = None

    @property
    def demands_encryption(self) -> bool:
        return self.encryption in (Encryption.ON, Encryption.REQUIRED)


def agreed(client: Encryption, *, tls: bool) -> Encryption:
    """The server's answer: OFF encrypts the login alone, ON everything, NOT_SUPPORTED nothing.

    A server without a certificate answers NOT_SUPPORTED; a client that insists then ends here. `tls`: it has one.
    """
    if not tls or client is Encryption.NOT_SUPPORTED:
        return Encryption.NOT_SUPPORTED
    return Encryption.OFF if client is Encryption.OFF else Encryption.ON


def parse(data: bytes) -> Prelogin:
    """Read a client's PRELOGIN. Raises ProtocolError when an option lies outside the message or no terminator comes."""
    options = _options(data)
    encryption = options.get(Option.ENCRYPTION) or bytes([Encryption.NOT_SUPPORTED])
    mars = options.get(Option.MARS, b"")
    federated = options.get(Option.FEDERATED_AUTHENTICATION, b"")
    nonce = options.get(Option.NONCE)
    return Prelogin(Encryption(encryption[0] & 3), mars[:1] == b"\x01", federated[:1] == b"\x01", nonce)


def _options(data: bytes) -> dict[int, bytes]:
    options: dict[int, bytes] = {}
    position = 0
    while position < len(data):
        if data[position] == _TERMINATOR:
            return options
        if position + _OPTION.size > len(data):
            break
        token, offset, length = _OPTION.unpack_from(data, position)
        if offset + length > len(data):
            raise ProtocolError(f"PRELOGIN option {token} lies outside the message")
        options[token] = data[offset : offset + length]
        position += _OPTION.size
    raise ProtocolError("PRELOGIN without a terminator")


def answer(encryption: Encryption, *, federated: bool | None = None, nonce: bytes | None = None) -> bytes:
    """The server's PRELOGIN: its version, the encryption agreed on, no MARS.

    `federated`: whether it awaits a token, None where nobody asked. `nonce`: to be told again with a token, None without.
    """
    major, minor, build = SERVER_VERSION
    options = [
        (Option.VERSION, struct.pack(">BBHH", major, minor, build, 0)),
        (Option.ENCRYPTION, bytes([encryption])),
        (Option.INSTANCE, b"\0"),
        (Option.THREAD_ID, b""),
        (Option.MARS, b"\0"),
    ]
    if federated is not None:
        options.append((Option.FEDERATED_AUTHENTICATION, bytes([federated])))
    if nonce is not None:
        options.append((Option.NONCE, nonce))
    offset = _OPTION.size * len(options) + 1
    head, body = b"", b""
    for token, value in options:
        head += _OPTION.pack(token, offset + len(body), len(value))
        body += value
    return head + bytes([_TERMINATOR]) + body
