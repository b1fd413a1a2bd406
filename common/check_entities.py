"""Looks at queue and topics for `dstream check`, and whether they may be sent to; `entity_findings.py` judges what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

from common.check import Finding, Outcome, fail, ok, warn
from common.entity_findings import judge_queue, judge_topic
from common.errors import DStreamError, PermanentError, TransientError
from common.servicebus import ServiceBus
from common.servicebus_entities import Entities, QueueFacts, TopicFacts
from common.topology import Provision

_AT_ONCE = 16


def queue_findings(
    bus: ServiceBus, name: str, *, sessions: bool, provision: Provision, management_endpoint: str | None, sends: bool
) -> Iterator[Finding]:
    """Of the queue; `sends`: also whether messages may be sent to it. Raises DStreamError when the namespace cannot be reached."""
    subject = f"queue {name}, to {'send' if sends else 'receive'}"
    with closing(Entities(bus.address, management_endpoint)) as entities:
        try:
            facts = entities.queue(name)
            found = judge_queue(subject, facts, sessions=sessions, provision=provision)
            there = facts is not None
        except PermanentError as error:
            found, there = [_unseen(subject, error, provision)], True
    trouble = _trouble_sending(bus, name) if sends or not there else None
    if trouble is not None and (there or isinstance(trouble, TransientError)):
        found = [fail(subject, trouble.message, trouble.hint), *_without_ok(found)]
    yield from found


def queue_seen(bus: ServiceBus, name: str, management_endpoint: str | None) -> QueueFacts | None:
    """None where there is none, or it may not be seen. Raises TransientError."""
    with closing(Entities(bus.address, management_endpoint)) as entities:
        try:
            return entities.queue(name)
        except PermanentError:
            return None


def topic_findings(
    bus: ServiceBus,
    names: Sequence[str],
    *,
    subscriptions: Sequence[str],
    provision: Provision,
    management_endpoint: str | None,
    queue: QueueFacts | None,
) -> Iterator[Finding]:
    """Of each topic, in order; `queue`: the ingest queue, where it is known. Raises DStreamError when the namespace cannot be reached."""
    facts: dict[str, TopicFacts | None] = {}
    with closing(Entities(bus.address, management_endpoint)) as entities:
        try:
            for name in names:
                facts[name] = entities.topic(name)
        except PermanentError as error:
            yield _unseen("topics", error, provision)
    there = [name for name in names if name not in facts or facts[name] is not None]
    if not there and names and isinstance(unreached := _trouble_sending(bus, names[0]), TransientError):
        yield fail("topics", unreached.message, unreached.hint)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="check") as pool:
        troubles = dict(zip(there, pool.map(partial(_trouble_sending, bus), there), strict=True))
    for name in names:
        subject = f"topic {name}"
        found = (
            judge_topic(subject, facts[name], subscriptions=subscriptions, provision=provision, queue=queue)
            if name in facts
            else [ok(subject, "may be sent to")]
        )
        if (trouble := troubles.get(name)) is not None:
            found = [fail(subject, trouble.message, trouble.hint), *_without_ok(found)]
        yield from found


def _trouble_sending(bus: ServiceBus, name: str) -> DStreamError | None:
    """Why nothing can be sent to `name`: a link is opened and closed, no message is sent.

    Of an entity that does not exist yet a TransientError says all the same that the namespace cannot be reached.
    """
    try:
        with closing(bus.sender(name)) as sender:
            sender.open()
    except DStreamError as error:
        return error
    return None


def _without_ok(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.outcome is not Outcome.OK]


def _unseen(subject: str, error: PermanentError, provision: Provision) -> Finding:
    """Without the Manage right a start fails as well, unless nothing is to be provisioned."""
    if provision != "none":
        return fail(subject, error.message, error.hint)
    text = f"sessions, duplicate detection, locks and fill level could not be looked at: {error.message}"
    return warn(subject, text, "check again with a policy that has the Manage right, or look in the portal")
