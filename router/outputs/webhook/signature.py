"""The signature of a request, as Standard Webhooks 1.0 describes it: HMAC-SHA256 over id, time and body. Pure.

https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def key_of(secret: str) -> bytes:
    """The bytes of `whsec_...`. Raises ValueError, without the text."""
    text = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text, validate=True) if text != secret else b""
    except binascii.Error:
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise ValueError(
            f"must be {_PREFIX} and {_SHORTEST} to {_LONGEST} bytes in base64: printf '{_PREFIX}%s' \"$(openssl rand -base64 32)\" makes one"
        )
    return key


def signed(keys: Iterable[bytes], message_id: str, seconds: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: one signature a key. `seconds`: Unix time."""
    content = f"{message_id}.{seconds}.".encode("ascii") + body
    signatures = (hmac.new(key, content, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(each).decode('ascii')}" for each in signatures)
