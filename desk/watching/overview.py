"""The whole at a glance, as a document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from common.unread import Unread
from desk.documents.overview import Entity, Overview, Owner, Trouble
from desk.documents.shape import Unknown
from desk.documents.tables import Table
from desk.watching.seen import Seen
from desk.watching.stores import Names


@dataclass(frozen=True, slots=True)
class Console:
    """This console itself. `unwatched`: stages whose health port it does not know."""

    names: Names
    version: str
    changes_allowed: bool
    unwatched: Sequence[str] = ()


def overview(
    console: Console, at: str, seen: Seen, owners: Mapping[str, int] | None, found: Sequence[Trouble]
) -> Overview:
    tables = seen.tables
    return Overview(
        at=at,
        version=console.version,
        complete=all(each.note for each in seen.unread),
        changes_allowed=console.changes_allowed,
        server=console.names.server,
        database=console.names.database,
        namespace=console.names.namespace,
        tables=len(tables),
        states=dict(Counter(table.state for table in tables)),
        worst_lag_seconds=max((each.lag.seconds for each in tables if each.lag is not None), default=None),
        worst_headroom_seconds=min(
            (each.headroom_seconds for each in tables if each.headroom_seconds is not None), default=None
        ),
        changes_waiting=_sum(each.lag.changes for each in tables if each.lag is not None),
        changes_per_second=_total(tables),
        queue=seen.queue,
        dead_letters=_sum(each.dead_letters for each in _entities(seen) if each.dead_letters is not None),
        owners=[Owner(owner=owner, tables=count) for owner, count in (owners or _readers(seen)).items()],
        processes=[each.process for each in seen.processes],
        troubles=list(found),
        unknown=[_unknown(each) for each in seen.unread],
    )


def _readers(seen: Seen) -> Mapping[str, int]:
    """Where locks do not show who has them: the tables that ingesters report as theirs, by the name that the offsets have."""
    claimed = {table.table: table.owner for table in seen.tables}
    return Counter(
        claimed.get(name) or each.process.address
        for each in seen.processes
        for name, standing in each.states.items()
        if standing == "read"
    )


def _entities(seen: Seen) -> list[Entity]:
    return [*([] if seen.queue is None else [seen.queue]), *seen.entities]


def _sum(found: Iterable[int]) -> int | None:
    values = list(found)
    return sum(values) if values else None


def _total(tables: Sequence[Table]) -> float | None:
    known = [each.changes_per_second for each in tables if each.changes_per_second is not None]
    return sum(known) if known else None


def _unknown(each: Unread) -> Unknown:
    return Unknown(what=each.what, text=each.why, remedy=each.hint)
