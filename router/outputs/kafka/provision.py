"""The topics of an output: created, checked or left alone at a start, and what `dstream check` says of them. Never changes a topic that exists."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import structlog
from confluent_kafka.admin import NewTopic

from common.bus.ports import Provision
from common.check import Finding, by_hand, by_shell, fail, ok, warn
from common.errors import DStreamError, PermanentError, TransientError
from router.outputs.kafka.admin import Admin, TopicFacts
from router.outputs.kafka.errors import MISSING, NO_RIGHT, Fault, of_topic
from router.outputs.kafka.plan import acl_command, create_command
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.port import Stream

AT_ONCE: Final = 100
"""Topics in one request."""

_SEEN: Final = 10.0
"""Seconds for a topic that was created to be seen by the broker that is asked."""

_LATER: Final = frozenset(
    {
        "THROTTLING_QUOTA_EXCEEDED",
        "REQUEST_TIMED_OUT",
        "_TIMED_OUT",
        "_TRANSPORT",
        "NOT_CONTROLLER",
        "COORDINATOR_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "UNKNOWN_SERVER_ERROR",
        "INVALID_REPLICATION_FACTOR",
    }
)
"""Topics could not be created now. A replication factor is invalid as long as too few brokers are up."""

_LEAST: Final = 262_144
"""Bytes of the largest message that a queue of Service Bus takes on Standard."""

log = structlog.get_logger(__name__)


def provision(
    admin: Admin,
    settings: KafkaOutputSettings,
    streams: Sequence[Stream],
    *,
    how: Provision,
    stop: threading.Event | None = None,
) -> Collection[str]:
    """See the port."""
    if how == "none" or not streams:
        return ()
    places = list(dict.fromkeys(stream.destination for stream in streams))
    missing, faults = list[str](), dict[str, Fault]()
    for name, found in _facts(admin, places, stop).items():
        if isinstance(found, Fault):
            if found.name in MISSING:
                missing.append(name)
            else:
                faults[name] = found
    if faults:
        raise _all_of("looking at the Kafka topics", faults)
    if missing and how == "verify":
        raise PermanentError(
            f"verifying the Kafka topics: missing are {', '.join(missing)}",
            hint='provision = "create" makes them, and "none" skips this check',
        )
    late = _create(admin, settings, missing, stop)
    return [stream.topic for stream in streams if stream.destination in late]


def _facts(admin: Admin, places: Sequence[str], stop: threading.Event | None) -> Mapping[str, TopicFacts | Fault]:
    found = dict[str, TopicFacts | Fault]()
    for begin in range(0, len(places), AT_ONCE):
        found.update(admin.topics(places[begin : begin + AT_ONCE], stop=stop))
    return found


def _create(
    admin: Admin, settings: KafkaOutputSettings, missing: Sequence[str], stop: threading.Event | None
) -> Collection[str]:
    """Returns those that could not be created now. Another router may create the same at the same time."""
    faults = dict[str, Fault]()
    for begin in range(0, len(missing), AT_ONCE):
        wanted = [_wanted(name, settings) for name in missing[begin : begin + AT_ONCE]]
        for name, fault in admin.create(wanted, stop).items():
            if fault is None:
                log.info("topic created", topic=name)
            elif fault.name != "TOPIC_ALREADY_EXISTS":
                faults[name] = fault
    if lasting := {name: fault for name, fault in faults.items() if fault.name not in _LATER}:
        raise _all_of("creating the Kafka topics", lasting)
    if faults and len(faults) == len(missing):
        name, fault = next(iter(faults.items()))
        raise TransientError(f"creating the Kafka topic {name}: {fault.text}")
    for name, fault in faults.items():
        log.warning("topic not provided; its changes wait", topic=name, error=fault.text)
    _await_sight(admin, [name for name in missing if name not in faults], stop)
    return faults


def _wanted(name: str, settings: KafkaOutputSettings) -> NewTopic:
    """-1 is the broker's own number."""
    return NewTopic(
        name,
        num_partitions=settings.partitions or -1,
        replication_factor=settings.replication_factor or -1,
        config=dict(settings.topic_config),
    )


def _await_sight(admin: Admin, names: Sequence[str], stop: threading.Event | None) -> None:
    """Brokers learn of a new topic one after the other. A topic that is not seen yet is tried again by its sender."""
    end, unseen = time.monotonic() + _SEEN, list(names)
    while unseen and time.monotonic() < end:
        unseen = [name for name, found in _facts(admin, unseen, stop).items() if isinstance(found, Fault)]
        if unseen:
            time.sleep(0.1)


def _all_of(doing: str, faults: Mapping[str, Fault]) -> DStreamError:
    """One error that names all topics; permanent if one of them is."""
    errors = {name: of_topic(doing, name, fault) for name, fault in faults.items()}
    names = "; ".join(f"{name}: {fault.text}" for name, fault in faults.items())
    hints = "; ".join(dict.fromkeys(error.hint for error in errors.values() if error.hint)) or None
    if any(fault.name in NO_RIGHT for fault in faults.values()):
        hints = 'grant the user the rights that `dstream plan` lists, or create the topics and set provision = "none"'
    retriable = all(isinstance(error, TransientError) for error in errors.values()) and doing.startswith("looking")
    return (TransientError if retriable else PermanentError)(f"{doing}: {names}", hint=hints)


def findings(
    admin: Admin, settings: KafkaOutputSettings, streams: Sequence[Stream], *, provision: Provision
) -> Iterator[Finding]:
    """See the port."""
    cluster = admin.cluster()
    yield ok(
        "Kafka",
        f"{settings.where}: {cluster.brokers} {'broker' if cluster.brokers == 1 else 'brokers'}, cluster {cluster.id}",
    )
    places = {stream.destination: stream for stream in streams}
    facts = _facts(admin, list(places), None)
    there = [name for name, found in facts.items() if isinstance(found, TopicFacts)]
    configs = dict[str, Mapping[str, str] | Fault]()
    for begin in range(0, len(there), AT_ONCE):
        configs.update(admin.settings(there[begin : begin + AT_ONCE]))
    for name, found in facts.items():
        subject = f"topic {name}"
        if isinstance(found, Fault):
            yield _of_fault(subject, name, found, settings, provision)
        elif found.may_write is False:
            text = "the user may not write to it"
            yield fail(subject, text, "grant Write and Describe", fix=by_shell(acl_command(settings, name)))
        else:
            config = configs.get(name)
            yield from _of_topic(subject, found, config if isinstance(config, Mapping) else {}, settings)
    yield from _without_key(settings, streams)


def _of_fault(subject: str, name: str, fault: Fault, settings: KafkaOutputSettings, provision: Provision) -> Finding:
    if fault.name not in MISSING:
        error = of_topic("looking at", name, fault)
        return fail(subject, error.message, error.hint, fix=by_shell(acl_command(settings, name)))
    if provision == "create":
        return ok(subject, "missing; a start creates it")
    hint = 'create it, or set provision = "create"'
    return fail(subject, "missing", hint, fix=by_shell(create_command(settings, name)))


def _of_topic(
    subject: str, facts: TopicFacts, config: Mapping[str, str], settings: KafkaOutputSettings
) -> Iterator[Finding]:
    copies = "1 copy" if facts.replicas == 1 else f"{facts.replicas} copies"
    troubles = list(_troubles(subject, facts, config, settings))
    if not troubles:
        rights = "" if facts.may_write is None else "; the user may write"
        yield ok(
            subject, f"{facts.partitions} {'partition' if facts.partitions == 1 else 'partitions'}, {copies}{rights}"
        )
    yield from troubles


def _troubles(
    subject: str, facts: TopicFacts, config: Mapping[str, str], settings: KafkaOutputSettings
) -> Iterator[Finding]:
    by_topic = by_hand("settings of an existing topic are for its owner to change (kafka-configs)")
    if "compact" in config.get("cleanup.policy", "") and settings.key != "row":
        text = "it is compacted, and would keep only the last change of each session"
        yield fail(subject, text, 'set key = "row" with keys, or cleanup.policy=delete', fix=by_topic)
    least = config.get("min.insync.replicas", "")
    if facts.replicas > 1 and least == "1":
        text = f"{facts.replicas} copies and min.insync.replicas=1: a change counts as accepted when one broker has it"
        yield warn(subject, text, "set min.insync.replicas=2", fix=by_topic)
    if least.isdigit() and int(least) > facts.replicas:
        text = f"min.insync.replicas={least} and {facts.replicas} copies: before Kafka 4.1 it takes nothing"
        yield warn(subject, text, "lower min.insync.replicas, or add copies", fix=by_topic)
    largest = config.get("max.message.bytes", "")
    if largest.isdigit() and int(largest) < _LEAST:
        text = f"max.message.bytes={largest}: a larger change is dead-lettered, and the queue holds changes of {_LEAST} bytes"
        yield warn(subject, text, "raise max.message.bytes", fix=by_topic)


def _without_key(settings: KafkaOutputSettings, streams: Sequence[Stream]) -> Iterator[Finding]:
    if settings.key != "row":
        return
    for stream in streams:
        if stream.table is not None and settings.key_of(stream.table) is None:
            text = 'key = "row", and keys does not name the table: nothing of it can be sent'
            hint = f'add it: keys = {{ "{stream.table}" = ["ID"] }}'
            yield fail(str(stream.table), text, hint, fix=by_hand("only a person knows what identifies a row"))
