"""Queue, topics and subscriptions: created, or checked, or left alone. Runs once at start, never for a message.

"create" makes what is missing and works with what is there, so two processes may start at once. "verify" refuses what is missing. What exists
with other settings than DStream would give it is told by both, and refused only where it cannot work. "none" makes no call at all. Nothing
that exists is ever changed or deleted: sessions and duplicate detection are fixed when an entity is created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Self

import structlog
from azure.core.exceptions import ResourceExistsError

from common.check import Finding, Outcome
from common.entity_findings import judge_keeping, judge_queue, judge_settings, judge_topic, judge_use
from common.errors import PermanentError
from common.servicebus_address import ServiceBusAddress
from common.servicebus_entities import Entities
from common.servicebus_management import administration, answered, managing
from common.topology import Provision

DUPLICATE_DETECTION_WINDOW = timedelta(minutes=10)
"""How long an entity remembers message ids. After a crash at most one page is sent again, as soon as another process holds
the lock (a lease lasts 60 s): ten minutes, the service's own default, cover that several times; a longer memory costs throughput.
The service takes 20 s to 7 days (https://learn.microsoft.com/azure/service-bus-messaging/duplicate-detection)."""

_OTHER_KIND = "a queue and a topic cannot share a name: rename or delete the other, or set ingester.server_name or ingester.queue.name"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QueueNeed:
    """A queue as DStream wants it."""

    name: str
    sessions: bool
    duplicate_window: timedelta = DUPLICATE_DETECTION_WINDOW


@dataclass(frozen=True, slots=True)
class TopicNeed:
    """A topic, with the subscriptions that are created on it (none: nobody reads it yet, nothing fills it)."""

    name: str
    subscriptions: tuple[str, ...] = ()
    duplicate_window: timedelta = DUPLICATE_DETECTION_WINDOW


Need = QueueNeed | TopicNeed


def provision(
    address: ServiceBusAddress, needs: Sequence[Need], *, how: Provision, management_endpoint: str | None = None
) -> None:
    """Create or check `needs`, as `how` says; "none" returns at once.

    `management_endpoint`: address of the management API (`https://host[:port]`), where it is not the namespace's own.
    Raises PermanentError (no Manage right; what "verify" found, all of it at once), TransientError (not reachable, throttled).
    """
    if how == "none" or not needs:
        return
    with _Provisioner(address, management_endpoint) as manager:
        if how == "create":
            for need in needs:
                manager.create(need)
            return
        wrong = [found for need in needs for found in manager.differences(need)]
    if wrong:
        raise PermanentError(
            f"verifying the Service Bus entities: {_texts(wrong)}",
            hint='create them so, or set provision = "create"; provision = "none" skips this check',
        )


class _Provisioner:
    """One conversation with the management API."""

    def __init__(self, address: ServiceBusAddress, endpoint: str | None) -> None:
        self._client, self._where = administration(address, endpoint)
        self._entities = Entities(address, endpoint)

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._client.__exit__(*details)
        self._entities.close()

    def create(self, need: Need) -> None:
        if isinstance(need, QueueNeed):
            made = self._create(
                need.name,
                lambda: self._client.create_queue(
                    need.name,
                    requires_session=need.sessions,
                    requires_duplicate_detection=True,
                    duplicate_detection_history_time_window=need.duplicate_window,
                ),
            )
            if not made:
                self._look_at_queue(need)
            return
        made = self._create(
            need.name,
            lambda: self._client.create_topic(
                need.name,
                requires_duplicate_detection=True,
                duplicate_detection_history_time_window=need.duplicate_window,
                support_ordering=True,
            ),
        )
        if not made:
            self._look_at_topic(need.name)
        for name in need.subscriptions:
            self._create(f"{need.name}/{name}", partial(self._client.create_subscription, need.name, name))

    def _create(self, what: str, call: Callable[[], object]) -> bool:
        """False when it exists. Looking first would be one more call and a race; "exists" is the answer to both."""
        with managing(f"creating {what} at {self._where}"):
            try:
                answered(call)
            except ResourceExistsError:
                return False
        log.info("entity created", entity=what)
        return True

    def _look_at_queue(self, need: QueueNeed) -> None:
        facts = self._entities.queue(need.name)
        if facts is None:
            raise PermanentError(
                f"creating the queue {need.name}: there is something else of that name", hint=_OTHER_KIND
            )
        subject = f"queue {need.name}"
        if wrong := _told(judge_use(subject, facts, sessions=need.sessions)):
            raise PermanentError(f"checking the {_texts(wrong)}", hint=wrong[0].remedy)
        _blame(judge_keeping(subject, facts))

    def _look_at_topic(self, name: str) -> None:
        """A topic that is switched off is its own table's trouble, and something else of its name everybody's: it would be sent to."""
        facts = self._entities.topic_settings(name)
        if facts is None:
            raise PermanentError(f"creating the topic {name}: there is something else of that name", hint=_OTHER_KIND)
        _blame(_told(judge_settings(f"topic {name}", facts)))

    def differences(self, need: Need) -> list[Finding]:
        """What cannot be worked with; what a person should only know is logged."""
        if isinstance(need, QueueNeed):
            facts = self._entities.queue(need.name)
            return _told(judge_queue(f"queue {need.name}", facts, sessions=need.sessions, provision="verify"))
        topic = self._entities.topic(need.name)
        return _told(judge_topic(f"topic {need.name}", topic, subscriptions=need.subscriptions, provision="verify"))


def _blame(findings: Sequence[Finding]) -> None:
    """Log what a person must put right although a start can go on."""
    for found in findings:
        log.error("entity is not as wanted", entity=found.subject, what=found.text, remedy=found.remedy)


def _told(findings: Sequence[Finding]) -> list[Finding]:
    """Log the warnings among `findings`; return the failures."""
    for found in findings:
        if found.outcome is Outcome.WARN:
            log.warning("entity is not as wanted", entity=found.subject, what=found.text, remedy=found.remedy)
    return [found for found in findings if found.outcome is Outcome.FAIL]


def _texts(findings: Sequence[Finding]) -> str:
    return "; ".join(f"{found.subject}: {found.text}" for found in findings)
