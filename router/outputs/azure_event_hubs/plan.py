"""What an output on Event Hubs needs, for a person, with the commands of the Azure CLI that make it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from common.bus.ports import Provision
from router.outputs.azure_event_hubs.settings import EventHubsOutput
from router.outputs.port import Planned, Stream

PARTITIONS = 4
"""Of the commands: few enough for every tier, and as many as the portal's examples have."""


def planned(settings: EventHubsOutput, streams: Sequence[Stream], provision: Provision) -> Planned:
    """A start creates nothing, whatever `provision` is: hubs are made by Azure's management, which takes other rights than sending."""
    hubs = list(dict.fromkeys(stream.destination for stream in streams))
    needs = [f"event hub {hub}, which a start does not create" for hub in hubs]
    if settings.by_key:
        needs += [f"the right Send on {hub}, or on the namespace: a shared access policy" for hub in hubs]
    else:
        needs += [f"the role Azure Event Hubs Data Sender on {hub}, or on the namespace" for hub in hubs]
    return Planned([], needs, "".join(f"{line}\n" for line in _commands(settings, hubs)))


def _commands(settings: EventHubsOutput, hubs: Sequence[str]) -> list[str]:
    namespace = settings.where.partition(".")[0].partition(":")[0]
    to = f"--resource-group RESOURCE_GROUP --namespace-name {namespace}"
    lines = [f"az eventhubs eventhub create {to} --name {hub} --partition-count {PARTITIONS}" for hub in hubs]
    if settings.by_key:
        for hub in hubs:
            lines.append(
                f"az eventhubs eventhub authorization-rule create {to} --eventhub-name {hub} --name dstream-router --rights Send"
            )
        return lines
    scope = f"$(az eventhubs namespace show --resource-group RESOURCE_GROUP --name {namespace} --query id --output tsv)"
    for hub in hubs:
        lines.append(
            'az role assignment create --role "Azure Event Hubs Data Sender" --assignee PRINCIPAL_ID '
            f'--scope "{scope}/eventhubs/{hub}"'
        )
    return lines
