"""The items of the Event Hubs contract, and the marker of its tests (see tests/contracts/claims.py)."""

from __future__ import annotations

from collections.abc import Mapping

from tests.contracts.claims import Contract

ITEMS: Mapping[int, str] = {
    1: "Body, properties and application properties arrive unchanged, with sequence number, offset and time",
    2: "Events of a partition are numbered without a gap and delivered in order; a batch is accepted as a whole",
    3: "Events with the same partition key share a partition; without a key they go to all in turn",
    4: "Sending to one partition",
    5: "What is too large is refused: at add, and by the service",
    6: "Properties of a hub and of a partition",
    7: "A consumer begins where it asks: the beginning, the end, an offset, a number, a time",
    8: "Reading takes nothing out, and each consumer group reads all",
    9: "Owner levels: the higher one stays",
    10: "At most five consumers of a partition and consumer group without an owner level",
    11: "What is missing: a hub, a consumer group, a partition",
    12: "Keys and rights",
    13: "A disabled hub",
    14: "Throttling",
    15: "Idle links",
    16: "A copy is an event of its own",
    17: "What was acknowledged survives",
    18: "Retention",
}

CONTRACT = Contract("Event Hubs contract", "eventhubs_item", ITEMS)
item = CONTRACT.item
