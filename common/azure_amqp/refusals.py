"""Refusals of a credential, a right or a name by Azure's AMQP services, in plain words and with a hint. Pure; knows no SDK.

The service's own words follow the plain ones: they hold the tracking id that Microsoft's support asks for.
https://learn.microsoft.com/azure/service-bus-messaging/service-bus-troubleshooting-guide
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Credential:
    """The refused key or identity, as the configuration names it. Never a secret. `service`: how the names of its roles begin."""

    name: str = "the key or identity"
    policy: bool = True
    identity: bool = True
    service: str = "Azure Service Bus"


UNKNOWN = Credential()


@dataclass(frozen=True, slots=True)
class Refusal:
    """`text`: a sentence without its full stop; `hint`: what a person must do."""

    text: str
    hint: str


_ROLES = {"Send": "Data Sender", "Listen": "Data Receiver", "Manage": "Data Owner"}

_CLAIMS = re.compile(r"([A-Z]\w+(?:,\s*[A-Z]\w+)*)'? claim(?:\(s\)|s|) (?:are |is |)required")
_RESOURCE = re.compile(r"Resource:? '(?:sb://[^/']+/)?([^']+)'")
_MISSING = re.compile(r"'(?:sb|amqps?)://([^/']+)/([^']+?)(?:/\$management)?' could not be found")

_KEY = re.compile(
    r"InvalidSignature|MalformedToken|\b40103\b|invalid (?:authorization token |)signature", re.IGNORECASE
)
_EXPIRED = re.compile(r"ExpiredToken|token (?:is|has) expired", re.IGNORECASE)
_AUDIENCE = re.compile(r"InvalidAudience|wrong audience", re.IGNORECASE)
_NO_KEYS = re.compile(r"LocalAuthDisabled|SAS authentication has been disabled", re.IGNORECASE)

_KEY_HINT = (
    "check the policy's name and key (SharedAccessKeyName and SharedAccessKey of the connection string) against the portal, Shared access policies "
    "of the namespace or entity: the key may have been regenerated, or belong to another namespace"
)
_EXPIRED_HINT = "set this machine's clock (NTP); if the connection string has a SharedAccessSignature, make a new one, as its time (se) is over"
_AUDIENCE_HINT = "a SharedAccessSignature or policy of one entity serves for that entity alone: use one of the namespace, and check the entity's name"
_NO_KEYS_HINT = (
    'use namespace = "NAME.servicebus.windows.net" instead of connection_string, with an identity that has the roles (docs/install.md), or allow '
    "local authentication in the namespace"
)


def read(words: str, who: Credential) -> Refusal | None:
    """What `words` of a refusal mean; None where they are not known, or an identity's token is refused as such."""
    if (claims := _CLAIMS.search(words)) is not None:
        return _right(claims[1], words, who)
    if _EXPIRED.search(words):
        return Refusal(f"{who.name} is refused: its token has expired", _EXPIRED_HINT)
    if _AUDIENCE.search(words):
        return Refusal(f"{who.name} is for another entity or namespace", _AUDIENCE_HINT)
    if _NO_KEYS.search(words):
        return Refusal(f"{who.name} is refused: the namespace takes no keys", _NO_KEYS_HINT)
    if _KEY.search(words) and who.policy:
        return Refusal(f"{who.name} is refused: wrong key, or no such policy", _KEY_HINT)
    return None


def missing(words: str) -> str:
    """The words for a missing entity."""
    found = _MISSING.search(words)
    return (
        f"queue or topic {found[2]} does not exist in namespace {found[1]}"
        if found
        else "the queue or topic does not exist"
    )


def _right(claims: str, words: str, who: Credential) -> Refusal:
    asked = [claim.strip() for claim in claims.split(",")]
    right = next((each for each in ("Manage", "Send", "Listen") if each in asked), asked[0])
    resource = _RESOURCE.search(words)
    on = f" on {resource[1]}" if resource else ""
    ways = []
    if who.policy:
        ways.append(
            f"give the policy the right {right}, or use one that has it (portal: Shared access policies of the namespace or entity)"
        )
    if who.identity:
        ways.append(
            f"give the identity the role {who.service} {_ROLES.get(right, _ROLES['Manage'])}{on or ' on the namespace'}; it takes minutes to hold"
        )
    return Refusal(f"{who.name} lacks the right {right}{on}", "; or ".join(ways))
