"""One link to one event hub, with a connection of its own: opened, used by one thread at a time, closed. Every call ends within its time.

The SDK retries by itself, sleeps in between, and after any error its producer client sends the same batch once more over a new link. Here its
producer is used without that client's second attempt, and with no retries: a send fails at once, and the caller decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from azure.eventhub import EventDataBatch, EventHubProducerClient, TransportType

from common.azure_amqp.address import ServiceBusAddress
from common.azure_amqp.deadline import Guard
from common.azure_amqp.links import tend
from common.clock import SteadyClock, steady
from common.in_time import in_time
from router.outputs.azure_event_hubs.errors import UNKNOWN, behind, condition_of, rejected

OPEN_TIMEOUT = 20.0
"""Seconds for one attempt to open a link, name, TLS and sign-in included; a healthy one takes about half a second."""

CLOSE_TIMEOUT = 2.0
"""Seconds for closing. Closing speaks to the peer, which may be gone."""

SLACK = 5.0
"""Seconds by which the SDK's own timeouts are longer than the guard's, which really ends a call and has the clearer error."""

WRITE_TIMEOUT = 10.0
"""Seconds for the system to accept a frame (64 KB): a write over TLS succeeds as a whole within its time or fails, and the SDK's own 0.2 s is
too little for an uplink of 100 KB/s."""

FRESH = 120.0
"""Seconds without use after which a link is not trusted: nobody reads it meanwhile, and the service closes a connection that is silent for
240 s (the idle timeout that it announces)."""

EMULATOR_PORT = 5672

log = structlog.get_logger(__name__)


class HubLink:
    """`open` first. Raises what the SDK and the guard raise. `sound`: whether it is open and its state is known."""

    def __init__(self, address: ServiceBusAddress, hub: str, *, clock: SteadyClock = steady) -> None:
        self.hub = hub
        self._address = address
        self._clock = clock
        self.guard = Guard(str(address))
        self._client: Any = None
        self._producer: Any = None
        self._used = clock()
        self.sound = False

    @property
    def fresh(self) -> bool:
        return self._clock() - self._used < FRESH

    @property
    def largest(self) -> int:
        """Bytes of the largest publication, as the link states them."""
        return int(self._producer._max_message_size_on_link)

    def open(self, seconds: float) -> None:
        self._client = _client(self._address, self.hub, seconds)
        self._producer = self._client._create_producer()
        tend(self._producer, self.guard)
        try:
            with self.guard.within(seconds, f"opening a link to {self.hub}"), _told():
                self._producer._open_with_retry()
        except BaseException:
            self.close()
            raise
        self._used, self.sound = self._clock(), True

    def batch(self, key: str) -> EventDataBatch:
        return EventDataBatch(max_size_in_bytes=self.largest, partition_key=key)

    def send(self, batch: EventDataBatch, seconds: float) -> None:
        """Returns when the service has accepted all of `batch`. A rejection leaves the link as it was (AMQP 1.0, 3.4.3)."""
        self.sound = False
        try:
            with self.guard.within(seconds, f"sending to {self.hub}"), _told():
                self._producer.send(batch, timeout=seconds + SLACK)
        except Exception as error:
            self.sound = rejected(error)
            if (reason := self._detached(error)) is not None:
                raise reason from error
            raise
        self._used, self.sound = self._clock(), True

    def _detached(self, error: Exception) -> Exception | None:
        """Why the service has detached the link, where the SDK says only that the error is unknown."""
        if condition_of(behind(error)) != UNKNOWN:
            return None
        link = getattr(getattr(self._producer, "_handler", None), "_link", None)
        reason = getattr(link, "_error", None)
        return reason if isinstance(reason, Exception) else None

    def partitions(self, seconds: float) -> int:
        """How many the hub has, asked over another connection, which nothing can interrupt. Raises TimeoutError."""
        client = self._client
        return len(in_time(seconds, client.get_partition_ids, same=("partitions", str(self._address), self.hub)))

    def close(self) -> None:
        producer, client, self._producer, self._client, self.sound = self._producer, self._client, None, None, False
        with self.guard.within(CLOSE_TIMEOUT, "closing"):
            for handle in (producer, client):
                if handle is not None:
                    try:
                        handle.close()
                    except (
                        Exception
                    ) as error:  # closing speaks to a peer that may be gone, and a caller could do nothing about it
                        log.debug("closing failed", kind=type(handle).__name__, error=type(error).__name__)
        self.guard.handle = None


@contextmanager
def _told() -> Iterator[None]:
    """What the SDK stumbles over when its connection is gone under its feet leaves as what it is, a broken connection."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        raise ConnectionResetError(
            f"the connection broke ({type(error).__name__} in azure-eventhub: {error})"
        ) from error


def _client(address: ServiceBusAddress, hub: str, seconds: float) -> EventHubProducerClient:
    """Does not connect yet."""
    options: dict[str, Any] = {
        "retry_total": 0,
        "retry_backoff_factor": 0,
        "socket_timeout": WRITE_TIMEOUT,
        "auth_timeout": seconds + SLACK,
    }
    if address.way.websocket:
        options["transport_type"] = TransportType.AmqpOverWebsocket
        if address.emulator:  # the SDK leaves its port out
            options["custom_endpoint_address"] = f"sb://{address.hostname}:{address.port or EMULATOR_PORT}"
    if address.way.proxy is not None:
        options["http_proxy"] = address.way.proxy.for_sdk()
    if address.way.ca_file is not None:
        options["connection_verify"] = address.way.ca_file
    if address.connection_string is not None:
        return EventHubProducerClient.from_connection_string(address.connection_string, eventhub_name=hub, **options)
    assert address.identity is not None
    return EventHubProducerClient(address.host, hub, address.identity, **options)
