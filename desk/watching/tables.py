"""Tables as documents, and the state of each, from what the stores say and what processes report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from desk.documents.tables import Lag, Offset, Pause, Table, TableSnapshot, TableState

if TYPE_CHECKING:  # a router is installed without the ingester's packages
    from ingester.commands.status import TableStatus

BEHIND_SECONDS = 60.0

_LOCK: Mapping[str, Literal["held", "free", "unknown"]] = {"held": "held", "free": "free"}
SNAPSHOT_STATES: Mapping[str, Literal["waiting", "running", "paused", "failed", "stopped", "done"]] = {
    "waiting": "waiting",
    "running": "running",
    "paused": "paused",
    "failed": "failed",
    "stopped": "stopped",
    "done": "done",
}


def document(
    seen: TableStatus,
    *,
    topic: str | None,
    standings: Iterable[str] = (),
    lag: float | None = None,
    rate: float | None = None,
) -> Table:
    """`standings`: of the table, as ingesters report them. `lag`: as the ingester that has it reports it, where changes are not counted."""
    standings = frozenset(standings)
    return Table(
        table=seen.table,
        state=state(seen, standings, lag=lag, rate=rate),
        lock=_LOCK.get(seen.held, "held" if "read" in standings else "unknown"),
        owner=seen.owner,
        epoch=seen.epoch,
        offset=None
        if seen.position is None
        else Offset(position=seen.position, lsn=seen.lsn, committed_at=seen.committed, updated_at=seen.updated),
        lag=None
        if seen.lag is None
        else Lag(seconds=seen.lag.seconds, changes=seen.lag.waiting.changes, at_least=seen.lag.waiting.capped),
        headroom_seconds=seen.headroom,
        retention_seconds=seen.retention,
        capture_instance=seen.instance,
        topic=topic,
        problem=seen.problem,
        pause=None if seen.pause is None else Pause(at=seen.pause.at, by=seen.pause.by, reason=seen.pause.reason),
        snapshot=None
        if seen.snapshot is None
        else TableSnapshot(id=seen.snapshot.id, state=SNAPSHOT_STATES[seen.snapshot.state], rows=seen.snapshot.rows),
        changes_per_second=rate,
    )


def state(seen: TableStatus, standings: frozenset[str], *, lag: float | None, rate: float | None) -> TableState:
    """What a person must know first comes first."""
    if seen.pause is not None:
        return "paused"
    if seen.fault == "absent":
        return "absent"
    if seen.fault == "gap":
        return "gap"
    if "stopped" in standings and "read" not in standings:
        return "stopped"
    if seen.held == "free":
        return "nobody"
    if seen.lag is None and seen.position is None:  # its offset could not be read: what was reported before may be old
        return "unknown"
    seconds, waits = (lag, bool(lag)) if seen.lag is None else (seen.lag.seconds, seen.lag.waiting.changes > 0)
    if seconds is None:
        return "unknown"
    if waits and seconds > BEHIND_SECONDS:
        return "behind"
    return "flowing" if waits or rate else "idle"


def aged(table: Table) -> Table:
    """The same when nothing newer can be read: the offset, the pause and the snapshot are the last that were known."""
    return table.model_copy(update={"state": "unknown", "lock": "unknown", "lag": None, "changes_per_second": None})
