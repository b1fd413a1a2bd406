"""The namespace of the contract: the emulator, and what its tests do with Azure's own clients."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from azure.eventhub import EventData, EventDataBatch, EventHubConsumerClient, EventHubProducerClient, PartitionContext

from emulators.eventhubs.server import EventHubsEmulator

PATIENCE = 30.0
"""Seconds that only a hang can reach."""


class Hubs:
    """Hubs of one emulator, and clients that do not retry."""

    def __init__(self, emulator: EventHubsEmulator) -> None:
        self.emulator = emulator
        self._clients: list[EventHubProducerClient | EventHubConsumerClient] = []

    def new(self, partitions: int = 2, *groups: str) -> str:
        """A new hub; its name."""
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.emulator.create_hub(name, partitions, groups)
        return name

    def producer(self, hub: str, policy: str = "RootManageSharedAccessKey") -> EventHubProducerClient:
        """Closed with the test."""
        address = self.emulator.connection_string_for(policy)
        made = EventHubProducerClient.from_connection_string(
            address, eventhub_name=hub, retry_total=0, retry_backoff_factor=0
        )
        self._clients.append(made)
        return made

    def consumer(
        self, hub: str, group: str = "$Default", policy: str = "RootManageSharedAccessKey"
    ) -> EventHubConsumerClient:
        """Closed with the test."""
        address = self.emulator.connection_string_for(policy)
        made = EventHubConsumerClient.from_connection_string(
            address, group, eventhub_name=hub, retry_total=0, retry_backoff_factor=0
        )
        self._clients.append(made)
        return made

    def send(self, hub: str, *bodies: str, key: str | None = None, partition: str | None = None) -> None:
        """Events of one batch."""
        producer = self.producer(hub)
        producer.send_batch(batch_of(producer, *bodies, key=key, partition=partition))

    def read(
        self, hub: str, count: int, group: str = "$Default", position: Any = "-1", **options: Any
    ) -> list[EventData]:
        """So many events of all partitions; those of each in order."""
        return self.reading(hub, group, position, **options).first(count)

    def reading(self, hub: str, group: str = "$Default", position: Any = "-1", **options: Any) -> Reading:
        """A consumer that reads until the test ends, or until it is refused."""
        return Reading(self.consumer(hub, group), {"starting_position": position} | options)

    def bodies(self, hub: str, count: int, **options: Any) -> list[str]:
        return [event.body_as_str() for event in self.read(hub, count, **options)]

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Reading:
    """A consumer in a thread of its own. `trouble`: why it was refused, or ended."""

    def __init__(self, client: EventHubConsumerClient, options: dict[str, Any]) -> None:
        self.events: list[EventData] = []
        self.trouble: Exception | None = None
        self._changed = threading.Condition()
        self._client = client
        self._thread = threading.Thread(target=self._run, args=(options,), daemon=True)
        self._thread.start()

    def _run(self, options: dict[str, Any]) -> None:
        self._client.receive_batch(self._on_batch, max_wait_time=0.2, on_error=self._on_error, **options)

    def _on_batch(self, context: PartitionContext, events: list[EventData]) -> None:
        with self._changed:
            self.events += events
            self._changed.notify_all()

    def _on_error(self, context: PartitionContext | None, error: Exception) -> None:
        with self._changed:
            self.trouble = self.trouble or error
            self._changed.notify_all()

    def first(self, count: int) -> list[EventData]:
        """Once they are there; then the client is closed."""
        self.wait(lambda: len(self.events) >= count or self.trouble is not None)
        self._client.close()
        assert self.trouble is None, self.trouble
        assert len(self.events) >= count, f"{len(self.events)} of {count} events came"
        return self.events

    def refused(self) -> str:
        """The words, once it is refused."""
        self.wait(lambda: self.trouble is not None)
        self._client.close()
        assert self.trouble is not None, "it was not refused"
        return str(self.trouble)

    def wait(self, until: Callable[[], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(until, PATIENCE)


def batch_of(
    producer: EventHubProducerClient, *bodies: str, key: str | None = None, partition: str | None = None
) -> EventDataBatch:
    batch = producer.create_batch(partition_key=key, partition_id=partition)
    for body in bodies:
        batch.add(EventData(body))
    return batch
