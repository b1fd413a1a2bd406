"""One look, taken together: everything that overview and troubles are made of. A value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.bus.depths import NoSubscription
from common.unread import Unread
from desk.documents.overview import Entity
from desk.documents.tables import Table
from desk.watching.scraping import Scraped

if TYPE_CHECKING:  # a router is installed without the ingester's packages
    from ingester.capture_status import Explanation


@dataclass(frozen=True, slots=True)
class Seen:
    """`database`: where T-SQL is run. `queue_grows`: whether it has grown for minutes. `scrapes`: whether this console knows any health port.
    `unwatched`: stages of the configuration whose health port it does not know."""

    tables: Sequence[Table] = ()
    queue: Entity | None = None
    entities: Sequence[Entity] = ()
    processes: Sequence[Scraped] = ()
    capture: Explanation | None = None
    unread: Sequence[Unread] = ()
    queue_grows: bool = False
    scrapes: bool = False
    unwatched: Sequence[str] = ()
    missing: Sequence[NoSubscription] = ()
    database: str = ""
