"""Changes looked for on shelves by their event ids, within a time: a message that was received and completed leaves no trace. Takes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from common.bus.browsing import Lying
from common.bus.packing import is_pack
from common.errors import DStreamError, EntityMissing
from desk.documents.shape import Unknown
from desk.messages.browsers import Browsers
from desk.messages.choosing import Chooses
from desk.messages.facts import changes_of, replay_of
from desk.messages.places import Place
from desk.messages.scanning import FIRST, Clock, Look, first_since, forward

CLOCKS = timedelta(hours=2)
"""By how much the clocks of SQL Server and of the bus may differ. Commit times are local times of the server, whose zone may be off by the hour of
summer time."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a change lies."""

    place: Place
    dead: bool
    lying: Lying


@dataclass(slots=True)
class Searched:
    """`complete`: everything that may hold one was looked at. `missing`: the entity does not exist."""

    found: dict[str, Sighting] = field(default_factory=dict)
    complete: bool = True
    examined: int = 0
    missing: bool = False
    unknown: Unknown | None = None


def search(
    browsers: Browsers,
    place: Place,
    wanted: frozenset[str],
    *,
    dead: bool,
    since: datetime | None,
    seconds: float,
    clock: Clock,
) -> Searched:
    """`since`: when the first of them was committed; None: unknown. Never raises DStreamError."""
    if not wanted:
        return Searched()
    name = name_of(place, dead=dead)
    try:
        with browsers.lent(place, dead=dead) as browser:
            first = FIRST
            if (
                since is not None and not dead
            ):  # a dead letter keeps its time, so they are not in the order of their times
                first = first_since(browser, since - CLOCKS)
            scan = forward(browser, Look(_holds(wanted), len(wanted), clock() + seconds, clock), first)
    except EntityMissing:
        return Searched(missing=True)
    except DStreamError as error:
        return Searched(complete=False, unknown=Unknown(what=name, text=error.message, remedy=error.hint))
    found: dict[str, Sighting] = {}
    for lying in scan.found:
        for event_id in _ids(lying) & wanted:
            found.setdefault(event_id, Sighting(place, dead, lying))
    complete = scan.at is None or len(found) == len(wanted)
    unknown = None
    if not complete:
        text = f"{scan.examined:,} messages were looked at within {seconds:.0f} s, and there are more"
        unknown = Unknown(
            what=name, text=text if scan.trouble is None else scan.trouble.message, remedy=_LOOK.format(place.entity)
        )
    return Searched(found, complete, scan.examined, unknown=unknown)


def name_of(place: Place, *, dead: bool) -> str:
    return f"the dead letters of {place.entity}" if dead else place.entity


_LOOK = "look through {} itself, with the filter event_id"


def _holds(wanted: frozenset[str]) -> Chooses:
    """The first message that has one of them: a second one of the same change says nothing more, and must not end the search for the others."""
    left = set(wanted)

    def holds(lying: Lying) -> bool:
        met = _ids(lying) & left
        left.difference_update(met)
        return bool(met)

    return holds


def _ids(lying: Lying) -> set[str]:
    message = lying.message
    if is_pack(message):
        return {change.message_id for change in changes_of(message) if change.message_id is not None}
    return {each for each in (message.message_id, replay_of(message)) if each is not None}
