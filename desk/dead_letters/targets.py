"""Where the dead letters of a place are sent again, and what of that cannot be seen. The queue's go back to the queue; a subscription's can only go
to its topic, so that all its other subscriptions get them as well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from common.bus.browsing import Shelves
from common.config.durations import format_duration
from common.errors import DStreamError, EntityMissing
from desk.dead_letters.copying import Target
from desk.messages.places import Place
from router.settings import RouterSettings


def target_of(place: Place, shelves: Shelves, settings: RouterSettings) -> tuple[Target, Sequence[str]]:
    """And warnings. Raises EntityMissing."""
    warnings = list[str]()
    entity, subscription = place.shelf.entity, place.shelf.subscription
    assumed = settings.queue_duplicate_window if place.output is None else settings.duplicate_window
    window = _window(entity, assumed, shelves, warnings)
    if window is None:
        warnings.append(
            f"{entity} detects no duplicates: a run that is killed may have sent dead letters which the next one sends a second time, and reports"
        )
    others = () if subscription is None else _others(entity, subscription, shelves, settings, warnings)
    if others:
        warnings.append(
            f"a dead letter of a subscription can only be sent to its topic, so {entity}'s other subscriptions get it again: {', '.join(others)}"
        )
    name = f"the queue {entity}" if subscription is None else f"the topic {entity}"
    sessions = place.output is None and settings.ordering != "none"
    routed = place.output is None and subscription is None
    return Target(entity, name, sessions, window, others, routed), warnings


def _window(entity: str, assumed: timedelta, shelves: Shelves, warnings: list[str]) -> timedelta | None:
    try:
        return shelves.duplicate_window(entity)
    except EntityMissing:
        raise
    except DStreamError as error:
        warnings.append(
            f"whether {entity} detects duplicates cannot be seen ({error.message}); it counts as doing so for {format_duration(assumed)}"
        )
        return assumed


def _others(
    topic: str, subscription: str, shelves: Shelves, settings: RouterSettings, warnings: list[str]
) -> tuple[str, ...]:
    try:
        names = shelves.subscriptions(topic)
    except DStreamError:
        names = settings.subscriptions
        warnings.append(f"which subscriptions {topic} has cannot be seen: all of them get the dead letters again")
    return tuple(each for each in names if each.lower() != subscription.lower())
