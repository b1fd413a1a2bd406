"""Reads the settings of the queue, the topics and their subscriptions over the management API, which needs the Manage right. Changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import (
    QueueProperties,
    QueueRuntimeProperties,
    TopicProperties,
    TopicRuntimeProperties,
)

from common.azure_amqp.address import ServiceBusAddress
from common.bus.ports import Storage
from common.errors import DStreamError, Stopped
from common.servicebus.check_clock import seconds_ahead
from common.servicebus.management import AT_ONCE, administration, asked

_MEGABYTE = 2**20

AT_ONCE_THROTTLED = 4
"""Calls side by side once the service has refused AT_ONCE of them as too many."""

_NO_END = timedelta(days=36_500)
"""From this length on, a time means no end: the default is the longest that .NET can express, P10675199DT2H48M5.4775807S
(https://learn.microsoft.com/azure/service-bus-messaging/message-expiration)."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long an entity keeps what it has accepted; None: without end. `messages`: the default time to live, which is also the longest.

    `dead_letters`: whether expired messages are dead-lettered (topics leave that to their subscriptions). `unused`: the time without use
    after which the entity is deleted. `forwards_to`: the entity that receives what is sent here.
    """

    messages: timedelta | None = None
    dead_letters: bool = False
    unused: timedelta | None = None
    forwards_to: str | None = None


class EntitySettings(Protocol):
    """Settings of a queue or a topic. `duplicate_window`: None without duplicate detection. `status`: "Active", or what is disabled."""

    @property
    def duplicate_window(self) -> timedelta | None: ...

    @property
    def status(self) -> str: ...


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """EntitySettings, read with one request."""

    duplicate_window: timedelta | None
    status: str


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """EntitySettings and more. `dead`: dead letters. `largest`: bytes of the largest message; None when the tier determines it."""

    sessions: bool
    duplicate_window: timedelta | None
    lock: timedelta
    max_deliveries: int
    status: str
    waiting: int
    dead: int
    storage: Storage
    keeping: Keeping = Keeping()
    largest: int | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """`waiting`: messages that were not read yet."""

    name: str
    waiting: int
    dead: int


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """As QueueFacts."""

    duplicate_window: timedelta | None
    status: str
    storage: Storage
    subscriptions: tuple[SubscriptionFacts, ...]
    keeping: Keeping = Keeping()
    largest: int | None = None


class Entities:
    """One conversation with the management API. Every method raises PermanentError (no Manage right) or TransientError."""

    def __init__(
        self, address: ServiceBusAddress, management_endpoint: str | None, *, stop: threading.Event | None = None
    ) -> None:
        """Once `stop` is set every method raises Stopped."""
        self._client, self._where = administration(address, management_endpoint, self._heard)
        self._address = address
        self._stop = stop
        self.clock_ahead: float | None = None
        """Seconds that this machine's clock is ahead of the service's, by the last answer; None before one."""

    def _heard(self, headers: Mapping[str, str]) -> None:
        self.clock_ahead = seconds_ahead(headers, time.time())

    def close(self) -> None:
        self._client.close()

    def queue(self, name: str) -> QueueFacts | None:
        """None if the queue does not exist."""
        found = self._get(f"queue {name}", lambda: self._client.get_queue(name))
        counts = self._get(f"queue {name}", lambda: self._client.get_queue_runtime_properties(name))
        if found is None or counts is None:
            return None
        return QueueFacts(
            sessions=bool(found.requires_session),
            duplicate_window=_window(found),
            lock=_duration(found.lock_duration),
            max_deliveries=found.max_delivery_count or 0,
            status=_status(found),
            waiting=counts.active_message_count or 0,
            dead=counts.dead_letter_message_count or 0,
            storage=_storage(found, counts),
            keeping=_keeping(found),
            largest=_largest(found),
        )

    def topic_settings(self, name: str) -> TopicSettings | None:
        """None if the topic does not exist."""
        found = self._get(f"topic {name}", lambda: self._client.get_topic(name))
        return None if found is None else TopicSettings(_window(found), _status(found))

    def topic(self, name: str) -> TopicFacts | None:
        """None if the topic does not exist."""
        return self._topic(name)

    def topics(
        self, names: Sequence[str], *, unsubscribed: Collection[str] = ()
    ) -> Mapping[str, TopicFacts | DStreamError | None]:
        """By name, what `topic` returns or why it failed. Calls go side by side. For many topics, one listing of all replaces two calls for
        each, and its failure raises. The subscriptions of `unsubscribed` are not read, and returned as none.

        Calls that were refused because too many came at once are repeated, a few at a time.
        """
        if not names:
            return {}
        look = partial(self._topic, unsubscribed=frozenset(unsubscribed))
        if len(names) > AT_ONCE:
            with ThreadPoolExecutor(2, thread_name_prefix="topics") as pool:
                listings = pool.map(
                    self._listed, (self._client.list_topics, self._client.list_topics_runtime_properties)
                )
                settings, counts = listings
            look = partial(look, listed=(settings, counts))
        found = _each(look, names, AT_ONCE)
        if throttled := [name for name, facts in found.items() if _is_throttled(facts)]:
            found |= _each(look, throttled, AT_ONCE_THROTTLED)
        return found

    def _topic(
        self,
        name: str,
        *,
        unsubscribed: Collection[str] = (),
        listed: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
    ) -> TopicFacts | None:
        if listed is None:
            found = self._get(f"topic {name}", lambda: self._client.get_topic(name))
            counts = self._get(f"topic {name}", lambda: self._client.get_topic_runtime_properties(name))
        else:
            found, counts = (each.get(name.lower()) for each in listed)
        return self._facts(name, found, counts, subscribed=name not in unsubscribed)

    def marked(self, mark: str) -> Collection[str]:
        """The topics that were created with this mark, in lower case: what the service keeps of it is `UserMetadata`
        (https://learn.microsoft.com/dotnet/api/azure.messaging.servicebus.administration.topicproperties.usermetadata)."""
        return frozenset(
            name for name, topic in self._listed(self._client.list_topics).items() if topic.user_metadata == mark
        )

    def queue_storage(self, name: str) -> Storage | None:
        """None if the queue does not exist."""
        found = self._get(f"queue {name}", lambda: self._client.get_queue(name))
        counts = self._get(f"queue {name}", lambda: self._client.get_queue_runtime_properties(name))
        if found is None or counts is None:
            return None
        held = _storage(found, counts)
        return replace(held, active=counts.active_message_count, dead_letters=counts.dead_letter_message_count)

    def topics_storage(self, names: Sequence[str]) -> Mapping[str, Storage]:
        """Of those that exist, by name as given: a few calls, whatever their number."""
        if len(names) <= AT_ONCE:
            settings = {
                name.lower(): self._get(f"topic {name}", partial(self._client.get_topic, name)) for name in names
            }
            ask = self._client.get_topic_runtime_properties
            counts = {name.lower(): self._get(f"topic {name}", partial(ask, name)) for name in names}
        else:
            settings = self._listed(self._client.list_topics)
            counts = self._listed(self._client.list_topics_runtime_properties)
        pairs = ((name, settings.get(name.lower()), counts.get(name.lower())) for name in names)
        return {name: _storage(found, used) for name, found, used in pairs if found is not None and used is not None}

    def _listed(self, listing: Callable[[], Any]) -> dict[str, Any]:
        """By name in lower case."""
        pages, found = listing().by_page(), dict[str, Any]()
        while (page := self._ask("list of topics", lambda: next(pages, None))) is not None:
            found.update((each.name.lower(), each) for each in page)
        return found

    def _facts(
        self,
        name: str,
        found: TopicProperties | None,
        counts: TopicRuntimeProperties | None,
        *,
        subscribed: bool = True,
    ) -> TopicFacts | None:
        if found is None or counts is None:
            return None
        subscriptions = None
        if subscribed:
            subscriptions = self._get(
                f"subscriptions of {name}", lambda: list(self._client.list_subscriptions_runtime_properties(name))
            )
        return TopicFacts(
            duplicate_window=_window(found),
            status=_status(found),
            storage=_storage(found, counts),
            subscriptions=tuple(
                SubscriptionFacts(each.name, each.active_message_count or 0, each.dead_letter_message_count or 0)
                for each in subscriptions or ()
            ),
            keeping=_keeping(found),
            largest=_largest(found),
        )

    def _get(self, what: str, call: Callable[[], _T]) -> _T | None:
        def found() -> _T | None:
            try:
                return call()
            except (ResourceNotFoundError, AttributeError):
                # AttributeError: the SDK reads a topic's entry as a queue's, or the other way round, and finds no description.
                return None

        return self._ask(what, found)

    def _ask(self, what: str, call: Callable[[], _T]) -> _T:
        return asked(f"reading the settings of the {what} at {self._where}", self._address, call, stop=self._stop)


def _each(
    look: Callable[[str], TopicFacts | None], names: Sequence[str], at_once: int
) -> dict[str, TopicFacts | DStreamError | None]:
    """The error of one that cannot be read stands in its place. Raises Stopped."""

    def looked(name: str) -> TopicFacts | DStreamError | None:
        try:
            return look(name)
        except Stopped:
            raise
        except DStreamError as error:
            return error

    with ThreadPoolExecutor(at_once, thread_name_prefix="topics") as pool:
        return dict(zip(names, pool.map(looked, names), strict=True))


def _is_throttled(found: object) -> bool:
    cause = found.__cause__ if isinstance(found, DStreamError) else None
    return getattr(cause, "status_code", None) == HTTPStatus.TOO_MANY_REQUESTS


def _storage(
    found: QueueProperties | TopicProperties, counts: QueueRuntimeProperties | TopicRuntimeProperties
) -> Storage:
    return Storage(counts.size_in_bytes or 0, (found.max_size_in_megabytes or 0) * _MEGABYTE)


def _window(found: QueueProperties | TopicProperties) -> timedelta | None:
    return _duration(found.duplicate_detection_history_time_window) if found.requires_duplicate_detection else None


def _keeping(found: QueueProperties | TopicProperties) -> Keeping:
    messages, unused = _limited(found.default_message_time_to_live), _limited(found.auto_delete_on_idle)
    if not isinstance(found, QueueProperties):
        return Keeping(messages, unused=unused)
    return Keeping(messages, bool(found.dead_lettering_on_message_expiration), unused, _path(found.forward_to))


def _path(target: str | None) -> str | None:
    """The path of `target`, which the service returns as a whole address: `sb://NAME.servicebus.windows.net/path`."""
    return (urlsplit(target).path.strip("/") or target) if target else None


def _limited(value: timedelta | str | None) -> timedelta | None:
    if value is None or (time := _duration(value)) >= _NO_END:
        return None
    return time


def _largest(found: QueueProperties | TopicProperties) -> int | None:
    """Only on Premium namespaces (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-premium-messaging#large-messages-support)."""
    kilobytes = found.max_message_size_in_kilobytes
    return kilobytes * 1024 if kilobytes else None


def _status(found: QueueProperties | TopicProperties) -> str:
    return str(getattr(found.status, "value", found.status))


def _duration(value: timedelta | str | None) -> timedelta:
    """The SDK returns a timedelta; text is only what it lets a caller write."""
    if not isinstance(value, timedelta):
        raise TypeError(f"a duration was expected of the management API, not {value!r}")
    return value
