"""Queue, topics and subscriptions: created, or checked, or left alone. Runs once at start, never for a message.

"create" makes what is missing and is content with what is there, so two processes may start at once. "verify" reports what is missing or
was created differently. "none" makes no call at all. Nothing that exists is ever changed or deleted: sessions and duplicate detection
are fixed when an entity is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import structlog
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import ServiceBusAdministrationClient

from common.errors import ConfigurationError, DStreamError, PermanentError, TransientError
from common.servicebus_address import ServiceBusAddress
from common.servicebus_errors import quiet_sdk
from common.topology import Provision

DUPLICATE_DETECTION_WINDOW = timedelta(minutes=10)
"""How long an entity remembers message ids. After a crash at most one page is sent again, as soon as another process holds
the lock (a lease lasts 60 s): ten minutes, the service's own default, cover that several times; a longer memory costs throughput.
The service takes 20 s to 7 days (https://learn.microsoft.com/azure/service-bus-messaging/duplicate-detection)."""

EMULATOR_MANAGEMENT_PORT = 5300
"""Where Microsoft's emulator, and DStream's, serve the management API, over plain HTTP."""

_T = TypeVar("_T")

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
    with _Manager(address, management_endpoint) as manager:
        if how == "create":
            for need in needs:
                manager.create(need)
            return
        problems = [problem for need in needs for problem in manager.differences(need)]
    if problems:
        raise PermanentError(
            "verifying the Service Bus entities: " + "; ".join(problems),
            hint='create them so, or set provision = "create"; provision = "none" skips this check',
        )


def management_address(address: ServiceBusAddress, endpoint: str | None) -> tuple[str, str]:
    """(scheme, host[:port]) of the management API. Raises ConfigurationError for an endpoint that is no http(s) address."""
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise ConfigurationError(
                [f"management_endpoint = {endpoint!r} is not an address such as https://NAME.servicebus.windows.net"]
            )
        return parts.scheme, parts.netloc
    if address.emulator:
        host = f"[{address.hostname}]" if ":" in address.hostname else address.hostname
        return "http", f"{host}:{EMULATOR_MANAGEMENT_PORT}"
    return "https", address.hostname


class _Redirected(RequestsTransport):  # type: ignore[misc]  # azure-core loads transports lazily: their type is unknown
    """Sends the administration client's requests to another address: it knows `https://` and the AMQP endpoint only."""

    def __init__(self, scheme: str, netloc: str, **options: Any) -> None:
        super().__init__(**options)
        self._base = f"{scheme}://{netloc}/"

    def send(self, request: Any, **options: Any) -> Any:
        rest = request.url.removeprefix("https://").partition("/")[2]
        request.url = self._base + rest
        return super().send(request, **options)


def administration(address: ServiceBusAddress, endpoint: str | None) -> tuple[ServiceBusAdministrationClient, str]:
    """(a client of the management API, where that is). Connects at the first call. Raises as `management_address` does."""
    quiet_sdk()
    scheme, netloc = management_address(address, endpoint)
    transport = _Redirected(scheme, netloc, connection_timeout=10, read_timeout=30)
    options: dict[str, Any] = {"transport": transport, "retry_total": 2}
    if address.connection_string is not None:
        return ServiceBusAdministrationClient.from_connection_string(address.connection_string, **options), netloc
    assert address.identity is not None
    return ServiceBusAdministrationClient(address.host, address.identity, **options), netloc


class _Manager:
    """One conversation with the management API."""

    def __init__(self, address: ServiceBusAddress, endpoint: str | None) -> None:
        self._client, self._where = administration(address, endpoint)

    def __enter__(self) -> _Manager:
        self._client.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._client.__exit__(*details)

    def create(self, need: Need) -> None:
        if isinstance(need, QueueNeed):
            self._create(
                need.name,
                lambda: self._client.create_queue(
                    need.name,
                    requires_session=need.sessions,
                    requires_duplicate_detection=True,
                    duplicate_detection_history_time_window=need.duplicate_window,
                ),
            )
            problems = self.differences(need)
            if problems:
                raise PermanentError(
                    f"checking the queue {need.name}: " + "; ".join(problems),
                    hint="a queue's sessions are fixed when it is created: delete it when it is empty, or change queue.ordering",
                )
            return
        self._create(
            need.name,
            lambda: self._client.create_topic(
                need.name,
                requires_duplicate_detection=True,
                duplicate_detection_history_time_window=need.duplicate_window,
                support_ordering=True,
            ),
        )
        for name in need.subscriptions:
            self._create(f"{need.name}/{name}", partial(self._client.create_subscription, need.name, name))

    def _create(self, what: str, call: Callable[[], object]) -> None:
        # Looking first would be one more call and a race; "exists" is the answer to both.
        with self._translated(f"creating {what}"):
            try:
                call()
            except ResourceExistsError:
                return
        log.info("entity created", entity=what)

    def differences(self, need: Need) -> list[str]:
        """What a person should know, one sentence each; empty when all is as wanted."""
        if isinstance(need, QueueNeed):
            return self._queue_differences(need)
        topic = self._get(f"topic {need.name}", lambda: self._client.get_topic(need.name))
        if topic is None:
            return [f"the topic {need.name} does not exist"]
        if not topic.requires_duplicate_detection:
            self._without_duplicate_detection(need.name)
        return [
            f"the topic {need.name} has no subscription {name}"
            for name in need.subscriptions
            if self._get(f"subscription {name}", partial(self._client.get_subscription, need.name, name)) is None
        ]

    def _queue_differences(self, need: QueueNeed) -> list[str]:
        queue = self._get(f"queue {need.name}", lambda: self._client.get_queue(need.name))
        if queue is None:
            return [f"the queue {need.name} does not exist"]
        if not queue.requires_duplicate_detection:
            self._without_duplicate_detection(need.name)
        if bool(queue.requires_session) != need.sessions:
            has, wants = ("has", "none") if queue.requires_session else ("has no", "them")
            return [f"the queue {need.name} {has} sessions, and queue.ordering asks for {wants}"]
        return []

    def _without_duplicate_detection(self, name: str) -> None:
        log.warning(
            "no duplicate detection", entity=name, effect="a change that is sent again after a crash arrives twice"
        )

    def _get(self, what: str, call: Callable[[], _T]) -> _T | None:
        with self._translated(f"reading the settings of the {what}"):
            try:
                return call()
            except ResourceNotFoundError:
                return None
            except AttributeError:
                # The SDK reads a topic's entry as a queue's (or the other way round) and finds no description.
                return None

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (HttpResponseError, ServiceRequestError, ServiceResponseError, OSError) as error:
            raise management_error(error, f"{doing} at {self._where}") from error


def management_error(error: Exception, doing: str) -> DStreamError:
    """The administration client's exceptions by what a caller can do about them."""
    text = f"{doing}: {' '.join(str(error).split())[:500]}"
    status = getattr(error, "status_code", None)
    if isinstance(error, ClientAuthenticationError) or status in {401, 403}:
        return PermanentError(
            text,
            hint=(
                "this needs a policy with the Manage right, or an identity with the role Azure Service Bus Data Owner; without one, "
                'create the entities beforehand and set provision = "none"'
            ),
        )
    if isinstance(error, HttpResponseError) and status is not None and 400 <= status < 500 and status not in {408, 429}:
        return PermanentError(text)
    return TransientError(text)
