"""The Terraform file: parsed, and its resources and arguments held to the provider's documentation."""

from __future__ import annotations

import re
from typing import Any

import hcl2
import pytest

from dstream.plan import terraform
from dstream.plan.templates import hcl
from tests.unit.dstream.plan.conftest import Plan
from tests.unit.dstream.plan.test_bicep import VARIANTS

DOCUMENTED: dict[str, set[str]] = {
    "azurerm_servicebus_namespace": {
        *("name", "resource_group_name", "location", "sku", "capacity", "premium_messaging_partitions"),
        "local_auth_enabled",
    },
    "azurerm_servicebus_queue": {
        *("name", "namespace_id", "lock_duration", "max_message_size_in_kilobytes", "max_size_in_megabytes"),
        *("requires_duplicate_detection", "requires_session", "dead_lettering_on_message_expiration"),
        *("duplicate_detection_history_time_window", "max_delivery_count", "partitioning_enabled"),
    },
    "azurerm_servicebus_topic": {
        *("name", "namespace_id", "duplicate_detection_history_time_window", "max_message_size_in_kilobytes"),
        *("max_size_in_megabytes", "requires_duplicate_detection", "support_ordering", "partitioning_enabled"),
    },
    "azurerm_servicebus_subscription": {"name", "topic_id", "max_delivery_count"},
    "azurerm_storage_account": {
        *("name", "resource_group_name", "location", "account_tier", "account_replication_type"),
        *("allow_nested_items_to_be_public", "shared_access_key_enabled"),
    },
    "azurerm_storage_container": {"name", "storage_account_id", "container_access_type"},
    "azurerm_user_assigned_identity": {"name", "resource_group_name", "location"},
    "azurerm_federated_identity_credential": {"name", "user_assigned_identity_id", "issuer", "subject", "audience"},
    "azurerm_role_assignment": {"scope", "role_definition_name", "principal_id", "principal_type"},
}
"""Of https://registry.terraform.io/providers/hashicorp/azurerm, its fifth major version."""


def resources(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """By type and name."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for block in hcl2.loads(text)["resource"]:
        ((kind, named),) = ((key.strip('"'), value) for key, value in block.items())
        ((name, body),) = ((key.strip('"'), value) for key, value in named.items())
        assert (kind, name) not in found
        found[kind, name] = {key: value for key, value in body.items() if not key.startswith("__")}
    return found


@pytest.mark.parametrize("changed", VARIANTS, ids=str)
def test_every_argument_is_documented_and_every_name_defined(plan: Plan, changed: dict[str, str]) -> None:
    text = terraform.written(plan(**changed))
    found = resources(text)
    for (kind, name), body in found.items():
        assert set(body) - {"for_each", "count"} <= DOCUMENTED[kind], name
    for kind, name in re.findall(r"\b(azurerm_\w+)\.(\w+)[.\[]", re.sub(r"data\.azurerm_\w+\.\w+", "", text)):
        assert (kind, name) in found
    variables = set(re.findall(r'^variable "(\w+)"', text, re.M))
    assert set(re.findall(r"\bvar\.(\w+)", text)) <= variables


def test_it_plans_what_the_bicep_file_plans(plan: Plan) -> None:
    found = resources(terraform.written(plan(queue="cdc/ingest")))
    queue = found["azurerm_servicebus_queue", "queue"]
    assert queue["name"].strip('"') == "cdc/ingest"
    assert (queue["requires_session"], queue["max_delivery_count"]) == (True, 2000)
    roles = {body["role_definition_name"].strip('"') for (kind, _), body in found.items() if "role" in kind}
    assert roles == {
        "Azure Service Bus Data Sender",
        "Azure Service Bus Data Receiver",
        "Azure Service Bus Data Owner",
        "Storage Blob Data Contributor",
    }


def test_text_is_escaped() -> None:
    assert hcl('say "${it}" %{if}') == '"say \\"$${it}\\" %%{if}"'
