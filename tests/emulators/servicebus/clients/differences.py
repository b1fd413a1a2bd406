"""Where a client's result is knowingly another than the scenario's, and why. An entry that is no longer true fails the test that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.emulators.servicebus.clients.scenario import READ


@dataclass(frozen=True)
class Difference:
    """What comes instead at a step; `tls`: only with it, only without it, or None for both."""

    client: str
    step: str
    reason: str
    result: Any
    tls: bool | None = None


_READ_BY_NODE = READ | {
    "boolean": 1,
    "moment": 1531488225789,
    "guid": {str(place): octet for place, octet in enumerate(UUID(READ["guid"]).bytes)},
}

LIMITS = (
    Difference(
        "azure-service-bus",
        "read what Python wrote",
        "rhea gives booleans of two octets as numbers, moments as milliseconds and UUIDs as octets",
        [{"body": "0x00ff", "messageId": "p-1", "count": 0, "state": "active", "applicationProperties": _READ_BY_NODE}],
    ),
    Difference(
        "azure-service-bus",
        "wrong authority",
        "trusts what the process trusts, NODE_EXTRA_CA_CERTS: no option of a client says otherwise",
        "sent",
        tls=True,
    ),
    Difference(
        "azservicebus",
        "state stays",
        "writes no state as an empty one",
        ["a", "half way", "set", ""],
    ),
)
"""What the client cannot do with any server."""


def expected(client: str, step: str, tls: bool, result: Any) -> Any:
    """What `client` must report for a step whose `result` the scenario gives."""
    for entry in LIMITS:
        if (entry.client, entry.step) == (client, step) and entry.tls in (None, tls):
            return entry.result
    return result
