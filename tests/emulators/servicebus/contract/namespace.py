"""A namespace for the contract: a real one, Microsoft's emulator, or ours, all through Azure's own clients.

Nothing here knows which it is but for two things: how time passes (our emulator's clock is moved, elsewhere one waits) and
where the management API listens (emulators speak plain HTTP on a port of their own). Entities get names of their own and
are deleted with the namespace.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.emulators.servicebus.contract.receiving import take

Handler = TypeVar("Handler", ServiceBusSender, ServiceBusReceiver)

SECOND = timedelta(seconds=1)
LOCK = 5 * SECOND
"""The shortest lock that Service Bus allows."""


class Counts(NamedTuple):
    """Messages of an entity, and its size in octets."""

    active: int
    dead: int
    scheduled: int
    size: int


class PlainTransport(RequestsTransport):  # type: ignore[misc]
    """HTTP where the administration client insists on HTTPS: an emulator's management port."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def send(self, request: Any, **options: Any) -> Any:
        host_and_path = request.url.removeprefix("https://").partition("/")
        request.url = f"http://{self._address}/{host_and_path[2]}"
        return super().send(request, **options)


class Namespace:
    """`management`: host:port of an emulator's management API, None for a namespace on Azure. `let_pass` takes time away.

    `clock` is the service's, in seconds since the Unix epoch.
    """

    def __init__(
        self,
        connection_string: str,
        management: str | None,
        let_pass: Callable[[timedelta], None],
        real: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.connection_string = connection_string
        self.management = management
        self.let_pass = let_pass
        self.real = real
        self._clock = clock
        self.admin = self.administration(connection_string)
        self.client = self.connect()
        self._prefix = f"contract-{uuid.uuid4().hex[:8]}"
        self._made: list[tuple[Callable[[str], None], str]] = []
        self._handlers: list[ServiceBusSender | ServiceBusReceiver] = []
        self._closing: list[threading.Thread] = []

    def administration(self, connection_string: str) -> ServiceBusAdministrationClient:
        """An administration client with other rights."""
        options = {} if self.management is None else {"transport": PlainTransport(self.management)}
        return ServiceBusAdministrationClient.from_connection_string(connection_string, **options)

    def connect(self, connection_string: str | None = None, **options: Any) -> ServiceBusClient:
        """A client that does not retry unless told to; the caller closes it."""
        settings = {"retry_total": 0, "keep_alive": 0} | options
        return ServiceBusClient.from_connection_string(connection_string or self.connection_string, **settings)

    # -- entities

    def new_name(self) -> str:
        """A name that nobody has."""
        return f"{self._prefix}-{len(self._made)}-{uuid.uuid4().hex[:4]}"

    def queue(self, **settings: Any) -> str:
        """A new queue, its lock short unless said otherwise; its name."""
        name = self.new_name()
        self._made.append((self.admin.delete_queue, name))
        self.admin.create_queue(name, **({"lock_duration": LOCK} | settings))
        return name

    def topic(self, **settings: Any) -> str:
        """A new topic; its name."""
        name = self.new_name()
        self._made.append((self.admin.delete_topic, name))
        self.admin.create_topic(name, **settings)
        return name

    def subscription(self, topic: str, name: str = "subscription", **settings: Any) -> str:
        """A new subscription, its lock short unless said otherwise; its name."""
        self.admin.create_subscription(topic, name, **({"lock_duration": LOCK} | settings))
        return name

    # -- messages

    def sender(self, queue: str) -> ServiceBusSender:
        """Opened; closed with the test."""
        return self._opened(self.client.get_queue_sender(queue))

    def topic_sender(self, topic: str) -> ServiceBusSender:
        """Opened; closed with the test."""
        return self._opened(self.client.get_topic_sender(topic))

    def receiver(self, queue: str, **options: Any) -> ServiceBusReceiver:
        """Opened; closed with the test."""
        return self._opened(self.client.get_queue_receiver(queue, **options))

    def subscriber(self, topic: str, subscription: str = "subscription", **options: Any) -> ServiceBusReceiver:
        """Opened; closed with the test."""
        return self._opened(self.client.get_subscription_receiver(topic, subscription, **options))

    def send(self, queue: str, *bodies: str, **properties: Any) -> None:
        """Messages of one batch, all with the same properties."""
        self.sender(queue).send_messages([ServiceBusMessage(body, **properties) for body in bodies])

    def dead_letters(self, queue: str, **options: Any) -> ServiceBusReceiver:
        """A receiver of the queue's dead letters, opened; closed with the test."""
        return self.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, **options)

    def nothing(self, receiver: ServiceBusReceiver) -> bool:
        """Does nothing come? The receiver keeps its credit: it gets the next message, and no other receiver before it."""
        return receiver.receive_messages(1, max_wait_time=5 if self.real else 0.2) == []

    def drain(self, queue: str, count: int) -> list[str]:
        """Take so many messages out, by receive-and-delete; their bodies."""
        receiver = self.receiver(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
        return [str(message) for message in take(receiver, count)]

    def counts(self, queue: str) -> Counts:
        """Of a queue, as the administration tells it."""
        told = self.admin.get_queue_runtime_properties(queue)
        return Counts(
            told.active_message_count or 0,
            told.dead_letter_message_count or 0,
            told.scheduled_message_count or 0,
            told.size_in_bytes or 0,
        )

    def subscription_counts(self, topic: str, subscription: str = "subscription") -> Counts:
        """Of a subscription, as the administration tells it, but for its size, which counts as the topic's."""
        told = self.admin.get_subscription_runtime_properties(topic, subscription)
        return Counts(told.active_message_count or 0, told.dead_letter_message_count or 0, 0, 0)

    def now(self) -> datetime:
        """By the service's clock."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def _opened(self, handler: Handler) -> Handler:
        handler.__enter__()
        self._handlers.append(handler)
        return handler

    # -- the end

    def close_handlers(self) -> None:
        """Close the test's senders and receivers; each takes the SDK up to a second, for which nobody waits here."""
        for handler in self._handlers:
            thread = threading.Thread(target=handler.close)
            thread.start()
            self._closing.append(thread)
        self._handlers.clear()

    def close(self) -> None:
        """Delete what was made."""
        self.close_handlers()
        for thread in self._closing:
            thread.join()
        for delete, name in self._made:
            try:
                delete(name)
            except Exception as error:  # a test may have deleted it, or never made it
                if type(error).__name__ != "ResourceNotFoundError":
                    raise
        self.client.close()
        self.admin.close()
