"""`dstream check` of stage 2: the queue on the source's namespace and the topics on the output's. No message is received or sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from common.bus.settings import EnvelopedOutputSettings
from common.buses import bus_of
from common.check import BY_EDITING, Finding, guarded, ok, remarked, warn
from common.errors import PermanentError
from common.names import TRANSACTIONS
from common.observability.check_port import port_findings
from router.connections import judge_connections
from router.publishing.publishers import MOST_OPEN
from router.receiving.parking import parked_per_slot
from router.settings import CREATE_OR_REMOVE, CREATES_NOTHING, RouterSettings

_NO_PLACE = "the topics get changes as changes, which does not say where a change stands in its transaction (transactions = true)"
_HAS_PLACE = 'choose envelope = "dstream", "cloudevents" or "debezium", or remove transactions'
_SEND = "give the router's policy the Send right on the queue too: with queue.pack above 1 it sends such a change to the queue by itself"


def findings(settings: RouterSettings) -> Iterator[Finding]:
    """The findings, each as soon as it is there. Raises ConfigurationError."""
    yield from remarked(settings.remarks)
    for setting in settings.creating_nothing:
        yield warn(setting, CREATES_NOTHING, CREATE_OR_REMOVE, fix=BY_EDITING)
    yield from guarded("health", lambda: port_findings(settings.health))
    yield from guarded(f"queue {settings.queue_name}", lambda: _queue(settings))
    yield from guarded("topics", lambda: _topics(settings))
    yield from _patterns(settings)
    yield from guarded("connections", lambda: _connections(settings))
    if (output := settings.output.enveloped) is None:
        return
    if output.envelope == "changes" and TRANSACTIONS in settings.topics.values():
        yield warn("envelope", _NO_PLACE, _HAS_PLACE, fix=BY_EDITING)
    elif output.envelope != "dstream":
        yield ok("envelope", _envelope(output))


def _envelope(output: EnvelopedOutputSettings) -> str:
    more = f" ({output.cloudevents_mode})" if output.envelope == "cloudevents" else ""
    more += ", with tombstones" if output.envelope == "debezium" and output.tombstones else ""
    return f"the topics get changes as {output.envelope}{more}"


def _queue(settings: RouterSettings) -> Iterator[Finding]:
    with closing(bus_of(settings.source)) as bus:
        yield from bus.entities.queue_findings(
            settings.queue_name, sessions=settings.ordering != "none", provision=settings.provision, sends=False
        )
        if settings.most_packed > 1 and isinstance(
            trouble := bus.entities.trouble_sending(settings.queue_name), PermanentError
        ):
            text = f"a poison change in a pack cannot be taken out of it: {trouble.message}"
            yield warn(
                f"queue {settings.queue_name}, to send again",
                text,
                _SEND,
                fix=bus.entities.fix_of_sending(settings.queue_name, trouble),
            )


def _topics(settings: RouterSettings) -> Iterator[Finding]:
    with closing(bus_of(settings.source)) as source:
        queue = source.entities.queue_state(settings.queue_name)
    with closing(bus_of(settings.output)) as bus:
        yield from bus.entities.topic_findings(
            list(settings.topics),
            subscriptions=settings.subscriptions,
            provision=settings.provision,
            queue=queue,
        )


def _patterns(settings: RouterSettings) -> Iterator[Finding]:
    """Which tables there are is not known here."""
    if not settings.selection.patterns:
        return
    how = {
        "create": "is created at the first change for it",
        "verify": 'must exist before the first change for it, which waits otherwise (provision = "verify")',
        "none": 'must exist before the first change for it, which waits otherwise (provision = "none")',
    }[settings.provision]
    yield ok("patterns", f"the topic of each further table that matches ({settings.selection.wanted}) {how}")


def _connections(settings: RouterSettings) -> Iterator[Finding]:
    source, output = bus_of(settings.source), bus_of(settings.output)
    if output.most_connections is None:
        return
    yield judge_connections(
        output.most_connections,
        topics=len(settings.topics),
        most_open=MOST_OPEN,
        slots=settings.slots,
        parked=2 * parked_per_slot(routes=bool(settings.route)),
        workers=settings.workers,
        shared=source.host == output.host,
    )
