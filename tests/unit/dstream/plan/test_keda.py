"""The ScaledObject: its numbers follow from the settings, and its keys are those of KEDA's resources."""

from __future__ import annotations

import re

import pytest

from dstream.plan import keda
from tests.unit.dstream.plan.conftest import Plan

KEYS = {
    *("apiVersion", "kind", "metadata", "name", "spec", "podIdentity", "provider", "identityId"),
    *("scaleTargetRef", "pollingInterval", "minReplicaCount", "maxReplicaCount", "fallback", "failureThreshold"),
    *("replicas", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown", "scaleUp", "policies", "type"),
    *("value", "periodSeconds", "stabilizationWindowSeconds", "triggers", "authenticationRef"),
    *("queueName", "namespace", "cloud", "messageCount"),
}
"""Of ScaledObject and TriggerAuthentication (keda.sh/v1alpha1), the autoscaler's behaviour, and the trigger's metadata."""


@pytest.mark.parametrize(
    ("queue", "router", "most"),
    [
        ('ordering = "table"', "slots = 8", 2),
        ('ordering = "key"', "slots = 8", 16),
        ('ordering = "key"', "slots = 8\n    workers = 4", 4),
        ('ordering = "key"\n        key_buckets = 5', "slots = 4\n    workers = 1", 3),
        ('ordering = "none"', "slots = 8", 8),
    ],
)
def test_no_replica_is_started_for_which_there_is_no_session(plan: Plan, queue: str, router: str, most: int) -> None:
    needs = plan(queue_more=queue, router=router)
    assert keda.numbers(needs.scaling).most == most
    assert f"\n  maxReplicaCount: {most}\n" in keda.written(needs)


def test_a_replica_is_added_when_the_others_have_their_hands_full(plan: Plan) -> None:
    needs = plan(router="slots = 4\n    workers = 2\n    batch = 50")
    assert 'messageCount: "400"' in keda.written(needs)


def test_it_is_made_of_known_keys_and_names_what_it_scales(plan: Plan) -> None:
    text = keda.written(plan())
    assert set(re.findall(r"^[ -]*(\w+):(?: |$)", text, re.M)) <= KEYS
    assert "\t" not in text
    for line in (
        "kind: TriggerAuthentication",
        "kind: ScaledObject",
        "    name: dstream-router",
        "    - type: azure-servicebus",
    ):
        assert f"\n{line}\n" in text
    assert 'namespace: "shop-bus"' in text
    assert "cloud: AzurePublicCloud" in text


def test_another_cloud_is_named(plan: Plan) -> None:
    bus = 'namespace = "shop-bus.servicebus.usgovcloudapi.net"'
    assert "cloud: AzureUSGovernmentCloud" in keda.written(plan(bus=bus, topics_bus=bus))
