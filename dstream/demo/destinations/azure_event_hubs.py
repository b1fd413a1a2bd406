"""The demo's changes in an event hub of the emulator, which is a process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from subprocess import PIPE
from typing import Any

from azure.eventhub import EventData, EventHubConsumerClient, PartitionContext
from azure.eventhub.exceptions import EventHubError

from common.errors import ConfigurationError, PermanentError
from dstream.children import Process, start, stop_all
from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_HUB, _PARTITIONS = "changes", 4
_GROUP, _BEGINNING = "$Default", "-1"
_VARIABLE = "DSTREAM_DEMO_EVENT_HUBS"
_WAIT = 0.5
_STOPS = 10.0


class EventHubsDestination:
    """One hub, which all tables share, as a namespace of the lower tiers makes its users do."""

    ingester = ""
    where = "the Event Hubs emulator"

    def __init__(self, server: str | None) -> None:
        if server is not None:
            raise ConfigurationError(
                ["--server has no meaning with --output azure_event_hubs: the demo starts the emulator"]
            )
        self._process: Process | None = None
        self._connection = ""

    def start(self) -> None:
        command = [sys.executable, "-m", "emulators.eventhubs", "--port", "0", "--hub", f"{_HUB}:{_PARTITIONS}"]
        self._process = start([*command, "--json", "--stop-with-stdin"], stdin=PIPE, stdout=PIPE, stderr=None)
        assert self._process.stdout is not None
        announcement = self._process.stdout.readline()
        if not announcement:
            raise PermanentError("starting the Event Hubs emulator: it ended, and printed the reason")
        self._connection = json.loads(announcement)["connection_string"]

    @property
    def block(self) -> str:
        return f'type = "azure_event_hubs"\nconnection_string = "{{{{ env("{_VARIABLE}") }}}}"\nevent_hub = "{_HUB}"\n'

    @property
    def variables(self) -> Mapping[str, str]:
        return {_VARIABLE: self._connection}

    def reader(self) -> EventHubsReader:
        return EventHubsReader(self._connection)

    def died(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            stop_all([process], _STOPS)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


class EventHubsReader(MessageReader):
    """One consumer of all partitions, from their beginning."""

    def __init__(self, connection: str) -> None:
        super().__init__(TABLES)
        self._client = EventHubConsumerClient.from_connection_string(connection, _GROUP, eventhub_name=_HUB)
        self._tables = {(table.schema, table.table): table for table in TABLES}
        self._threads = [self.thread(self._run, "consumer")]

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._client.receive_batch(self._keep, starting_position=_BEGINNING, max_wait_time=_WAIT)
            except EventHubError:
                self._stop.wait(_WAIT)

    def _keep(self, context: PartitionContext, events: list[EventData]) -> None:
        for event in events:
            told = {_text(name): _text(value) for name, value in (event.properties or {}).items()}
            table = self._tables[told["schema"], told["table"]]
            self.keep(table, event.body_as_str().encode(), event.message_id or "", told.get("operation"))

    def stop(self) -> None:
        self._stop.set()
        self._client.close()
        super().stop()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
