"""The emulator of Event Hubs as the server of the contract, read by the consumer client of azure-eventhub."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from azure.eventhub import EventData, EventHubConsumerClient, PartitionContext

from common.message import Message
from common.names import TableName
from emulators.eventhubs.hub import HubExists
from emulators.eventhubs.server import EventHubsEmulator
from emulators.servicebus.faults import catalogue as faults
from router.outputs.azure_event_hubs.output import HubsOutput
from router.outputs.azure_event_hubs.pool import BUSY
from router.outputs.azure_event_hubs.settings import EventHubsOutput
from router.outputs.port import Stream
from tests.outputs.contract.world import GENEROUS, Arrival, Recipe, World
from tests.worlds.ports import free_port

KEYS = {"RootManageSharedAccessKey": "the root's key", "Sender": "the sender's key", "Listener": "the listener's key"}
RIGHTS = {"Sender": ["Send"], "Listener": ["Listen"]}
LARGEST = 1 << 20
_NOT_MADE = "an event hub is made by Azure's management, which an output cannot reach: a start verifies, whatever provision says"


def output(port: int, policy: str, timeout: float) -> HubsOutput:
    """An output in any process."""
    address = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName={policy};SharedAccessKey={KEYS[policy]}"
    given: dict[str, Any] = {
        "type": "azure_event_hubs",
        "connection_string": f"{address};UseDevelopmentEmulator=true",
        "event_hub": "{database}.{schema}.{table}",
        "timeout": f"{timeout}s",
    }
    return HubsOutput(EventHubsOutput.model_validate(given))


class HubsWorld(World):
    impossible: ClassVar[Mapping[str, str]] = {
        "test_messages_without_a_session_keep_their_order": "their partition follows from the id, so that copies share one",
        "test_a_missing_place_that_is_created_is_used_by_the_same_sender": _NOT_MADE,
        "test_provision_creates_and_can_be_repeated": _NOT_MADE,
        "test_findings_of_a_place_that_a_start_creates": _NOT_MADE,
    }
    secrets = tuple(KEYS.values())

    def __init__(self) -> None:
        super().__init__()
        self._data = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._port = free_port()
        self._emulator: EventHubsEmulator | None = None

    @property
    def emulator(self) -> EventHubsEmulator:
        assert self._emulator is not None, "it is stopped"
        return self._emulator

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        self._emulator = EventHubsEmulator(port=self._port, keys=KEYS, rights=RIGHTS, data=self._data)
        self._emulator.start()

    def stop(self) -> None:
        emulator, self._emulator = self._emulator, None
        if emulator is not None:
            emulator.stop()

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        return self._recipe("Sender", timeout)

    def without_right(self, stream: Stream) -> Recipe:
        return self._recipe("Listener", GENEROUS)

    def _recipe(self, policy: str, timeout: float) -> Recipe:
        arguments = {"port": self.relay.port, "policy": policy, "timeout": timeout}
        return Recipe("tests.outputs.azure_event_hubs.world:output", arguments)

    def place(self) -> Stream:
        stream = self.nowhere()
        self.emulator.create_hub(stream.destination, 4)
        return stream

    def shared(self, hub: str, count: int) -> Sequence[Stream]:
        """Streams that all go to one hub."""
        with suppress(HubExists):
            self.emulator.create_hub(hub, 4)
        return [replace(self.nowhere(), destination=hub) for _ in range(count)]

    def destination(self, table: TableName) -> str:
        return f"shop.{table.schema}.{table.table.lower()}"

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        """Of the hub, past the relay, in the order of each partition."""
        events = self.read(stream.destination)
        return [Arrival(str(event.message_id), _key(event), event.body_as_str().encode()) for event in events]

    def read(self, hub: str) -> list[EventData]:
        """Every event of a hub, those of each partition in order."""
        wanted, found = self.emulator.events(hub), list[EventData]()
        if wanted == 0:
            return []
        all_there = threading.Event()

        def on_batch(context: PartitionContext, events: list[EventData]) -> None:
            found.extend(events)
            if len(found) >= wanted:
                all_there.set()

        client = EventHubConsumerClient.from_connection_string(
            self.emulator.connection_string_for("Listener"), "$Default", eventhub_name=hub, retry_total=0
        )
        reading = threading.Thread(
            target=lambda: client.receive_batch(on_batch, starting_position="-1", max_wait_time=1), daemon=True
        )
        reading.start()
        assert all_there.wait(60), f"{len(found)} of {wanted} events were read"
        client.close()
        reading.join(30)
        return found

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        large = self.message(stream, number, session)
        body = json.loads(large.body)
        body["data"]["LastName"] = "x" * LARGEST
        return replace(large, body=json.dumps(body).encode())

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The output does not ask again for as long as the service asks it to wait."""
        with self.emulator.inject(faults.ServerBusy(3600)):
            yield
        time.sleep(BUSY)


def _key(event: EventData) -> str | None:
    key = event.partition_key
    return key.decode() if isinstance(key, bytes) else key
