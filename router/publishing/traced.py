"""The senders of an output, each batch of which is a span `route`. Unchanged where no spans are made."""

from __future__ import annotations

from collections.abc import Callable

from common.bus.ports import OpenableSender
from common.bus.settings import OutputSettings
from common.bus.traced import TracedOpenableSender
from common.observability.spans import Spans
from router.outputs.port import Stream

_SYSTEMS = {"azure_service_bus": "servicebus", "azure_event_hubs": "eventhubs"}
"""What the conventions call them; other types have the names of their own."""


def traced(
    output: OutputSettings, senders: Callable[[Stream], OpenableSender], spans: Spans | None
) -> Callable[[Stream], OpenableSender]:
    if spans is None:
        return senders
    attributes = {
        "messaging.system": _SYSTEMS.get(output.type, output.type),
        "messaging.operation.name": "route",
        "messaging.operation.type": "send",
        "dstream.output": output.name,
    }

    def sender(stream: Stream) -> OpenableSender:
        named = {**attributes, "messaging.destination.name": stream.destination}
        return TracedOpenableSender(senders(stream), spans, f"route {stream.destination}", named)

    return sender
