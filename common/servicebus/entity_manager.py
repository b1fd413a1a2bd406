"""The management API behind the port `EntityManager`: provisions, measures and checks. Each call is one conversation."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing

from common.bus.depths import Depth, TopicDepths
from common.bus.ports import Need, Provision, QueueState, Storage
from common.check import Finding, Fix
from common.errors import DStreamError
from common.servicebus import check
from common.servicebus.entities import Entities
from common.servicebus.operating.depths import Depths
from common.servicebus.provision import provision
from common.servicebus.remedies.az import entity_of, granted, subscribed


class ServiceBusEntityManager:
    """Of one namespace. `endpoint`: the management API's address; None: the namespace's own."""

    def __init__(self, bus: check.Namespace, endpoint: str | None) -> None:
        self._bus = bus
        self._endpoint = endpoint

    def provision(
        self, needs: Sequence[Need], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        return provision(self._bus.address, needs, how=how, management_endpoint=self._endpoint, stop=stop)

    def marked(self, mark: str, *, stop: threading.Event | None = None) -> Collection[str]:
        with closing(Entities(self._bus.address, self._endpoint, stop=stop)) as entities:
            return entities.marked(mark)

    def queue_storage(self, name: str, *, stop: threading.Event | None = None) -> Storage | None:
        with closing(Entities(self._bus.address, self._endpoint, stop=stop)) as entities:
            return entities.queue_storage(name)

    def topics_storage(self, names: Sequence[str], *, stop: threading.Event | None = None) -> Mapping[str, Storage]:
        with closing(Entities(self._bus.address, self._endpoint, stop=stop)) as entities:
            return entities.topics_storage(names)

    def queue_state(self, name: str) -> QueueState | None:
        return check.queue_seen(self._bus, name, self._endpoint)

    def queue_findings(
        self, name: str, *, sessions: bool, provision: Provision, sends: bool, used: bool = False
    ) -> Iterator[Finding]:
        return check.queue_findings(
            self._bus,
            name,
            sessions=sessions,
            provision=provision,
            management_endpoint=self._endpoint,
            sends=sends,
            used=used,
        )

    def topic_findings(
        self, names: Sequence[str], *, subscriptions: Sequence[str], provision: Provision, queue: QueueState | None
    ) -> Iterator[Finding]:
        return check.topic_findings(
            self._bus,
            names,
            subscriptions=subscriptions,
            provision=provision,
            management_endpoint=self._endpoint,
            queue=queue,
        )

    def queue_depth(self, name: str, *, stop: threading.Event | None = None) -> Depth | None:
        with closing(Depths(self._bus.address, self._endpoint, stop=stop)) as depths:
            return depths.queue(name)

    def topic_depths(
        self, names: Sequence[str], *, fewest: int = 0, stop: threading.Event | None = None
    ) -> TopicDepths:
        with closing(Depths(self._bus.address, self._endpoint, stop=stop)) as depths:
            return depths.topics(names, fewest=fewest)

    def fix_of_subscription(self, topic: str, name: str) -> Fix:
        return subscribed(entity_of(self._bus.address, "topic", topic), name)

    def trouble_sending(self, name: str) -> DStreamError | None:
        return check.trouble_sending(self._bus, name)

    def fix_of_sending(self, name: str, trouble: DStreamError) -> Fix:
        return granted(entity_of(self._bus.address, "queue", name), trouble)
