"""How fast the output `azure_event_hubs` sends, beside the bare loop of EventHubProducerClient; against the emulator, in a process of its own.

    .venv/bin/python -m bench.outputs.azure_event_hubs [--messages 8000] [--rounds 5] [--chunk 400]

Both send the same events of one partition key, a batch a chunk, and wait for the answer to each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from azure.eventhub import EventData, EventHubProducerClient

from bench.outputs.compared import compared
from common.message import Message
from router.outputs.azure_event_hubs.output import HubsOutput
from router.outputs.azure_event_hubs.settings import EventHubsOutput
from router.outputs.port import Stream

HUB = "changes"
SESSION = "server.shop.sales.orders.events"

_BODY = json.dumps({"data": {"text": "x" * 480}}).encode()
_PROPERTIES = {
    "table": "Orders",
    "schema": "sales",
    "database": "Shop",
    "operation": "insert",
    "lsn": "0000002a000001f80003",
    "destination": SESSION,
}


@contextmanager
def emulator() -> Iterator[str]:
    """Its connection string."""
    command = [
        sys.executable,
        "-m",
        "emulators.eventhubs",
        "--port",
        "0",
        "--json",
        "--hub",
        f"{HUB}:4",
        "--stop-with-stdin",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        yield str(json.loads(program.stdout.readline())["connection_string"])
        program.terminate()


def messages(way: str, number: int, count: int) -> list[Message]:
    return [
        Message(_BODY, f"{way}-{number}-{each}", SESSION, subject="insert", application_properties=_PROPERTIES)
        for each in range(count)
    ]


def bare(client: EventHubProducerClient, sent: Sequence[Message], chunk: int) -> None:
    for at in range(0, len(sent), chunk):
        batch = client.create_batch(partition_key=SESSION)
        for message in sent[at : at + chunk]:
            event = EventData(message.body)
            event.message_id, event.content_type = message.message_id, message.content_type
            event.properties = dict(message.application_properties)
            batch.add(event)
        client.send_batch(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunk", type=int, default=400)
    options = parser.parse_args()
    with emulator() as address:
        shape = {"type": "azure_event_hubs", "connection_string": address, "event_hub": HUB}
        output = HubsOutput(EventHubsOutput.model_validate(shape))
        sender = output.sender(Stream(SESSION, None, HUB))
        client = EventHubProducerClient.from_connection_string(address, eventhub_name=HUB)

        def dstream(sent: Sequence[Message]) -> None:
            for at in range(0, len(sent), options.chunk):
                sender.send(sent[at : at + options.chunk])

        compared(
            "azure_event_hubs",
            {"dstream": dstream, "azure-eventhub": lambda sent: bare(client, sent, options.chunk)},
            lambda way, number: messages(way, number, options.messages),
            rounds=options.rounds,
            bare="azure-eventhub",
        )
        client.close()
        output.close()


if __name__ == "__main__":
    main()
