"""Where each delivery goes: pure decisions over what was received. Sends nothing, settles nothing.

The destination is the application property `destination`; where it is missing, the body's `metadata.Destination` (SPEC 5).
A message that names no configured destination is poison: it is dead-lettered with a reason, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from common.bus import Delivery

Reason = Literal["MalformedMessage", "MissingDestination", "UnknownDestination", "MessageTooLarge"]


@dataclass(frozen=True, slots=True)
class Poison:
    """A delivery that no retry can help, why, and the facts for whoever finds it in the dead-letter queue."""

    delivery: Delivery
    reason: Reason
    description: str


@dataclass(frozen=True, slots=True)
class Group:
    """Deliveries for one destination, in the order they came."""

    destination: str
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a batch: groups in order of first appearance, and the poison among them."""

    groups: tuple[Group, ...]
    poison: tuple[Poison, ...]


def plan(deliveries: Sequence[Delivery], known: Collection[str]) -> Plan:
    """Group by destination, keeping order; `known` are the configured topics, lower case."""
    groups: dict[str, list[Delivery]] = {}
    poison: list[Poison] = []
    for delivery in deliveries:
        routed = route(delivery, known)
        if isinstance(routed, Poison):
            poison.append(routed)
        else:
            groups.setdefault(routed, []).append(delivery)
    return Plan(tuple(Group(name, tuple(held)) for name, held in groups.items()), tuple(poison))


def route(delivery: Delivery, known: Collection[str]) -> str | Poison:
    """The destination of one delivery, or why it has none. Topic names compare without regard to case."""
    if delivery.fault is not None:
        return Poison(delivery, "MalformedMessage", delivery.fault)
    named: object = delivery.message.application_properties.get("destination")
    if named is None:
        try:
            named = _named_in(delivery.message.body)
        except (ValueError, RecursionError) as error:
            return Poison(delivery, "MalformedMessage", f"the body is no JSON: {type(error).__name__}: {error}")
    if not isinstance(named, str) or not named:
        return Poison(
            delivery,
            "MissingDestination",
            "neither the application property destination nor the body's metadata.Destination names a topic",
        )
    if named.lower() not in known:
        return Poison(
            delivery,
            "UnknownDestination",
            f"the topic {named!r} belongs to no configured table; add the table to the router's configuration and send this again",
        )
    return named.lower()


def _named_in(body: bytes) -> object:
    content = json.loads(body)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return metadata.get("Destination") if isinstance(metadata, dict) else None


def without(group: Group, settled: Collection[int]) -> Group | None:
    """What is left of `group` when the deliveries with these identities (`id`) are done; None when nothing is."""
    left = tuple(delivery for delivery in group.deliveries if id(delivery) not in settled)
    return Group(group.destination, left) if left else None
