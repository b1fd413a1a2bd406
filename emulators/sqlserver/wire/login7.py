"""LOGIN7 (MS-TDS 2.2.6.4): who wants in, to which database, with which packet size.

Parses and checks; it decides nothing about users. Logins by Windows, by a token that is yet to be sent (the library MSAL) or with an
older protocol than TDS 7.3 are reported as such, so that the server can refuse them by name.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from emulators.sqlserver.results import LoginRequest
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.packets import DEFAULT_PACKET_SIZE, MAX_PACKET_SIZE, MIN_PACKET_SIZE
from emulators.sqlserver.wire.reader import decode_ucs2

TDS_7_3 = 0x730A0003
TDS_7_4 = 0x74000004

_FIXED = 94
_INTEGRATED_SECURITY = 0x80
_EXTENSION = 0x10
_FEDERATED_AUTHENTICATION = 0x02
_FEATURE_END = 0xFF
_SECURITY_TOKEN = 1
_NONCE = 32

_HOST, _USER, _PASSWORD, _APPLICATION = 36, 40, 44, 48
_SERVER, _EXTENSION_FIELD, _LANGUAGE, _DATABASE = 52, 56, 64, 68


@dataclass(frozen=True, slots=True)
class Federated:
    """A login by an identity (FEDAUTH). `token`: None where the client awaits the server's word before it gets one.

    `echo`: what the client heard of FEDAUTHREQUIRED. `nonce`: the server's, None where it is not told again.
    """

    token: str | None = field(repr=False)
    echo: bool
    nonce: bytes | None


@dataclass(frozen=True, slots=True)
class Login7:
    """A client's login; `packet_size` is what it asks for, brought into 512..32767 (0 means the default)."""

    request: LoginRequest
    tds_version: int
    packet_size: int
    integrated: bool
    federated: Federated | None
    extended: bool
    """Whether the client sent FeatureExt and so expects FEATUREEXTACK."""

    @property
    def well_formed(self) -> bool:
        """Whether its texts are UTF-16, without halves of surrogate pairs: no login or database has such a name."""
        request = self.request
        texts = (request.user, request.password, request.database, request.host, request.application, request.language)
        return not any("\ud800" <= sign <= "\udfff" for text in texts for sign in text)


def parse(data: bytes) -> Login7:
    """Read a LOGIN7 message. Raises ProtocolError when any field points outside it."""
    if len(data) < _FIXED:
        raise ProtocolError(f"LOGIN7 of {len(data)} bytes")
    length, version, packet_size = struct.unpack_from("<III", data)
    if length > len(data):
        raise ProtocolError(f"LOGIN7 announces {length} bytes, {len(data)} came")
    extended = bool(data[27] & _EXTENSION)
    features = _features(data) if extended else {}
    federated = _federated(features[_FEDERATED_AUTHENTICATION]) if _FEDERATED_AUTHENTICATION in features else None
    return Login7(
        request=LoginRequest(
            user=_text(data, _USER),
            password=_password(data),
            database=_text(data, _DATABASE),
            host=_text(data, _HOST),
            application=_text(data, _APPLICATION),
            language=_text(data, _LANGUAGE),
            server=_text(data, _SERVER),
            token=None if federated is None else federated.token,
        ),
        tds_version=version,
        packet_size=negotiate(packet_size),
        integrated=bool(data[25] & _INTEGRATED_SECURITY),
        federated=federated,
        extended=extended,
    )


def negotiate(asked: int) -> int:
    """The packet size both sides use after login: the client's wish within what TDS allows."""
    if asked == 0:
        return DEFAULT_PACKET_SIZE
    return max(MIN_PACKET_SIZE, min(asked, MAX_PACKET_SIZE))


def _field(data: bytes, at: int, unit: int) -> bytes:
    offset, count = struct.unpack_from("<HH", data, at)
    end = offset + count * unit
    if end > len(data):
        raise ProtocolError(f"LOGIN7 field at {at} lies outside the message")
    return data[offset:end]


def _text(data: bytes, at: int) -> str:
    return decode_ucs2(_field(data, at, 2))


def _password(data: bytes) -> str:
    """Undo the obfuscation: each byte was rotated by four bits and then XORed with 0xA5."""
    clear = bytes(((b ^ 0xA5) << 4 & 0xF0) | (b ^ 0xA5) >> 4 for b in _field(data, _PASSWORD, 2))
    return decode_ucs2(clear)


def _federated(data: bytes) -> Federated:
    """FEDAUTH's data: library and echo in one byte, then a token with its length, and the nonce where there was one."""
    if not data:
        raise ProtocolError("LOGIN7 feature FEDAUTH is empty")
    library, echo = data[0] >> 1, bool(data[0] & 1)
    if library != _SECURITY_TOKEN:
        return Federated(None, echo, None)
    end = 5 + int.from_bytes(data[1:5], "little")
    if len(data) not in (end, end + _NONCE):
        raise ProtocolError("LOGIN7 feature FEDAUTH has a token of another length than it says")
    return Federated(decode_ucs2(data[5:end]), echo, data[end:] or None)


def _features(data: bytes) -> Mapping[int, bytes]:
    """The FeatureExt block, data by id; the extension field holds the offset of the block's own offset."""
    pointer = _field(data, _EXTENSION_FIELD, 1)
    if len(pointer) < 4:
        raise ProtocolError("LOGIN7 announces a feature extension and has none")
    position = int.from_bytes(pointer[:4], "little")
    features: dict[int, bytes] = {}
    while position < len(data):
        feature = data[position]
        if feature == _FEATURE_END:
            return features
        if position + 5 > len(data):
            break
        end = position + 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        features[feature] = data[position + 5 : end]
        position = end
    raise ProtocolError("LOGIN7 feature extension without an end")
