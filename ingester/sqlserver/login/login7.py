"""LOGIN7, the login message: written, read from the driver, and written again with a token in place of a password.
Pure.

https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.6.4 LOGIN7)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

_FIXED = 94
_TEXTS = 36
"""The offset of the nine texts' pointers, each with offset and length in characters."""
_USER, _PASSWORD, _SERVER, _EXTENSION = 1, 2, 4, 5
_EXTENDED = 27
"""The offset of OptionFlags3, with the bit for features."""
_HAS_FEATURES = 0x10
_FEDAUTH, _NO_MORE = 0x02, 0xFF
_SECURITY_TOKEN = 1


@dataclass(frozen=True, slots=True)
class Login7:
    """`head`: everything before the texts. `texts`: host, user, password, application, server, nothing, library,
    language, database."""

    head: bytes
    texts: Sequence[str] = field(repr=False)

    @property
    def password(self) -> str:
        return self.texts[_PASSWORD]

    @property
    def written(self) -> bytes:
        return self._with(self.texts, b"")

    def by_token(self, token: str, server: str, *, echo: bool) -> bytes:
        """The same login to `server` by an access token. `echo`: whether the server's PRELOGIN had FEDAUTHREQUIRED."""
        texts = list(self.texts)
        texts[_USER], texts[_PASSWORD], texts[_SERVER] = "", "", server
        encoded = token.encode("utf-16-le")
        data = struct.pack("<BI", _SECURITY_TOKEN << 1 | echo, len(encoded)) + encoded
        return self._with(texts, struct.pack("<BI", _FEDAUTH, len(data)) + data + bytes([_NO_MORE]))

    def _with(self, texts: Sequence[str], features: bytes) -> bytes:
        """The fixed part, then the data that it points at; the features' offset is after the texts."""
        pointers, data = b"", b""
        for number, text in enumerate(texts):
            encoded = text.encode("utf-16-le")
            if number == _PASSWORD:
                encoded = _scrambled(encoded)
            length = 4 if features and number == _EXTENSION else len(encoded) // 2
            pointers += struct.pack("<HH", _FIXED + len(data), length)
            data += bytes(4) if features and number == _EXTENSION else encoded
        end = struct.pack("<HH", _FIXED + len(data), 0)
        pointers += bytes(6) + end * 3 + bytes(4)
        head = bytearray(self.head)
        struct.pack_into("<I", head, 0, _FIXED + len(data) + len(features))
        body = bytearray(bytes(head) + pointers + data)
        if features:
            body[_EXTENDED] |= _HAS_FEATURES
            (at,) = struct.unpack_from("<H", body, _TEXTS + 4 * _EXTENSION)
            struct.pack_into("<I", body, at, len(body))
        return bytes(body) + features


def login7(texts: Sequence[str], version: int, packet_size: int) -> Login7:
    """A login without a driver. `version`: of TDS. A `packet_size` of 0 leaves the choice to the server."""
    head = struct.pack("<IIIIIIBBBBii", 0, version, packet_size, 7, 0, 0, 0xE0, 0x03, 0, 0, 0, 0)
    return Login7(head, texts)


def read(body: bytes) -> Login7:
    """A client's LOGIN7 without its features. Raises ValueError if `body` is not one."""
    try:
        places = [struct.unpack_from("<HH", body, _TEXTS + 4 * number) for number in range(9)]
    except struct.error:
        raise ValueError("no LOGIN7") from None
    texts = []
    for number, (at, length) in enumerate(places):
        raw = b"" if number == _EXTENSION else body[at : at + 2 * length]
        texts.append((_clear(raw) if number == _PASSWORD else raw).decode("utf-16-le", "replace"))
    head = bytearray(body[:_TEXTS])
    head[_EXTENDED] &= ~_HAS_FEATURES
    return Login7(bytes(head), texts)


def _scrambled(text: bytes) -> bytes:
    return bytes(((byte << 4 & 0xF0) | byte >> 4) ^ 0xA5 for byte in text)


def _clear(scrambled: bytes) -> bytes:
    return bytes(((byte ^ 0xA5) << 4 & 0xF0) | (byte ^ 0xA5) >> 4 for byte in scrambled)
