"""Signing in with an NKey or a credentials file: the server's nonce, signed with the user's Ed25519 seed. Pure.

https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth; the encoding is that of github.com/nats-io/nkeys:
base32 of prefix, key and CRC-16.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_SEED, _USER = 18 << 3, 20 << 3
_JWT = re.compile(r"-----BEGIN NATS USER JWT-----\s*(\S+)\s*-+END NATS USER JWT-+")
_KEY = re.compile(r"-----BEGIN USER NKEY SEED-----\s*(\S+)\s*-+END USER NKEY SEED-+")


@dataclass(frozen=True, slots=True)
class Signer:
    """`public`: the user's NKey, `U...`. `jwt`: None where the server knows the key itself."""

    public: str
    jwt: str | None
    _key: Ed25519PrivateKey = field(repr=False)

    def sign(self, nonce: str) -> bytes:
        """In base64."""
        return base64.b64encode(self._key.sign(nonce.encode()))


def of_seed(seed: str, jwt: str | None = None) -> Signer:
    """Raises ValueError, without the text."""
    key = Ed25519PrivateKey.from_private_bytes(seed_of(seed))
    public = bytes([_USER]) + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    with_sum = public + struct.pack("<H", binascii.crc_hqx(public, 0))
    return Signer(base64.b32encode(with_sum).rstrip(b"=").decode("ascii"), jwt, key)


def of_credentials(text: str) -> Signer:
    """The content of a `.creds` file. Raises ValueError, without the text."""
    jwt, key = _JWT.search(text), _KEY.search(text)
    if jwt is None or key is None:
        raise ValueError(
            "is not the content of a credentials file: it needs a user's JWT and seed, with their BEGIN and END lines"
        )
    return of_seed(key[1], jwt[1])


def seed_of(text: str) -> bytes:
    """The 32 bytes of `SU...`. Raises ValueError, without the text."""
    try:
        raw = base64.b32decode(text.strip() + "=" * (-len(text.strip()) % 8))
    except binascii.Error:
        raw = b""
    if len(raw) != 36 or struct.pack("<H", binascii.crc_hqx(raw[:-2], 0)) != raw[-2:]:
        raise ValueError("is not the seed of an NKey: it begins with SU and has 58 characters")
    if raw[0] & 0xF8 != _SEED or (raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3 != _USER:
        raise ValueError("is not the seed of a user: that begins with SU")
    return raw[2:34]
