"""Queue, topics and subscriptions: created, checked or left alone. Runs once at start, never for a message.

"create" creates what is missing and uses what exists, so two processes may start at once. "verify" refuses what is missing. Both report an
entity whose settings differ from those that DStream would choose, and refuse it only when it cannot work. "none" makes no call at all. Nothing
that exists is ever changed or deleted: sessions and duplicate detection are fixed when an entity is created.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Self, TypeVar

import structlog
from azure.core.exceptions import HttpResponseError, ResourceExistsError

from common.azure_amqp.address import ServiceBusAddress
from common.bus.ports import Need, Provision, QueueNeed, TopicNeed
from common.bus.shapes import MOST_DELIVERIES, PREMIUM_MEGABYTES, STANDARD_MEGABYTES, queue_options, topic_options
from common.check import NOT_KNOWN, Finding, Outcome
from common.errors import DStreamError, PermanentError, Stopped, TransientError
from common.servicebus.connection.known import KNOWN
from common.servicebus.entities import Entities, TopicFacts
from common.servicebus.findings import judge_keeping, judge_queue, judge_settings, judge_topic, judge_use
from common.servicebus.management import AT_ONCE, PATIENCE, administration, asked, conflicting
from common.servicebus.remedies.az import entity_of

QUOTAS: tuple[tuple[int | None, int | None], ...] = (
    (PREMIUM_MEGABYTES, MOST_DELIVERIES),
    (STANDARD_MEGABYTES, MOST_DELIVERIES),
    (None, MOST_DELIVERIES),
    (None, None),
)
"""Megabytes of a queue or topic, and deliveries of a message, to try one after the other: Premium, Standard, and Microsoft's emulator, which
allows 10 deliveries."""

_Facts = TypeVar("_Facts")

LOST = (
    "what it held and nobody had read is lost, and so are its other subscriptions with their rules, of which `lost_subscriptions` has those that are "
    "known: create these again, then send the changes since the deletion again (dstream offsets set TABLE --time ...); find out who deleted it"
)
LOST_SUBSCRIPTION = (
    "what it held and nobody had read is lost, and so are its rules: add these again, then send the changes since the deletion again (dstream "
    "offsets set TABLE --time ...); find out who deleted it"
)
LOST_QUEUE = (
    "what it held and nobody had read is lost: send the changes since the deletion again (dstream offsets set TABLE --time ...); find out who "
    "deleted it"
)

_OTHER_KIND = "a queue and a topic cannot share a name: rename or delete the other, or set ingester.server_name or ingester.queue.name"

log = structlog.get_logger(__name__)


def provision(
    address: ServiceBusAddress,
    needs: Sequence[Need],
    *,
    how: Provision,
    management_endpoint: str | None = None,
    stop: threading.Event | None = None,
) -> Collection[str]:
    """Create or check `needs`, depending on `how`; "none" returns at once. Returns the topics that could not be created now, each logged.

    `management_endpoint`: address of the management API (`https://host[:port]`), where it is not the namespace's own.
    Raises PermanentError (no Manage right; one error names all entities that cannot work or that "verify" misses), TransientError (not
    reachable, throttled; for topics, only when each of them failed so) and, once `stop` is set, Stopped.
    """
    if how == "none" or not needs:
        return ()
    with _Provisioner(address, management_endpoint, stop) as manager:
        if how == "create":
            return manager.create(needs)
        wrong = manager.differences(needs)
    if wrong:
        raise PermanentError(
            f"verifying the Service Bus entities: {_texts(wrong)}",
            hint=_hints(wrong, 'provision = "create" makes what is missing, and "none" skips this check'),
        )
    return ()


def _hints(wrong: Sequence[Finding], *further: str) -> str:
    """What to do about all of them, each thing once."""
    return "; ".join(dict.fromkeys([*(finding.hint for finding in wrong if finding.hint), *further]))


class _Provisioner:
    """One conversation with the management API."""

    def __init__(self, address: ServiceBusAddress, endpoint: str | None, stop: threading.Event | None) -> None:
        self._client, self._where = administration(address, endpoint)
        self._address = address
        self._entities = Entities(address, endpoint, stop=stop)
        self._stop = stop
        self._sizes = list(QUOTAS)

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._client.__exit__(*details)
        self._entities.close()

    def create(self, needs: Sequence[Need]) -> Collection[str]:
        for need in needs:
            if isinstance(need, QueueNeed):
                self._provide_queue(need)
        topics = [need for need in needs if isinstance(need, TopicNeed)]
        return self._provide_topics(topics) if topics else ()

    def _provide_queue(self, need: QueueNeed) -> None:
        facts = self._made_or_found(
            f"queue {need.name}", partial(self._create_queue, need), partial(self._entities.queue, need.name)
        )
        if facts is None:
            if KNOWN.created(self._address.host, need.name) is not None:
                log.warning("queue was deleted, and is created again", queue=need.name, hint=LOST_QUEUE)
            return
        KNOWN.there(self._address.host, need.name)
        subject, entity = f"queue {need.name}", entity_of(self._address, "queue", need.name)
        if wrong := _failures(judge_use(subject, facts, sessions=need.sessions, entity=entity)):
            raise PermanentError(
                f"checking the {_texts(wrong)}",
                hint=_hints(wrong),
            )
        _blame(judge_keeping(subject, facts, entity))

    def _provide_topics(self, needs: Sequence[TopicNeed]) -> Collection[str]:
        """A topic that is unavailable now holds up its own table and no other."""
        unsubscribed = [need.name for need in needs if not need.subscriptions]
        there = self._entities.topics([need.name for need in needs], unsubscribed=unsubscribed)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="provision") as pool:
            faults = [*pool.map(lambda need: self._fault_of_providing(need, there[need.name]), needs)]
        late = {need.name: fault for need, fault in zip(needs, faults, strict=True) if fault is not None}
        troubles = list(late.values())
        for fault in troubles:
            if isinstance(fault, Stopped):
                raise fault
        if permanent := [fault for fault in troubles if isinstance(fault, PermanentError)]:
            raise PermanentError(_each_once(permanent), hint=permanent[0].hint) from permanent[0]
        if len(troubles) == len(needs):
            raise troubles[0]
        for fault in troubles:
            log.error("topic not provided; its changes wait", error=fault.message, hint=fault.hint)
        return late

    def _fault_of_providing(self, need: TopicNeed, facts: TopicFacts | DStreamError | None) -> DStreamError | None:
        if isinstance(facts, DStreamError):
            return facts
        try:
            self._provide_topic(need, facts)
        except DStreamError as error:
            return error
        return None

    def _provide_topic(self, need: TopicNeed, facts: TopicFacts | None) -> None:
        """A disabled topic concerns its own table; an entity of another kind under its name ends the start, as changes would be sent to it."""
        if facts is None:
            facts = self._made_or_found(
                f"topic {need.name}", partial(self._create_topic, need), partial(self._entities.topic, need.name)
            )
        there = set[str]()
        if facts is None:
            self._tell_created(need)
        else:
            entity = entity_of(self._address, "topic", need.name)
            _blame(_failures(judge_settings(f"topic {need.name}", facts, entity, NOT_KNOWN)))
            there = {each.name.lower() for each in facts.subscriptions}
            KNOWN.there(self._address.host, need.name, [each.name for each in facts.subscriptions])
        for name in need.subscriptions:
            if name.lower() not in there:
                self._provide_subscription(need.name, name, there=facts is not None)

    def _tell_created(self, need: TopicNeed) -> None:
        """A topic that was there has lost what nobody had read, however soon it is back."""
        before = KNOWN.created(self._address.host, need.name)
        if before is None:
            return
        made = {name.lower() for name in need.subscriptions}
        log.warning(
            "topic was deleted, and is created again",
            topic=need.name,
            subscriptions=", ".join(need.subscriptions) or None,
            lost_subscriptions=", ".join(name for name in before if name.lower() not in made) or None,
            hint=LOST,
        )

    def _provide_subscription(self, topic: str, name: str, *, there: bool) -> None:
        """`there`: the topic was."""
        made = self._create(f"{topic}/{name}", partial(self._client.create_subscription, topic, name))
        before = KNOWN.subscribed(self._address.host, topic, name)
        if made and before and there:
            log.warning(
                "subscription was deleted, and is created again",
                topic=topic,
                subscription=name,
                hint=LOST_SUBSCRIPTION,
            )

    def _made_or_found(self, what: str, create: Callable[[], bool], look: Callable[[], _Facts | None]) -> _Facts | None:
        """None when `create` made it. Another process may be creating or deleting the same entity, so what is neither made nor found is tried
        again.
        """
        until = time.monotonic() + PATIENCE
        while not create():
            if (facts := look()) is not None:
                return facts
            if self._is_another_kind(what):
                raise PermanentError(f"creating the {what}: there is something else of that name", hint=_OTHER_KIND)
            if time.monotonic() > until:
                raise TransientError(f"creating the {what}: the service says that it exists, and does not find it")
            if self._stop is not None and self._stop.wait(1.0):
                raise Stopped("asked to stop")
        return None

    def _is_another_kind(self, what: str) -> bool:
        kind, _, name = what.partition(" ")
        other = self._entities.topic_settings(name) if kind == "queue" else self._entities.queue(name)
        return other is not None

    def _create_queue(self, need: QueueNeed) -> bool:
        def create(megabytes: int | None, deliveries: int | None) -> object:
            return self._client.create_queue(
                need.name,
                **queue_options(need),
                max_size_in_megabytes=megabytes,
                max_delivery_count=deliveries,
            )

        return self._create(need.name, partial(self._as_large_as_may_be, create))

    def _create_topic(self, need: TopicNeed) -> bool:
        def create(megabytes: int | None, deliveries: int | None) -> object:
            return self._client.create_topic(
                need.name,
                **topic_options(need),
                max_size_in_megabytes=megabytes,
            )

        return self._create(need.name, partial(self._as_large_as_may_be, create))

    def _as_large_as_may_be(self, create: Callable[[int | None, int | None], object]) -> object:
        """The service does not name its tier; it refuses sizes above its limit. The size that it accepted is tried first the next time."""
        for quota in list(self._sizes):
            try:
                made = create(*quota)
            except HttpResponseError as error:
                if error.status_code != HTTPStatus.BAD_REQUEST or quota == QUOTAS[-1]:
                    raise
            else:
                self._sizes = list(QUOTAS[QUOTAS.index(quota) :])
                return made
        raise AssertionError("the last quota returns or raises")

    def _create(self, what: str, call: Callable[[], object]) -> bool:
        """False when it exists. Looking first would be one more call and a race; the answer "exists" saves both."""

        def create() -> bool:
            try:
                call()
            except ResourceExistsError as error:
                if conflicting(error):
                    raise TransientError(f"creating {what}: {error.message}") from error
                return False
            return True

        made = asked(f"creating {what} at {self._where}", self._address, create, stop=self._stop)
        if made:
            log.info("entity created", entity=what)
        return made

    def differences(self, needs: Sequence[Need]) -> list[Finding]:
        """What cannot work. What a person should only know is logged."""
        found, unread = list[Finding](), list[DStreamError]()
        topics = self._entities.topics([need.name for need in needs if isinstance(need, TopicNeed)])
        for need in needs:
            subject = f"{'queue' if isinstance(need, QueueNeed) else 'topic'} {need.name}"
            if isinstance(need, QueueNeed):
                facts, entity = self._entities.queue(need.name), entity_of(self._address, "queue", need.name)
                found += judge_queue(subject, facts, sessions=need.sessions, provision="verify", entity=entity)
            elif isinstance(topic := topics[need.name], DStreamError):
                unread.append(topic)
            else:
                entity, named = entity_of(self._address, "topic", need.name), need.subscriptions
                found += judge_topic(subject, topic, subscriptions=named, provision="verify", entity=entity)
        if unread and (len(unread) == len(topics) or isinstance(unread[0], PermanentError)):
            raise unread[0]
        for fault in unread:
            log.error("topic not verified", error=fault.message, hint=fault.hint)
        return _failures(found)


def _each_once(faults: Sequence[DStreamError]) -> str:
    return "; ".join(dict.fromkeys(fault.message for fault in faults))


def _blame(findings: Sequence[Finding]) -> None:
    """Log what a person must correct although the start can go on."""
    for found in findings:
        log.error(
            "entity settings differ from what DStream needs", entity=found.subject, what=found.text, hint=found.hint
        )


def _failures(findings: Sequence[Finding]) -> list[Finding]:
    """Log the warnings among `findings`; return the failures."""
    for found in findings:
        if found.outcome is Outcome.WARN:
            log.warning(
                "entity settings differ from what DStream needs",
                entity=found.subject,
                what=found.text,
                hint=found.hint,
            )
    return [found for found in findings if found.outcome is Outcome.FAIL]


def _texts(findings: Sequence[Finding]) -> str:
    return "; ".join(f"{found.subject}: {found.text}" for found in findings)
