"""Looks at queue and topics for `dstream check`, and whether they may be used; `findings.py` judges what was found.

Nothing is sent, received or locked: links are opened and closed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from common.azure_amqp.address import ServiceBusAddress
from common.bus.ports import OpenableSender, Provision, QueueState
from common.check import Finding, Outcome, by_hand, failed, ok, warn
from common.errors import DStreamError, PermanentError, TransientError
from common.servicebus.check_clock import judge_clock
from common.servicebus.entities import Entities, QueueFacts, TopicFacts
from common.servicebus.findings import judge_queue, judge_topic
from common.servicebus.listening import listen
from common.servicebus.management import AT_ONCE
from common.servicebus.remedies.az import Entity, entity_of, granted


class Namespace(Protocol):
    """What is looked at: where it is, and senders to try."""

    @property
    def address(self) -> ServiceBusAddress: ...

    def sender(self, entity: str) -> OpenableSender: ...


def queue_findings(
    bus: Namespace,
    name: str,
    *,
    sessions: bool,
    provision: Provision,
    management_endpoint: str | None,
    sends: bool,
    used: bool,
) -> Iterator[Finding]:
    """Findings on the queue, and on this machine's clock compared with the namespace's. `sends`: try whether the queue accepts a sender, else
    whether it accepts a receiver. `used`: whether changes may have been sent to it. Raises DStreamError when the namespace cannot be reached.
    """
    subject = f"queue {name}, to {'send' if sends else 'receive'}"
    facts: QueueFacts | None = None
    entity = entity_of(bus.address, "queue", name)
    with closing(Entities(bus.address, management_endpoint)) as entities:
        try:
            facts = entities.queue(name)
            found = judge_queue(
                subject, facts, sessions=sessions, provision=provision, entity=entity, receives=not sends, used=used
            )
            there = facts is not None
        except PermanentError as error:
            found, there = [_unseen(subject, error, provision, entity)], True
        ahead = entities.clock_ahead
    has_sessions = sessions if facts is None else facts.sessions
    trouble = trouble_sending(bus, name) if sends else _trouble_receiving(bus, name, sessions=has_sessions)
    if trouble is not None and (there or isinstance(trouble, TransientError)):
        found = [failed(subject, trouble, fix=granted(entity, trouble)), *_without_ok(found)]
    yield from found
    yield from judge_clock(ahead, None if facts is None else facts.lock)


def queue_seen(bus: Namespace, name: str, management_endpoint: str | None) -> QueueFacts | None:
    """None when the queue does not exist, or without the right to see it. Raises TransientError."""
    with closing(Entities(bus.address, management_endpoint)) as entities:
        try:
            return entities.queue(name)
        except PermanentError:
            return None


@dataclass(frozen=True, slots=True)
class _Seen:
    """`unseen`: why the management API refuses to answer. `trouble`: why nothing can be sent."""

    facts: TopicFacts | None
    unseen: PermanentError | None
    trouble: DStreamError | None


def topic_findings(
    bus: Namespace,
    names: Sequence[str],
    *,
    subscriptions: Sequence[str],
    provision: Provision,
    management_endpoint: str | None,
    queue: QueueState | None,
) -> Iterator[Finding]:
    """Findings on each topic, in order, each as soon as it is there. `queue`: the ingest queue, where it is known. Raises DStreamError when the
    namespace cannot be reached.
    """

    entities = Entities(bus.address, management_endpoint)

    def look(number: int, name: str) -> _Seen:
        try:
            facts, unseen = entities.topic(name), None
        except PermanentError as error:
            facts, unseen = None, error
        # A topic that does not exist yet is tried only when it is the first: even then it shows whether the namespace can be reached.
        tried = facts is not None or unseen is not None or number == 0
        return _Seen(facts, unseen, trouble_sending(bus, name) if tried else None)

    told_unseen = False
    for name, seen in zip(names, _side_by_side(look, names, entities.close), strict=True):
        subject, missing = f"topic {name}", seen.facts is None and seen.unseen is None
        entity = entity_of(bus.address, "topic", name)
        if seen.unseen is not None and not told_unseen:
            told_unseen = True
            yield _unseen("topics", seen.unseen, provision, entity)
        if missing and isinstance(seen.trouble, TransientError):
            yield failed("topics", seen.trouble)
        found = (
            judge_topic(
                subject, seen.facts, subscriptions=subscriptions, provision=provision, entity=entity, queue=queue
            )
            if seen.unseen is None
            else [ok(subject, "may be sent to")]
        )
        if seen.trouble is not None and not missing:
            found = [failed(subject, seen.trouble, fix=granted(entity, seen.trouble)), *_without_ok(found)]
        yield from found


def _side_by_side(
    look: Callable[[int, str], _Seen], names: Sequence[str], close: Callable[[], None]
) -> Iterator[_Seen]:
    """Their results in order, each as soon as it and those before it are there. When one raises, no further call begins. `close`: afterwards."""
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="check")
    try:
        yield from pool.map(look, range(len(names)), names)
    finally:
        pool.shutdown(cancel_futures=True)
        close()


def trouble_sending(bus: Namespace, name: str) -> DStreamError | None:
    """Why nothing can be sent to `name`: a link is opened and closed, no message is sent.

    Even for an entity that does not exist yet, a TransientError means that the namespace cannot be reached.
    """
    try:
        with closing(bus.sender(name)) as sender:
            sender.open()
    except DStreamError as error:
        return error
    return None


def _trouble_receiving(bus: Namespace, name: str, *, sessions: bool) -> DStreamError | None:
    """As `trouble_sending`."""
    try:
        listen(bus.address, name, sessions=sessions)
    except DStreamError as error:
        return error
    return None


def _without_ok(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.outcome is not Outcome.OK]


def _unseen(subject: str, error: PermanentError, provision: Provision, entity: Entity) -> Finding:
    """Without the Manage right a start fails as well, unless nothing is to be provisioned."""
    if provision != "none":
        return failed(subject, error, fix=granted(entity, error))
    text = f"sessions, duplicate detection, locks and fill level could not be checked: {error.message}"
    hint = "check again with a policy that has the Manage right, or look in the portal"
    return warn(subject, text, hint, fix=by_hand("the services work without this right, and should not get it"))
