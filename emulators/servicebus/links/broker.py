"""One client's connection to the namespace: what each link it attaches leads to.

No link to an entity without the right to it (`claims.py`). Transactions (a link to a coordinator) and selectors of JMS
are refused by name.
Source: learn.microsoft.com "AMQP 1.0 in Azure Service Bus: protocol guide".
"""

from __future__ import annotations

from collections.abc import Callable

from emulators.servicebus.amqp.link import Link, filters_of, selectors_of
from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.entities.admission import require_enabled
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.node import Node
from emulators.servicebus.entities.subscription import Subscription
from emulators.servicebus.entities.topic import Topic
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.sas import AccessPolicies, resource_path
from emulators.servicebus.store.competing import CompetingStore
from emulators.servicebus.store.sessions import SessionStore
from emulators.servicebus.throttle import CreditMeter

from .claims import CBS, MANAGEMENT, MAX_REQUEST, CbsEndpoint, Claims, Guarded
from .endpoints import SESSION_FILTER, ReceiveEndpoint, SendEndpoint, SessionEndpoint
from .management_link import MeteredManagement
from .passage import Passage
from .requests import ResponseEndpoint


class ClientBroker(Claims):
    """The `Application` of one connection."""

    def __init__(
        self,
        namespace: Namespace,
        policies: AccessPolicies,
        clock: Callable[[], float],
        faults: Faults | None = None,
        meter: CreditMeter | None = None,
    ) -> None:
        super().__init__(policies, clock)
        self._namespace = namespace
        self._faults = faults or Faults()
        self._meter = meter or CreditMeter(None, clock)

    def holds(self, path: str) -> bool:
        """Is there such an entity, or may it have tokens although it is none?"""
        return self._namespace.holds(path)

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
        self.require(path, "Listen", "Send")
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
        self.require(path, "Send")
        node = self._namespace.find(path)
        entity = node.entity
        if isinstance(entity, Subscription) or node.dead_letters:
            raise AmqpError("amqp:not-allowed", f"'{path}' cannot be sent to.")
        require_enabled(entity.path, entity.description.status, ("SendDisabled",))
        passage = Passage(path, self._faults, self._meter)
        endpoint = SendEndpoint(entity, self._namespace.now, passage)
        endpoint.on_detach = self._guard(link, node, Guarded(path, "Send", link.close, passage))
        link.accept(endpoint, max_message_size=entity.max_message_size)

    def _attach_receiver(self, link: Link, path: str) -> None:
        self.require(path, "Listen")
        node = self._namespace.find(path)
        entity, store = node.entity, node.store
        if isinstance(entity, Topic):
            raise AmqpError("amqp:not-allowed", f"'{path}' is a topic: receive from its subscriptions.")
        node.require_receivable()
        if selectors_of(link):
            text = "Message selectors are not supported: create a subscription with a rule instead."
            raise AmqpError("amqp:not-implemented", text)
        wants_session = SESSION_FILTER in filters_of(link)
        passage = Passage(path, self._faults, self._meter)
        if isinstance(store, SessionStore):
            if not wants_session:
                text = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
                raise AmqpError("amqp:not-allowed", text)
            session = SessionEndpoint(link, store, self._namespace.now, passage)
            session.on_detach = self._guard(link, node, Guarded(path, "Listen", session.detach, passage))
            session.request()
        elif isinstance(store, CompetingStore):
            if wants_session:
                text = "A sessionful message receiver cannot be created on an entity that does not require sessions."
                raise AmqpError("amqp:not-allowed", text)
            receiver = ReceiveEndpoint(link, store, self._namespace.now, passage)
            receiver.on_detach = self._guard(link, node, Guarded(path, "Listen", receiver.detach, passage))
            link.accept(receiver)

    def _guard(self, link: Link, node: Node, guarded: Guarded) -> Callable[[], None]:
        """Detach the link when its entity is deleted or its grant expires; returns how to stop that."""
        unwatch = self._namespace.watch(node, guarded.right, guarded.detach)
        self._guarded[link] = guarded

        def release() -> None:
            unwatch()
            self._guarded.pop(link, None)

        return release
