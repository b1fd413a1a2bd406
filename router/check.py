"""`dstream check` of stage 2: the queue on the source's namespace and the topics on the output's. No message is received or sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from common.check import Finding, guarded, warn
from common.errors import PermanentError
from common.observability.check_port import port_findings
from common.servicebus.check import queue_findings, queue_seen, topic_findings, trouble_sending
from common.servicebus.check_connections import judge_connections
from common.servicebus.namespace import ServiceBus
from router.publishing.publishers import MOST_OPEN
from router.receiving.parking import PARKED_PER_SLOT
from router.settings import CREATE_OR_REMOVE, CREATES_NOTHING, RouterSettings

_SEND = "give the router's policy the Send right on the queue too: with queue.pack above 1 it sends such a change to the queue by itself"


def findings(settings: RouterSettings) -> Iterator[Finding]:
    """The findings, each as soon as it is there. Raises ConfigurationError."""
    for setting in settings.creating_nothing:
        yield warn(setting, CREATES_NOTHING, CREATE_OR_REMOVE)
    yield from guarded("health", lambda: port_findings(settings.health))
    yield from guarded(f"queue {settings.queue_name}", lambda: _queue(settings))
    yield from guarded("topics", lambda: _topics(settings))
    yield from guarded("connections", lambda: [_connections(settings)])


def _queue(settings: RouterSettings) -> Iterator[Finding]:
    with closing(ServiceBus.of(settings.source)) as bus:
        yield from queue_findings(
            bus,
            settings.queue_name,
            sessions=settings.ordering != "none",
            provision=settings.provision,
            management_endpoint=settings.source.management_endpoint,
            sends=False,
        )
        if settings.most_packed > 1 and isinstance(
            trouble := trouble_sending(bus, settings.queue_name), PermanentError
        ):
            text = f"a poison change in a pack cannot be taken out of it: {trouble.message}"
            yield warn(f"queue {settings.queue_name}, to send again", text, _SEND)


def _topics(settings: RouterSettings) -> Iterator[Finding]:
    with closing(ServiceBus.of(settings.source)) as source:
        queue = queue_seen(source, settings.queue_name, settings.source.management_endpoint)
    with closing(ServiceBus.of(settings.output)) as bus:
        yield from topic_findings(
            bus,
            list(settings.destinations),
            subscriptions=settings.subscriptions,
            provision=settings.provision,
            management_endpoint=settings.output.management_endpoint,
            queue=queue,
        )


def _connections(settings: RouterSettings) -> Finding:
    source, output = ServiceBus.of(settings.source), ServiceBus.of(settings.output)
    return judge_connections(
        topics=len(settings.destinations),
        most_open=MOST_OPEN,
        sessions=settings.sessions,
        parked=2 * PARKED_PER_SLOT,
        workers=settings.workers,
        shared=source.address.host == output.address.host,
    )
