"""Shared access signatures: is a token good, for what, with which rights?

The signature is really checked: HMAC-SHA256, with the key of the named policy, over the resource as it stands in the token
and the expiry. Refuses JSON web tokens: the emulator has no identity provider.
Source: learn.microsoft.com "Service Bus access control with Shared Access Signatures".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

ALL_RIGHTS: Final = frozenset(("Listen", "Send", "Manage"))
_SCHEME: Final = "SharedAccessSignature "
_CLAIMS: Final = ("sr", "sig", "se", "skn")


class InvalidToken(Exception):
    """A token that grants nothing; the text says why."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights on everything under a path, until a moment (seconds since the Unix epoch)."""

    path: str
    rights: frozenset[str]
    expires_at: float

    def covers(self, path: str, now: float) -> bool:
        """Does it hold for the entity now? Paths in lower case."""
        return now < self.expires_at and (not self.path or path == self.path or path.startswith(self.path + "/"))


class AccessPolicies:
    """Keys by policy name, and what each policy may do; a policy without a word may do everything. Manage implies all."""

    def __init__(self, keys: Mapping[str, str], rights: Mapping[str, Collection[str]] | None = None) -> None:
        self._keys = dict(keys)
        self._rights = {name: _checked(name, granted) for name, granted in (rights or {}).items()}

    def rights(self, name: str) -> frozenset[str]:
        """What a policy may do."""
        return self._rights.get(name, ALL_RIGHTS)

    def is_key(self, name: str, key: str) -> bool:
        """Is this the policy's key?"""
        return name in self._keys and hmac.compare_digest(self._keys[name].encode(), key.encode())

    def verify(self, token: str, now: float) -> Grant:
        """Raises InvalidToken."""
        claims = _claims(token)
        name = unquote_plus(claims["skn"])
        key = self._keys.get(name)
        if key is None:
            raise InvalidToken(f"there is no policy '{name}'")
        signed = f"{claims['sr']}\n{claims['se']}".encode()
        expected = base64.b64encode(hmac.new(key.encode(), signed, hashlib.sha256).digest())
        if not hmac.compare_digest(expected, unquote_plus(claims["sig"]).encode()):
            raise InvalidToken("the token has an invalid signature")
        try:
            expires_at = float(int(claims["se"]))
        except ValueError:
            raise InvalidToken("the token's expiry is no number") from None
        if expires_at <= now:
            raise InvalidToken("the token is expired")
        return Grant(resource_path(unquote_plus(claims["sr"])), self.rights(name), expires_at)


def resource_path(address: str) -> str:
    """The entity's path, in lower case, of a URI or a bare path."""
    if "://" in address:
        address = address.partition("://")[2].partition("/")[2]
    return address.strip("/").lower()


def _claims(token: str) -> dict[str, str]:
    if not token.startswith(_SCHEME):
        raise InvalidToken("only shared access signatures are supported")
    claims = dict(part.partition("=")[::2] for part in token.removeprefix(_SCHEME).split("&"))
    for name in _CLAIMS:
        if not claims.get(name):
            raise InvalidToken(f"the token has no '{name}'")
    return claims


def _checked(name: str, granted: Collection[str]) -> frozenset[str]:
    rights = frozenset(granted)
    if not rights <= ALL_RIGHTS:
        raise ValueError(f"policy '{name}': rights are {sorted(ALL_RIGHTS)}, not {sorted(rights)}")
    return ALL_RIGHTS if "Manage" in rights else rights
