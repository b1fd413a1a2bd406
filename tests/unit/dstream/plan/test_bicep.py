"""The Bicep file: parsed, its properties held to Microsoft's reference, its names to what is defined. No compiler can be had here."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from pycep import BicepParser

from common.bus.ports import QueueNeed, TopicNeed
from common.bus.shapes import queue_options, topic_options
from dstream.plan import bicep
from dstream.plan.templates import bicep as literal
from dstream.plan.templates import camel
from tests.unit.dstream.plan.conftest import Plan

KEY = 'connection_string = "{{ env("NOT_SET") }}"'
VARIANTS: list[dict[str, str]] = [
    {},
    {"provision": "create"},
    {"topics_bus": 'namespace = "other.servicebus.windows.net"', "queue_more": "pack = 10"},
    {"bus": KEY, "topics_bus": KEY, "locks": 'type = "sqlserver"', "router": "subscriptions = []"},
    {"queue": "cdc/ingest", "queue_more": 'ordering = "none"', "locks": 'type = "azure_blob"\n' + KEY},
]

DOCUMENTED: dict[str, tuple[set[str], set[str]]] = {
    "Microsoft.ServiceBus/namespaces": ({"name", "location", "sku"}, {"disableLocalAuth", "minimumTlsVersion"}),
    "Microsoft.ServiceBus/namespaces/queues": (
        {"parent", "name"},
        {
            *("autoDeleteOnIdle", "deadLetteringOnMessageExpiration", "defaultMessageTimeToLive", "enableExpress"),
            *("duplicateDetectionHistoryTimeWindow", "enableBatchedOperations", "enablePartitioning", "forwardTo"),
            *("forwardDeadLetteredMessagesTo", "lockDuration", "maxDeliveryCount", "maxMessageSizeInKilobytes"),
            *("maxSizeInMegabytes", "requiresDuplicateDetection", "requiresSession", "status"),
        },
    ),
    "Microsoft.ServiceBus/namespaces/topics": (
        {"parent", "name"},
        {
            *("autoDeleteOnIdle", "defaultMessageTimeToLive", "duplicateDetectionHistoryTimeWindow", "enableExpress"),
            *("enableBatchedOperations", "enablePartitioning", "maxMessageSizeInKilobytes", "maxSizeInMegabytes"),
            *("requiresDuplicateDetection", "status", "supportOrdering"),
        },
    ),
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": ({"parent", "name"}, set()),
    "Microsoft.Storage/storageAccounts": (
        {"name", "location", "kind", "sku"},
        {"allowBlobPublicAccess", "allowSharedKeyAccess", "minimumTlsVersion", "supportsHttpsTrafficOnly"},
    ),
    "Microsoft.Storage/storageAccounts/blobServices": ({"parent", "name"}, set()),
    "Microsoft.Storage/storageAccounts/blobServices/containers": ({"parent", "name"}, set()),
    "Microsoft.ManagedIdentity/userAssignedIdentities": ({"name", "location"}, set()),
    "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials": (
        {"parent", "name"},
        {"issuer", "subject", "audiences"},
    ),
    "Microsoft.Authorization/roleAssignments": (
        {"name", "scope"},
        {"roleDefinitionId", "principalId", "principalType"},
    ),
}
"""What https://learn.microsoft.com/azure/templates/ documents of each type: keys of the resource, and of `properties`."""


_PARSER = BicepParser()


def parsed(text: str) -> dict[str, Any]:
    return dict(_PARSER.parse(text=text))


def body(resource: dict[str, Any]) -> dict[str, Any]:
    """Inside its loop and its condition."""
    config: dict[str, Any] = resource["config"]
    while "config" in config:
        config = config["config"]
    return config


@pytest.mark.parametrize("changed", VARIANTS, ids=str)
def test_every_property_is_documented_and_every_name_defined_once(plan: Plan, changed: dict[str, str]) -> None:
    text = bicep.written(plan(**changed))
    file = parsed(text)
    for symbol, resource in file["resources"].items():
        keys, properties = DOCUMENTED[resource["type"]]
        assert set(body(resource)) - {"properties"} == keys, symbol
        assert set(body(resource).get("properties") or {}) <= properties, symbol
    defined = Counter(re.findall(r"^(?:param|var|resource) (\w+) ", text, re.M))
    assert set(defined.values()) == {1}
    assert set(file["parameters"]) | set(file["variables"]) | set(file["resources"]) == set(defined)
    inner = {"name", "topic", "i"}
    named = re.findall(
        r"^\s*(?:parent|scope): (\w+)|\b(\w+)!?\.(?:id|properties)\b|\$\{(\w+)\}|, (\w+Role)\)", text, re.M
    )
    assert named
    for name in (each for found in named for each in found if each):
        assert name in defined or name in inner, name


def test_entities_are_made_as_the_services_themselves_would_make_them(plan: Plan) -> None:
    resources = parsed(bicep.written(plan()))["resources"]
    for symbol, options in (
        ("queue", queue_options(QueueNeed("ingest-queue", sessions=True))),
        ("topics", topic_options(TopicNeed("t"))),
    ):
        properties = body(resources[symbol])["properties"]
        expected = {camel(name): "PT10M" if isinstance(value, timedelta) else value for name, value in options.items()}
        assert expected.items() <= properties.items()
        assert properties["enablePartitioning"] is False
    assert body(resources["queue"])["properties"]["maxDeliveryCount"] == 2000


def test_the_service_accounts_are_those_of_the_manifests(plan: Plan) -> None:
    text = bicep.written(plan())
    for account in ("dstream-ingester", "dstream-router"):
        assert f"subject: 'system:serviceaccount:${{kubernetesNamespace}}:{account}'" in text


def test_a_slash_in_an_entity_is_a_tilde_in_resource_manager(plan: Plan) -> None:
    assert body(parsed(bicep.written(plan(queue="cdc/ingest")))["resources"]["queue"])["name"] == "cdc~ingest"


def test_keys_stay_allowed_where_the_configuration_uses_one(plan: Plan) -> None:
    def local_auth(**changed: str) -> bool:
        resources = parsed(bicep.written(plan(**changed)))["resources"]
        return not body(resources["bus"])["properties"]["disableLocalAuth"]

    assert local_auth(bus=KEY, topics_bus=KEY)
    assert not local_auth()


def test_text_is_escaped() -> None:
    assert literal("it's ${here} \\") == r"'it\'s \${here} \\'"


def test_durations_are_iso() -> None:
    times = [timedelta(seconds=20), timedelta(minutes=10), timedelta(hours=168), timedelta(days=1, minutes=1)]
    assert [literal(time) for time in times] == ["'PT20S'", "'PT10M'", "'P7D'", "'P1DT1M'"]
