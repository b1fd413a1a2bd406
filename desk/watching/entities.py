"""Queues, topics and subscriptions as documents, with what waits in them. Pure.

Subscriptions are named as the configuration has them, and as the namespace reports them. Where nothing was read, numbers are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from common.bus.depths import Depth, NoSubscription, TopicDepths, Unlisted
from common.errors import DStreamError
from desk.documents.overview import Entity, Unacknowledged

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Topics:
    """`depths`: by output, where topics were asked. `places`: by output, the topics that it has. `of_tables`: by table, its (output, topic).
    `subscriptions`: of each topic, as configured. `missing`: those that are not there."""

    depths: Mapping[str, TopicDepths] = field(default_factory=dict)
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)
    of_tables: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    subscriptions: Sequence[str] = ()
    missing: Sequence[NoSubscription] = ()


def path_of(output: str, topic: str, subscription: str | None = None) -> str:
    """`topic/NAME/SUBSCRIPTION`, behind `output/LABEL/` for a further output."""
    front = "" if output == DEFAULT else f"output/{output}/"
    return f"{front}topic/{topic}" + ("" if subscription is None else f"/{subscription}")


def queue_entity(name: str, depth: Depth | None, fills: Mapping[str, float]) -> Entity:
    return _filled(Entity(entity="queue", kind="queue", name=name, used_share=fills.get(f"queue {name}")), depth)


def topic_entities(topics: Topics, fills: Mapping[str, float]) -> list[Entity]:
    """Each subscription; a topic that has none, or whose subscriptions are unknown, is there itself."""
    found = list[Entity]()
    for output, places in topics.places.items():
        known = topics.depths.get(output, {})
        for place in places:
            found += _of_topic(output, place, topics.subscriptions, known, fills.get(f"topic {place}"))
    return found


def _of_topic(
    output: str, topic: str, configured: Sequence[str], known: TopicDepths, fill: float | None
) -> list[Entity]:
    depths = known.get(topic)
    if isinstance(depths, DStreamError) or (depths is None and topic not in known):
        named: dict[str, Depth | None] = dict.fromkeys(configured)
    elif isinstance(depths, Unlisted):  # it holds nothing, and has as many as are configured
        named = {name: Depth(topic, name, 0, 0) for name in configured}
    else:  # one that is missing has no numbers; a topic that does not exist yet has no subscriptions
        named = {each.subscription or "": each for each in depths or ()}
        if depths is not None:
            there = {name.lower() for name in named}
            named |= {name: None for name in configured if name.lower() not in there}
    if not named:
        return [Entity(entity=path_of(output, topic), kind="topic", name=topic, used_share=fill)]
    return [
        _filled(
            Entity(
                entity=path_of(output, topic, name),
                kind="subscription",
                name=topic,
                subscription=name,
                used_share=fill,
            ),
            depth,
        )
        for name, depth in named.items()
    ]


def _filled(entity: Entity, depth: Depth | None) -> Entity:
    if depth is None:
        return entity
    numbers = {
        "active": depth.active,
        "dead_letters": depth.dead,
        "scheduled": depth.scheduled,
        "transfer_dead_letters": depth.transfer_dead,
    }
    return entity.model_copy(update=numbers)


def unacknowledged(tables: Sequence[str], queue: Entity | None, topics: Topics) -> list[Unacknowledged]:
    """First the queue as a whole, which does not know tables; then each table's subscriptions."""
    found = [] if queue is None else [Unacknowledged(queued=queue.active)]
    for table in tables:
        for output, topic in topics.of_tables.get(table.lower(), ()):
            depths = topics.depths.get(output, {}).get(topic)
            unread = _unread(depths)
            found.append(Unacknowledged(table=table, unread=unread, topic=path_of(output, topic)))
    return found


def _unread(depths: Sequence[Depth] | Unlisted | DStreamError | None) -> int | None:
    if isinstance(depths, Unlisted):
        return 0
    return sum(each.active for each in depths) if isinstance(depths, Sequence) else None
