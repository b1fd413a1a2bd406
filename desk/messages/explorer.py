"""Messages of queues, subscriptions and dead letters, as documents: pages, filters, one message. Looks without taking or locking anything.

A page is looked for within two seconds. `next` of a page that ended early is a place in the entity and not in this process, so it stays valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from common.bus.browsing import Browser
from common.errors import EntityMissing
from desk.desk import NotFound
from desk.documents.messages import MessageDetail, MessageFilter, MessagePage
from desk.documents.shape import Unknown
from desk.messages.browsers import Browsers
from desk.messages.choosing import chooses, zoned
from desk.messages.documents import detail, document
from desk.messages.places import Place, Places
from desk.messages.scanning import AT_ONCE, FIRST, SECONDS, Cursor, Look, Scan, backward, first_since, forward

MOST = 500
"""Messages on a page, whatever is asked for."""


class Explorer:
    """Callable from any thread. `places`: of the present configuration."""

    def __init__(
        self, places: Callable[[], Places], browsers: Browsers, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._browsers = browsers
        self._clock = clock

    def page(
        self,
        entity: str,
        *,
        dead: bool,
        chosen: MessageFilter,
        after: str | None,
        most: int,
        newest_first: bool = False,
    ) -> MessagePage:
        place = self._places().of(entity)
        cursor = None if after is None else Cursor.read(after)
        try:
            with self._browsers.lent(place, dead=dead) as browser:
                scan = self._scan(browser, dead, chosen, cursor, max(1, min(most, MOST)), newest_first)
        except EntityMissing as error:
            raise _missing(place, error) from error
        unknown = []
        if scan.trouble is not None:
            what = f"messages of {place.entity} from here on"
            unknown.append(Unknown(what=what, text=scan.trouble.message, remedy=scan.trouble.hint))
        return MessagePage(
            items=[document(place.entity, lying, dead=dead) for lying in scan.found],
            next=None if scan.at is None else str(scan.at),
            examined=scan.examined,
            unknown=unknown,
        )

    def _scan(
        self,
        browser: Browser,
        dead: bool,
        chosen: MessageFilter,
        cursor: Cursor | None,
        most: int,
        newest_first: bool,
    ) -> Scan:
        # A dead letter keeps the time at which it was put into the entity, so the times of dead letters do not rise with their numbers.
        since, until = (None, None) if dead else (zoned(chosen.since), zoned(chosen.until))
        look = Look(chooses(chosen), most, self._clock() + SECONDS, self._clock, until)
        if newest_first if cursor is None else cursor.back:
            return backward(browser, look, _upper(browser, cursor, until))
        if cursor is not None:
            return forward(browser, look, cursor.at)
        return forward(browser, look, FIRST if since is None else first_since(browser, since))

    def message(self, entity: str, *, dead: bool, sequence: int) -> MessageDetail:
        place = self._places().of(entity)
        try:
            with self._browsers.lent(place, dead=dead) as browser:
                found = browser.page(first=sequence, most=1) if 0 < sequence < 2**63 else ()
        except EntityMissing as error:
            raise _missing(place, error) from error
        if not found or found[0].sequence != sequence:
            where = f"the dead letters of {place.entity}" if dead else place.entity
            raise NotFound(
                f"looking for message {sequence} in {where}: it is not there (any more)",
                hint="it was received, replayed or removed, or its time to live is over",
            )
        return detail(place.entity, found[0], dead=dead)

    def close(self) -> None:
        self._browsers.close()


def _upper(browser: Browser, cursor: Cursor | None, until: datetime | None) -> int | None:
    """Where to begin backwards: not behind what can fit."""
    if cursor is not None:
        return cursor.at
    if until is None or (found := first_since(browser, until)) == FIRST:
        return None
    return found + 2 * AT_ONCE


def _missing(place: Place, error: EntityMissing) -> NotFound:
    return NotFound(error.message, hint=error.hint or f"{place.shelf} does not exist: look at `dstream check`")
