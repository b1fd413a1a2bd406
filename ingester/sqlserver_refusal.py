"""Why a server refuses a login, in its own words. The driver keeps the number of the gravest refusal that its process ever met.

So the login is sent once more from here, and the errors in the answer are read. Sends the password as the driver does: encrypted where
that was agreed, in LOGIN7's scrambling otherwise.
https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.6.4 LOGIN7, 2.2.7.10 ERROR, 2.2.7.9 ENVCHANGE)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.sqladdress import SqlAddress
from ingester.sqlserver_handshake import LOGIN7, Line

_TDS_7_4 = 0x74000004
_ERROR, _INFO, _ENVCHANGE, _LOGINACK = 0xAA, 0xAB, 0xE3, 0xAD
_ROUTING = 20
_PASSWORD = 2
_COUNTED = frozenset({_ERROR, _INFO, _ENVCHANGE, _LOGINACK})
"""Tokens with a length of two bytes; of those that a login is answered with, the rest come after what matters here."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error: its number, the state and severity that the server told, and its text."""

    number: int
    state: int
    severity: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """To a login: `refusals` is empty for one that was let in. `route`: host and port that a gateway sends its clients on to."""

    refusals: Sequence[Refusal]
    route: tuple[str, int] | None


def ask(line: Line, address: SqlAddress, application: str, *, login_only: bool) -> Answer:
    """What this login is answered now. `line`: greeted already; `login_only`: encryption ends with the login."""
    line.send(LOGIN7, _login(address, application))
    if login_only:
        line.clear()
    tokens = list(_tokens(line.receive()))
    routes = [body for token, body in tokens if token == _ENVCHANGE and body[:1] == bytes([_ROUTING])]
    return Answer([_error(body) for token, body in tokens if token == _ERROR], _route(routes[-1]) if routes else None)


def _login(address: SqlAddress, application: str) -> bytes:
    """LOGIN7: the fixed part, then the texts that it points at."""
    texts = (
        "dstream",
        address.user,
        address.password.get_secret_value(),
        application,
        address.host,
        "",
        "dstream",
        "",
        address.database,
    )
    pointers, data = b"", b""
    for number, text in enumerate(texts):
        encoded = text.encode("utf-16-le")
        if number == _PASSWORD:
            encoded = bytes(((byte << 4 & 0xF0) | byte >> 4) ^ 0xA5 for byte in encoded)
        pointers += struct.pack("<HH", 94 + len(data), len(encoded) // 2)
        data += encoded
    end = struct.pack("<HH", 94 + len(data), 0)
    pointers += bytes(6) + end * 3 + bytes(4)
    head = struct.pack("<IIIIIIBBBBii", 94 + len(data), _TDS_7_4, 4096, 7, 0, 0, 0xE0, 0x03, 0, 0, 0, 0)
    return head + pointers + data


def _tokens(answer: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 3 <= len(answer) and answer[at] in _COUNTED:
        token, length = struct.unpack_from("<BH", answer, at)
        yield token, answer[at + 3 : at + 3 + length]
        at += 3 + length


def _error(body: bytes) -> Refusal:
    number, state, severity, length = struct.unpack_from("<iBBH", body)
    return Refusal(number, state, severity, body[8 : 8 + 2 * length].decode("utf-16-le", "replace").replace("\n", " "))


def _route(body: bytes) -> tuple[str, int]:
    port, length = struct.unpack_from("<HH", body, 4)
    return body[8 : 8 + 2 * length].decode("utf-16-le", "replace"), port
