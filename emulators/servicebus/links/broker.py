"""One client's connection to the namespace: its tokens, and what each link it attaches leads to.

No link to an entity without the right to it: granted by a token put to `$cbs` or by SASL PLAIN with a policy's key; who has none
is not told whether the entity exists. A link whose grant expires is detached. Transactions (a link to a coordinator) are refused by name.
Sources: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: protocol guide", "Claims-based security"; AMQP CBS draft.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from emulators.servicebus.amqp.link import Link, filters_of
from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.entities.admission import require_enabled
from emulators.servicebus.entities.entry import Detach
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.node import Node
from emulators.servicebus.entities.subscription import Subscription
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.sas import AccessPolicies, Grant, InvalidToken, WrongAudience, resource_path
from emulators.servicebus.store.competing import CompetingStore
from emulators.servicebus.store.sessions import SessionStore
from emulators.servicebus.throttle import CreditMeter

from .endpoints import SESSION_FILTER, ReceiveEndpoint, SendEndpoint, SessionEndpoint
from .management_link import MeteredManagement
from .passage import Passage
from .requests import Request, RequestEndpoint, Response, ResponseEndpoint, text

CBS: Final = "$cbs"
MANAGEMENT: Final = "/$management"
MAX_REQUEST: Final = 1 << 20


class _Guarded(NamedTuple):
    """A link to an entity: what it needs, and how it ends."""

    path: str
    right: str
    detach: Detach
    passage: Passage


class ClientBroker:
    """The `Application` of one connection."""

    def __init__(
        self,
        namespace: Namespace,
        policies: AccessPolicies,
        clock: Callable[[], float],
        faults: Faults | None = None,
        meter: CreditMeter | None = None,
    ) -> None:
        self._namespace = namespace
        self._faults = faults or Faults()
        self._meter = meter or CreditMeter(None, clock)
        self._policies = policies
        self._clock = clock
        self._grants: dict[str, Grant] = {}
        self._guarded: dict[Link, _Guarded] = {}

    # -- rights

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
        if audience is not None and not self._namespace.holds(resource_path(audience).removesuffix(MANAGEMENT)):
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

    def _require(self, path: str, *rights: str) -> None:
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

    # -- links

    def timer(self, link: Link) -> str | None:
        """Of `$cbs` none: its links keep no connection (Azure/azure-service-bus-java issue 142)."""
        path = resource_path(link.address or "")
        if path == CBS:
            return None
        if path.endswith(MANAGEMENT):
            return "AmqpControlProtocolClient"
        return "AmqpMessageConsumer" if link.client_receives else "AmqpMessagePublisher"

    def attach(self, link: Link) -> None:
        """Lead the link to its node or refuse it."""
        try:
            self._attach(link)
        except AmqpError as failure:
            link.refuse(failure)

    def _attach(self, link: Link) -> None:
        if link.address is None:
            raise AmqpError("amqp:invalid-field", "The link names no address.")
        path = resource_path(link.address)
        if path == CBS:
            link.accept(
                ResponseEndpoint(link) if link.client_receives else CbsEndpoint(self), max_message_size=MAX_REQUEST
            )
        elif path.endswith(MANAGEMENT):
            self._attach_management(link, path.removesuffix(MANAGEMENT))
        elif link.client_receives:
            self._attach_receiver(link, path)
        else:
            self._attach_sender(link, path)

    def _attach_management(self, link: Link, path: str) -> None:
        self._require(path, "Listen", "Send")
        self._namespace.find(path)
        if link.client_receives:
            link.accept(ResponseEndpoint(link), max_message_size=MAX_REQUEST)
            return
        endpoint = MeteredManagement(
            path,
            lambda: self._namespace.find(path),
            self._namespace.now,
            lambda right: self.permitted(path, right),
            self._faults,
            self._meter,
        )
        link.accept(endpoint, max_message_size=MAX_REQUEST)

    def _attach_sender(self, link: Link, path: str) -> None:
        self._require(path, "Send")
        node = self._namespace.find(path)
        entity = node.entity
        if isinstance(entity, Subscription) or node.dead_letters:
            raise AmqpError("amqp:not-allowed", f"'{path}' cannot be sent to.")
        require_enabled(entity.path, entity.description.status, ("SendDisabled",))
        passage = Passage(path, self._faults, self._meter)
        endpoint = SendEndpoint(entity, self._namespace.now, passage)
        endpoint.on_detach = self._guard(link, node, _Guarded(path, "Send", link.close, passage))
        link.accept(endpoint, max_message_size=entity.max_message_size)

    def _attach_receiver(self, link: Link, path: str) -> None:
        self._require(path, "Listen")
        node = self._namespace.find(path)
        entity, store = node.entity, node.store
        if isinstance(entity, Topic):
            raise AmqpError("amqp:not-allowed", f"'{path}' is a topic: receive from its subscriptions.")
        node.require_receivable()
        wants_session = SESSION_FILTER in filters_of(link)
        passage = Passage(path, self._faults, self._meter)
        if isinstance(store, SessionStore):
            if not wants_session:
                text = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
                raise AmqpError("amqp:not-allowed", text)
            session = SessionEndpoint(link, store, self._namespace.now, passage)
            session.on_detach = self._guard(link, node, _Guarded(path, "Listen", session.detach, passage))
            session.request()
        elif isinstance(store, CompetingStore):
            if wants_session:
                text = "A sessionful message receiver cannot be created on an entity that does not require sessions."
                raise AmqpError("amqp:not-allowed", text)
            receiver = ReceiveEndpoint(link, store, self._namespace.now, passage)
            receiver.on_detach = self._guard(link, node, _Guarded(path, "Listen", receiver.detach, passage))
            link.accept(receiver)

    def _guard(self, link: Link, node: Node, guarded: _Guarded) -> Callable[[], None]:
        """Detach the link when its entity is deleted or its grant expires; returns how to stop that."""
        unwatch = self._namespace.watch(node, guarded.right, guarded.detach)
        self._guarded[link] = guarded

        def release() -> None:
            unwatch()
            self._guarded.pop(link, None)

        return release


def _unauthorized(path: str, *rights: str) -> str:
    text = f"Unauthorized access. '{' or '.join(rights)}' claim(s) are required to perform this operation."
    return f"{text} Resource: '{path}'."


class CbsEndpoint(RequestEndpoint):
    """`$cbs`: tokens put for the connection."""

    status_name = "status-code"
    description_name = "status-description"

    def __init__(self, broker: ClientBroker) -> None:
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
