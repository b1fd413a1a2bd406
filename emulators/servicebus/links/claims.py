"""One client's rights: the tokens it has put, what they grant, and the links that end with them. The same for every AMQP service of Azure.

No link to an entity without the right to it: granted by a token put to `$cbs` or by SASL PLAIN with a policy's key; who has none
is not told whether the entity exists. A link whose grant expires is detached.
Sources: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: protocol guide", "Claims-based security"; AMQP CBS draft.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from emulators.servicebus.amqp.link import Link
from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.entities.entry import Detach
from emulators.servicebus.sas import AccessPolicies, Grant, InvalidToken, WrongAudience, resource_path

from .passage import Passage
from .requests import Request, RequestEndpoint, Response, text

CBS: Final = "$cbs"
MANAGEMENT: Final = "/$management"
MAX_REQUEST: Final = 1 << 20


class Guarded(NamedTuple):
    """A link to an entity: what it needs, and how it ends."""

    path: str
    right: str
    detach: Detach
    passage: Passage


class Claims(ABC):
    """The rights of one connection, and its links that need them."""

    def __init__(self, policies: AccessPolicies, clock: Callable[[], float]) -> None:
        self._policies = policies
        self._clock = clock
        self._grants: dict[str, Grant] = {}
        self._guarded: dict[Link, Guarded] = {}

    @abstractmethod
    def holds(self, path: str) -> bool:
        """May there be tokens for this path? In lower case."""

    def authenticate(self, key_name: str, key: str) -> bool:
        """SASL PLAIN: the policy's rights on everything, as long as the connection lives."""
        if not self._policies.is_key(key_name, key):
            return False
        self._grants[""] = Grant("", self._policies.rights(key_name), math.inf)
        return True

    def put_token(self, token: str, audience: str | None = None) -> None:
        """`audience`: the URI of what the token is for, as the client says. Raises InvalidToken, WrongAudience, and AmqpError
        amqp:not-found for a queue or topic that is not there: who may ask is told so before any link, but of a subscription
        by its link alone (Azure/azure-service-bus issue 451; MicrosoftDocs/azure-docs issue 73870).

        The stated type is not asked: azure-servicebus calls its signatures "jwt".
        """
        now = self._clock()
        grant = self._policies.verify(token, now)
        if audience is not None and not grant.covers(resource_path(audience), now):
            raise WrongAudience("the authorization header contains a token with a wrong audience")
        if audience is not None and not self.holds(resource_path(audience).removesuffix(MANAGEMENT)):
            raise AmqpError("amqp:not-found", f"The messaging entity '{audience}' could not be found.")
        self._grants[grant.path] = grant

    def permitted(self, path: str, right: str) -> bool:
        """May this connection do that to the entity now? Path in lower case.

        A grant on the entity's management node is one on the entity: JavaScript's rule manager asks for no other.
        """
        now = self._clock()
        return any(
            right in grant.rights and (grant.covers(path, now) or grant.covers(path + MANAGEMENT, now))
            for grant in self._grants.values()
        )

    def require(self, path: str, *rights: str) -> None:
        if not any(self.permitted(path, right) for right in rights):
            raise AmqpError("amqp:unauthorized-access", _unauthorized(path, *rights))

    def tick(self) -> None:
        """Detach links whose grant has expired, deliver to those that waited for credits."""
        for link, guarded in list(self._guarded.items()):
            if not self.permitted(guarded.path, guarded.right):
                details = f"Code: RenewToken. Details: {_unauthorized(guarded.path, guarded.right)}"
                text = f"The link '{link.name}' is force detached. {details}"
                guarded.detach(AmqpError("amqp:link:detach-forced", text))
            elif guarded.passage.reopened():
                link.resume()

    def detach(self, path: str, failure: AmqpError) -> None:
        """Detach the links to an entity; the path in lower case, empty for all."""
        for guarded in list(self._guarded.values()):
            if path in ("", guarded.path):
                guarded.detach(failure)


def _unauthorized(path: str, *rights: str) -> str:
    text = f"Unauthorized access. '{' or '.join(rights)}' claim(s) are required to perform this operation."
    return f"{text} Resource: '{path}'."


class CbsEndpoint(RequestEndpoint):
    """`$cbs`: tokens put for the connection."""

    status_name = "status-code"
    description_name = "status-description"

    def __init__(self, broker: Claims) -> None:
        self._broker = broker

    def refusal(self, failure: AmqpError) -> Response:
        """404 of an entity that is not there; else 400: the request, not the token, is wrong."""
        return Response(404 if failure.condition == "amqp:not-found" else 400, failure.description)

    def handle(self, link: Link, request: Request) -> Response:
        """put-token; 202 or 401. Raises AmqpError for any other operation, or an entity that is not there."""
        operation = text(request.properties.get("operation"))
        if operation != "put-token":
            raise AmqpError("amqp:not-implemented", f"Operation '{operation}' is not supported.")
        name = request.properties.get("name")
        try:
            self._broker.put_token(text(request.body), None if name is None else text(name))
        except InvalidToken as error:
            reason = str(error)
            return Response(401, f"{error.code}: {reason[:1].upper()}{reason[1:]}.")
        return Response(202, "Accepted")
