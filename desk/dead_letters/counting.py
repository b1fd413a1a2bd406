"""How many dead letters lie where, by reason and table: by looking at them, some seconds at most. Takes none.

Where the bus shows how many there are (that takes the right to manage it), only entities that have some are looked at.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Final

from common.bus.browsing import Shelf, Shelves
from common.bus.depths import Depth
from common.bus.ports import Bus
from common.bus.settings import BusSettings
from common.errors import DStreamError, EntityMissing, TransientError
from common.in_time import in_time
from common.unread import Unread
from desk.dead_letters.looking import pages
from desk.documents.messages import DeadLetterCount
from desk.messages.facts import changes_of, together
from desk.messages.places import Place, Places

SECONDS: Final = 6.0
"""For all of them together, after the bus has shown how many there are."""
_DEPTHS_SECONDS: Final = 8.0
"""For every namespace, side by side."""
MOST_EACH: Final = 20_000
MOST_EACH_FOR_A_PAGE: Final = 2_000
"""Of each entity, for a page that asks again and again: the bus knows how many there are in all, where it may be asked."""
AT_ONCE: Final = 8
MOST_UNSEEN: Final = 200
"""Entities that are looked at where the bus does not show which have dead letters."""
_MOST_TABLES: Final = 50
_AGAIN: Final = "ask for this entity alone"
_REACH: Final = (
    "check connection_string and proxy in the configuration, and that a firewall lets this machine out to the namespace (port 5671, or 443); "
    "`dstream doctor` looks at each store"
)

BusOf = Callable[[BusSettings], Bus]
ShelvesOf = Callable[[BusSettings], Shelves]


def counts(
    places: Places,
    shelves_of: ShelvesOf,
    bus_of: BusOf,
    unread: list[Unread],
    stop: threading.Event,
    *,
    most: int = MOST_EACH,
) -> Sequence[DeadLetterCount]:
    """Of those that have some, and of those that could not be seen, the queue first."""
    known = list(places.known())
    depths = _depths(known, bus_of, stop)
    until = time.monotonic() + SECONDS
    asked = [place for place in known if depths.get(_key(place)) != 0]
    unseen = [place for place in asked if _key(place) not in depths]
    if len(unseen) > MOST_UNSEEN:
        left = {id(place) for place in unseen[MOST_UNSEEN:]}
        asked = [place for place in asked if id(place) not in left]
        unread.append(Unread(f"dead letters of {len(left):,} entities", "too many to look at without the right Manage"))
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="dead-letters") as pool:
        found = list(
            pool.map(lambda place: _in_time(place, shelves_of, depths.get(_key(place)), most, stop, until), asked)
        )
    for place, count in zip(asked, found, strict=True):
        if isinstance(count, DStreamError):
            unread.append(Unread(f"dead letters of {place.entity}", count.message, count.hint))
    return [count for count in found if isinstance(count, DeadLetterCount)]


def _in_time(
    place: Place, shelves_of: ShelvesOf, total: int | None, most: int, stop: threading.Event, until: float
) -> DeadLetterCount | DStreamError | None:
    """One that does not answer holds up no other."""
    left = until - time.monotonic()
    if left <= 0:
        return TransientError("there was no time left to look at it", hint=_AGAIN)
    try:
        return in_time(left + 1, lambda: _count(place, shelves_of, total, most, stop, until), name="dead-letters")
    except TimeoutError:
        return TransientError(f"no answer within {SECONDS:g} s", hint=_REACH)


def _count(
    place: Place, shelves_of: ShelvesOf, total: int | None, most: int, stop: threading.Event, until: float
) -> DeadLetterCount | DStreamError | None:
    reasons, tables, examined, ended = Counter[str](), Counter[str](), 0, False
    try:
        with closing(shelves_of(place.bus)) as shelves, closing(shelves.browser(place.looked_at(dead=True))) as browser:
            for page in pages(browser, stop, until=until):
                ended = not page
                for lying in page:
                    examined += 1
                    reasons[lying.reason or ""] += 1
                    tables[together(changes_of(lying.message)).table or ""] += 1
                if examined >= most:
                    break
    except EntityMissing as error:
        return None if total is None and place.shelf.subscription is None else error
    except DStreamError as error:
        return error
    if ended and not examined:
        return None
    return DeadLetterCount(
        entity=place.entity,
        total=examined if ended else total,
        reasons=dict(reasons.most_common(_MOST_TABLES)),
        tables=dict(tables.most_common(_MOST_TABLES)),
        examined=examined,
    )


def _key(place: Place) -> tuple[int, str, str | None]:
    return id(place.bus), place.shelf.entity.lower(), (place.shelf.subscription or "").lower() or None


def _depths(known: Sequence[Place], bus_of: BusOf, stop: threading.Event) -> Mapping[tuple[int, str, str | None], int]:
    """How many dead letters each has, as far as the bus shows it."""
    buses = list({id(place.bus): place.bus for place in known}.values())
    shelves = [[place.shelf for place in known if place.bus is settings] for settings in buses]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="depths") as pool:
        depths = list(pool.map(partial(_shown, bus_of, stop), buses, shelves))
    return {
        (id(settings), depth.entity.lower(), (depth.subscription or "").lower() or None): depth.dead
        for settings, found in zip(buses, depths, strict=True)
        for depth in found
    }


def _shown(bus_of: BusOf, stop: threading.Event, settings: BusSettings, here: Sequence[Shelf]) -> Sequence[Depth]:
    """None where the right to manage is lacking, or where it takes too long: then all are looked at."""
    try:
        with closing(bus_of(settings)) as bus:
            return in_time(_DEPTHS_SECONDS, partial(_of_bus, bus, here, stop), name="depths")
    except (DStreamError, TimeoutError):
        return ()


def _of_bus(bus: Bus, here: Sequence[Shelf], stop: threading.Event) -> list[Depth]:
    found = list[Depth]()
    for queue in dict.fromkeys(shelf.entity for shelf in here if shelf.subscription is None):
        if (depth := bus.entities.queue_depth(queue, stop=stop)) is not None:
            found.append(depth)
    topics = list(dict.fromkeys(shelf.entity for shelf in here if shelf.subscription is not None))
    if topics:
        for topic, listed in bus.entities.topic_depths(topics, stop=stop).items():
            if listed is None:  # it does not exist yet, so that it holds nothing
                found += [Depth(topic, shelf.subscription, 0, 0) for shelf in here if shelf.entity == topic]
            if isinstance(listed, Sequence):
                found += listed
    return found
