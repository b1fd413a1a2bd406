"""Shared access signatures: is a token good, for what, with which rights?

The signature is really checked: HMAC-SHA256, with the key of the named policy, over the resource as it stands in the token
and the expiry. Policies are the namespace's; a token may be for less, an entity or a prefix of entities' paths. Its host is not asked,
since an emulator has as many names as ways to it. Refuses JSON web tokens by name (docs/decisions/0006-servicebus-access.md); what a
client calls its token says nothing, azure-servicebus calls its signatures "jwt".
Source: learn.microsoft.com "Service Bus access control with Shared Access Signatures".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote_plus

ALL_RIGHTS: Final = frozenset(("Listen", "Send", "Manage"))
_SCHEME: Final = "SharedAccessSignature "
_CLAIMS: Final = ("sr", "sig", "se", "skn")
_JSON_WEB_TOKEN: Final = re.compile(r"(?:Bearer\s+)?[\w-]+\.[\w-]+\.[\w-]*")
_SECONDS: Final = re.compile(r"[0-9]{1,11}")
"""Until the year 5138; what `datetime` and a double can hold."""


class InvalidToken(Exception):
    """A token that grants nothing; the text says why, `code` is what the service begins its own with."""

    code = "InvalidSignature"


class ExpiredToken(InvalidToken):
    """A token of the past."""

    code = "ExpiredToken"


class WrongAudience(InvalidToken):
    """A token that does not cover what the client says that it is for."""

    code = "InvalidAudience"


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
        if not _SECONDS.fullmatch(claims["se"]):
            raise InvalidToken("the token's expiry is no time in seconds")
        expires_at = float(claims["se"])
        if expires_at <= now:
            when = datetime.fromtimestamp(expires_at, UTC)
            raise ExpiredToken(f"the token is expired. Expiration time: '{when:%Y-%m-%d %H:%M:%S}Z'")
        return Grant(resource_path(unquote_plus(claims["sr"])), self.rights(name), expires_at)


def resource_path(address: str) -> str:
    """The entity's path, in lower case, of a URI or a bare path. A query says nothing: JavaScript's client signs its requests' URLs whole."""
    address = address.partition("?")[0]
    if "://" in address:
        address = address.partition("://")[2].partition("/")[2]
    return address.strip("/").lower()


def _claims(token: str) -> dict[str, str]:
    if _JSON_WEB_TOKEN.fullmatch(token):
        raise InvalidToken(
            "JSON web tokens (Microsoft Entra ID, managed identities) are not supported by the emulator:"
            " use a connection string, or AzureNamedKeyCredential with a policy's name and key"
        )
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
