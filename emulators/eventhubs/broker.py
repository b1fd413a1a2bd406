"""One client's connection to the namespace: what each link it attaches leads to.

Addresses: `HUB` and `HUB/Partitions/N` to publish, `HUB/ConsumerGroups/GROUP/Partitions/N` to consume, `$management`, `$cbs`. Refuses every other
one, publisher endpoints included.
Sources: azure.github.io/amqpnetlite "Using AMQP.Net Lite with Azure Event Hubs", addressing; learn.microsoft.com "Azure Event Hubs quotas and
limits".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from emulators.servicebus.amqp.link import Link, filters_of
from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.links.claims import CBS, MAX_REQUEST, CbsEndpoint, Claims, Guarded
from emulators.servicebus.links.passage import Passage
from emulators.servicebus.links.requests import ResponseEndpoint
from emulators.servicebus.sas import AccessPolicies, InvalidToken, resource_path
from emulators.servicebus.throttle import CreditMeter

from .endpoints import Consumer, Management, Publisher
from .hub import Hub, Namespace
from .position import SELECTOR, position_of

MANAGEMENT: Final = "$management"
LARGEST: Final = 1 << 20
"""Octets of a publication, a batch included: those of every tier but Basic."""
_ADDRESS: Final = re.compile(r"(?P<hub>[^/$]+)(/consumergroups/(?P<group>[^/]+))?(/partitions/(?P<partition>[^/]+))?")


class HubBroker(Claims):
    """The `Application` of one connection. `largest`: octets of a publication."""

    def __init__(
        self,
        namespace: Namespace,
        policies: AccessPolicies,
        clock: Callable[[], float],
        faults: Faults,
        meter: CreditMeter,
        largest: int = LARGEST,
    ) -> None:
        super().__init__(policies, clock)
        self._namespace = namespace
        self._faults = faults
        self._meter = meter
        self._largest = largest

    def holds(self, path: str) -> bool:
        """Is there such a hub, and has it that consumer group? A path that is neither may have tokens: links decide."""
        found = _ADDRESS.fullmatch(path)
        if found is None:
            return True
        hub = self._namespace.hubs.get(found["hub"])
        return hub is not None and (found["group"] is None or found["group"] in hub.groups)

    def detach(self, path: str, failure: AmqpError) -> None:
        """Detach the links to a hub; its name in lower case, empty for all."""
        for guarded in list(self._guarded.values()):
            if path in ("", guarded.path.partition("/")[0]):
                guarded.detach(failure)

    def timer(self, link: Link) -> str | None:
        """Of `$cbs` none."""
        path = resource_path(link.address or "")
        if path == CBS:
            return None
        if path == MANAGEMENT:
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
        if path in (CBS, MANAGEMENT):
            asked = CbsEndpoint(self) if path == CBS else Management(self._namespace, self._authorize, self._passage)
            link.accept(ResponseEndpoint(link) if link.client_receives else asked, max_message_size=MAX_REQUEST)
            return
        found = _ADDRESS.fullmatch(path)
        if found is None or link.client_receives != (found["group"] is not None):
            raise AmqpError("amqp:not-found", f"The messaging entity '{path}' could not be found.")
        right = "Listen" if link.client_receives else "Send"
        self.require(path, right)
        hub = self._namespace.find(found["hub"])
        hub.require(right)
        if link.client_receives:
            self._consume(link, hub, path, found)
        else:
            self._publish(link, hub, path, found)

    def _publish(self, link: Link, hub: Hub, path: str, found: re.Match[str]) -> None:
        partition = None if found["partition"] is None else hub.partition(found["partition"])
        publisher = Publisher(self._namespace, hub, partition, self._passage(hub.name.lower()))
        publisher.on_detach = self._guard(link, hub, path, "Send")
        link.accept(publisher, max_message_size=self._largest)

    def _consume(self, link: Link, hub: Hub, path: str, found: re.Match[str]) -> None:
        if found["group"] not in hub.groups or found["partition"] is None:
            raise AmqpError("amqp:not-found", f"The messaging entity '{path}' could not be found.")
        partition = hub.partition(found["partition"])
        position = position_of(filters_of(link).get(SELECTOR))
        consumer = Consumer(link, partition, found["group"], position, self._passage(hub.name.lower()))
        partition.admit(found["group"], consumer)
        consumer.on_detach = self._guard(link, hub, path, "Listen")
        link.accept(consumer)

    def _passage(self, hub: str) -> Passage:
        return Passage(hub, self._faults, self._meter)

    def _guard(self, link: Link, hub: Hub, path: str, right: str) -> Callable[[], None]:
        """Detach the link when its hub is deleted or disabled, or its grant expires; returns how to stop that."""
        unwatch = hub.watch(right, link.close)
        self._guarded[link] = Guarded(path, right, link.close, self._passage(hub.name.lower()))

        def release() -> None:
            unwatch()
            self._guarded.pop(link, None)

        return release

    def _authorize(self, token: str, hub: str) -> None:
        """Any right on the hub will do. Raises AmqpError."""
        now = self._clock()
        try:
            grant = self._policies.verify(token, now)
        except InvalidToken as error:
            raise AmqpError("amqp:unauthorized-access", f"{error.code}: {error}.") from None
        if not grant.covers(hub, now):
            raise AmqpError("amqp:unauthorized-access", "InvalidAudience: the token is for another entity.")
