"""The destinations of the demo by the `type` of their output. The one place to add another."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from common.errors import ConfigurationError
from dstream.demo.destinations.port import Destination

_CLASSES: Final = {
    "azure_event_hubs": "EventHubsDestination",
    "elasticsearch": "ElasticsearchDestination",
    "file": "FileDestination",
    "kafka": "KafkaDestination",
    "nats": "NatsDestination",
    "postgres": "PostgresDestination",
    "webhook": "WebhookDestination",
}

NAMES: Final = tuple(_CLASSES)


def destination(name: str, server: str | None) -> Destination:
    """`server`: one that runs already, as the destination understands it. Raises ConfigurationError."""
    if name not in _CLASSES:
        raise ConfigurationError(
            [f"--output {name}: the demo can send to {', '.join(NAMES)}"], hint="without --output it sends to topics"
        )
    try:
        module = import_module(f"dstream.demo.destinations.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("dstream"):
            raise
        raise ConfigurationError(
            [f"--output {name} needs the library {error.name}, which is not installed"],
            hint=f"pip install 'dstream-cdc[{name}]'",
        ) from error
    found: Destination = getattr(module, _CLASSES[name])(server)
    return found
