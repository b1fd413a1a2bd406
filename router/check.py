"""`dstream check` of stage 2: the queue on the source's namespace, and the places at each output. No message is received or sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from common.bus.ports import QueueState
from common.bus.settings import EnvelopedOutputSettings
from common.buses import bus_of
from common.cel.filters import lacking
from common.check import BY_EDITING, Finding, by_shell, fail, guarded, ok, remarked, warn
from common.config.blocks import UNLABELLED
from common.errors import PermanentError
from common.names import TRANSACTIONS
from common.observability.check_port import port_findings
from router.connections import judge_connections
from router.outputs.registry import bus_behind, on_topics, output_of
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
    yield from _routes(settings)
    for name in settings.streams:
        yield from _output(settings, name)
    yield from _patterns(settings)
    yield from guarded("connections", lambda: _connections(settings))
    for name, streams in settings.streams.items():
        if (output := settings.all_outputs[name].enveloped) is None:
            continue
        subject = "envelope" if output.is_default else f"output {name}: envelope"
        if output.envelope == "changes" and TRANSACTIONS in (stream.table for stream in streams.values()):
            yield warn(subject, _NO_PLACE, _HAS_PLACE, fix=BY_EDITING)
        elif output.envelope != "dstream":
            yield ok(subject, _envelope(output))


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


def _routes(settings: RouterSettings) -> Iterator[Finding]:
    if any(route.when is not None for route in settings.route) and (why := lacking()) is not None:
        yield fail("routes", why, fix=by_shell("pip install 'dstream-cdc[routes]'"))


def _output(settings: RouterSettings, name: str) -> Iterator[Finding]:
    """Findings of the default output have its own subjects, those of others begin with the name."""
    if name == UNLABELLED:
        subject = "topics" if on_topics(settings.output) else "output"
        yield from guarded(subject, lambda: _places(settings, name))
        return
    own = f"output {name}"
    for found in guarded(own, lambda: _places(settings, name)):
        yield found if found.subject.startswith(own) else replace(found, subject=f"{own}: {found.subject}")


def _places(settings: RouterSettings, name: str) -> Iterator[Finding]:
    def ingest() -> QueueState | None:
        with closing(bus_of(settings.source)) as source:
            return source.entities.queue_state(settings.queue_name)

    around = replace(settings.around, ingest_queue=ingest)
    with closing(output_of(settings.all_outputs[name], around)) as output:
        yield from output.findings(list(settings.streams[name].values()), provision=settings.provision)


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
    """Those to namespaces of Service Bus: of the queue, and of the default output where it is one."""
    source = bus_of(settings.source)
    with closing(output_of(settings.output)) as made:
        output = bus_behind(made)
    most = (output or source).most_connections
    if most is None:
        return
    yield judge_connections(
        most,
        topics=0 if output is None else len(settings.streams[UNLABELLED]),
        most_open=MOST_OPEN,
        slots=settings.slots,
        parked=2 * parked_per_slot(routes=bool(settings.route)),
        workers=settings.workers,
        shared=output is None or source.host == output.host,
    )
