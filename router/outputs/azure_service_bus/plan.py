"""What an output on Service Bus creates and needs, for a person. Pure. `dstream plan` writes the same for Bicep, Terraform and the Azure CLI."""

from __future__ import annotations

from collections.abc import Sequence

from common.bus.ports import Provision
from router.outputs.around import Around
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.outputs.port import Planned, Stream


def planned(settings: ServiceBusOutput, streams: Sequence[Stream], provision: Provision, around: Around) -> Planned:
    """The entities of `streams`, each once."""
    places = list(dict.fromkeys(stream.destination for stream in streams))
    kind = "queue" if settings.of_queues else "topic"
    names = [f"{kind} {place}" for place in places]
    subscribed = [
        f"subscription {name} on {each}" for each in names for name in around.subscriptions if kind == "topic"
    ]
    creates = [*names, *subscribed] if provision == "create" else []
    manages = {"create": "Manage", "verify": "Manage, to look at them", "none": None}[provision]
    needs = [f"Send on {each}" for each in names] + ([] if manages is None else [f"{manages}, on the namespace"])
    return Planned(creates, needs, "")
