"""`dstream plan --keda`: a ScaledObject for the router, with the reason for each number.

https://keda.sh/docs/latest/scalers/azure-service-bus/
"""

from __future__ import annotations

from dataclasses import dataclass

from dstream.plan.needs import ROUTER, SCALER, Needs, Scaling
from dstream.plan.templates import rendered

ASSUMED_WORKERS = 1
"""Where the configuration leaves it to the cores of the pod, which are not known here."""

FEWEST = 2
"""One, and another that takes its sessions at once when it dies or its node is drained."""

WITHOUT_SESSIONS = 8
"""Replicas where any number could share the queue: a database, not the queue, is then the limit."""

_CLOUDS = {
    ".servicebus.windows.net": "AzurePublicCloud",
    ".servicebus.usgovcloudapi.net": "AzureUSGovernmentCloud",
    ".servicebus.chinacloudapi.cn": "AzureChinaCloud",
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """`at_once`: sessions that a replica works on. `least`, `most`: replicas. `messages`: waiting ones for each replica."""

    at_once: int
    least: int
    most: int
    messages: int


def numbers(scaling: Scaling) -> Numbers:
    at_once = scaling.slots * (scaling.workers or ASSUMED_WORKERS)
    useful = WITHOUT_SESSIONS if scaling.sessions is None else -(-scaling.sessions // at_once)
    return Numbers(at_once, FEWEST, max(FEWEST, useful), at_once * scaling.batch)


def written(needs: Needs) -> str:
    scaling = needs.scaling
    host = scaling.host or ""
    return rendered(
        "keda.yaml",
        scaling=scaling,
        patterns=needs.patterns,
        numbers=numbers(scaling),
        router=ROUTER,
        scaler=SCALER,
        namespace=host.partition(".")[0] or "NAMESPACE",
        cloud=next((cloud for ending, cloud in _CLOUDS.items() if host.endswith(ending)), "AzurePublicCloud"),
        workers=scaling.workers or ASSUMED_WORKERS,
    )
