"""`dstream check` of stage 2: the queue on the source's namespace and the topics on the output's. No message is received or sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from common.check import Finding, guarded
from common.check_entities import queue_findings, queue_seen, topic_findings
from common.check_port import port_findings
from common.servicebus import ServiceBus
from router.settings import RouterSettings


def findings(settings: RouterSettings) -> Iterator[Finding]:
    """One after the other, as they come. Raises ConfigurationError."""
    yield from guarded("health", lambda: port_findings(settings.health))
    yield from guarded(f"queue {settings.queue_name}", lambda: _queue(settings))
    yield from guarded("topics", lambda: _topics(settings))


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
