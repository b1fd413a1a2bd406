"""Everything that was found out about one change, as values; `verdicts.py` says what it means. No behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from desk.documents.shape import Unknown
from desk.documents.tables import Pause
from desk.messages.searching import Sighting
from ingester.operating.finding import Captured, Moved, TableLook


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the routes send it. `entity`: a subscription of it that a person can look at; None where it is not on Service Bus."""

    output: str
    place: str
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class OnTheBus:
    """`queue`, `dead`: in the ingest queue, in its dead letters. `subscriptions`, `dead_there`: in those of its topics, or in output queues.
    `complete`: nothing that may hold it was left out."""

    queue: Sighting | None = None
    dead: Sighting | None = None
    subscriptions: Sequence[Sighting] = ()
    dead_there: Sequence[Sighting] = ()
    complete: bool = True
    unknown: Sequence[Unknown] = ()


@dataclass(frozen=True, slots=True)
class Trail:
    """`kind`: what the event id is of: `change`, `read`, `gap`, `schema`, `transaction`; None: of no table here. `sent`: whether the offset is
    past it; None: not known. `removed`: it is from before what the change tables still have. `ahead`: capture has not come so far.
    `destinations`: where the routes send it; None: not known."""

    event_id: str
    table: str
    kind: str | None
    lsn: str | None = None
    commit_time: str | None = None
    look: TableLook | None = None
    captured: Captured | None = None
    sent: bool | None = None
    removed: bool = False
    ahead: bool = False
    moved: Moved | None = None
    pause: Pause | None = None
    bus: OnTheBus = OnTheBus()
    destinations: Sequence[Destination] | None = None
    route_fails: str | None = None
    unknown: Sequence[Unknown] = ()
