"""From what was seen to what a person should look at: the worst first, each with its cause, its remedy and the alert that reports the same. Pure.

The thresholds are those of the alerts. Many tables with the same trouble are one trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from desk.documents.overview import Trouble
from desk.documents.tables import Table
from desk.remedies import in_database
from desk.watching import troubles_beside
from desk.watching.alerts import after
from desk.watching.seen import Seen

LAG_SECONDS = 900.0
HEADROOM_LOW, HEADROOM_NEARLY_GONE = 0.25, 0.05
_APART = 10
"""More tables than these with the same trouble are one trouble."""
_NAMED = 5

Severity = Literal["warning", "critical"]
_ORDER: Mapping[Severity, int] = {"critical": 0, "warning": 1}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A trouble that tables have. `title`: of one table, and of many. `cause`: of a table that has it; None for one that has not. `together`: the
    cause of many."""

    title: tuple[str, str]
    severity: Severity
    alert: str | None
    cause: Callable[[Table], str | None]
    together: str
    remedy: str | None


def troubles(seen: Seen) -> list[Trouble]:
    found = [*troubles_beside.troubles(seen), *_of_tables(_in_danger(seen), starting=_starting(seen))]
    placed = [
        each.model_copy(
            update={"remedy": in_database(each.remedy, seen.database), "alert_after_seconds": after(each.alert)}
        )
        for each in found
    ]
    return sorted(placed, key=lambda trouble: _ORDER[trouble.severity])


def _in_danger(seen: Seen) -> Sequence[Table]:
    """Where capture is current and nothing of a table waits, cleanup has nothing to remove that was not read."""
    if seen.capture is not None or any(each.what == "capture" for each in seen.unread):
        return seen.tables
    return [
        table.model_copy(update={"headroom_seconds": None})
        if table.lag is not None and not table.lag.changes
        else table
        for table in seen.tables
    ]


def _starting(seen: Seen) -> bool:
    """Whether an ingester has just begun: it takes locks when it is ready."""
    return any(each.starting and each.process.stage == "ingester" for each in seen.processes)


def _of_tables(tables: Sequence[Table], *, starting: bool) -> Iterator[Trouble]:
    for kind in _KINDS:
        if starting and kind.cause is _nobody:
            continue
        yield from _of_kind(kind, [(table, cause) for table in tables if (cause := kind.cause(table)) is not None])


def _of_kind(kind: _Kind, having: Sequence[tuple[Table, str]]) -> Iterator[Trouble]:
    if len(having) <= _APART:
        for table, cause in having:
            yield Trouble(
                severity=kind.severity,
                what=kind.title[0].format(table.table),
                cause=cause,
                remedy=kind.remedy,
                table=table.table,
                alert=kind.alert,
                since=None if table.pause is None else table.pause.at,
            )
        return
    names = ", ".join(table.table for table, _ in having[:_NAMED])
    yield Trouble(
        severity=kind.severity,
        what=kind.title[1].format(f"{len(having):,} tables"),
        cause=f"{kind.together}: {names} and {len(having) - _NAMED} more",
        remedy=kind.remedy,
        alert=kind.alert,
    )


def left(table: Table) -> float | None:
    """Which share of the retention is left until cleanup reaches the offset."""
    if table.headroom_seconds is None or not table.retention_seconds:
        return None
    return table.headroom_seconds / table.retention_seconds


def _low(table: Table, above: float, below: float) -> bool:
    return (share := left(table)) is not None and above <= share < below


def _span(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(seconds, 0):.0f} seconds"


def _stopped(table: Table) -> str | None:
    return "an ingester has stopped it with an error, and nobody reads it" if table.state == "stopped" else None


def _gap(table: Table) -> str | None:
    return table.problem or "changes were lost before they were read" if table.state == "gap" else None


def _absent(table: Table) -> str | None:
    return table.problem or "it is missing, or not under Change Data Capture" if table.state == "absent" else None


def _problem(table: Table) -> str | None:
    return table.problem if table.state not in ("gap", "absent", "paused") else None


def _nobody(table: Table) -> str | None:
    return "no ingester has its lock" if table.state == "nobody" else None


def _lag(table: Table) -> str | None:
    if table.pause is not None or table.lag is None or table.lag.seconds <= LAG_SECONDS:
        return None
    more = "at least " if table.lag.at_least else ""
    return f"it is {_span(table.lag.seconds)} behind; {more}{table.lag.changes:,} changes wait"


def _nearly_gone(table: Table) -> str | None:
    share = left(table)
    if table.pause is not None or share is None or share >= HEADROOM_NEARLY_GONE:
        return None
    if (seconds := table.headroom_seconds or 0.0) <= 0:
        return "cleanup may have removed changes that were not read"
    return f"in {_span(seconds)} cleanup may remove changes that were not read"


def _getting_low(table: Table) -> str | None:
    if table.pause is not None or not _low(table, HEADROOM_NEARLY_GONE, HEADROOM_LOW):
        return None
    return f"in {_span(table.headroom_seconds or 0.0)} cleanup may remove changes that were not read"


def _paused_too_long(table: Table) -> str | None:
    share = left(table)
    if table.pause is None or share is None or share >= HEADROOM_LOW:
        return None
    if (table.headroom_seconds or 0.0) <= 0:
        return f"{_paused_by(table)}, and cleanup has passed its offset: changes that were not read may be gone"
    return f"{_paused_by(table)}, and in {_span(table.headroom_seconds or 0.0)} cleanup may remove changes that were not read"


def _paused(table: Table) -> str | None:
    if table.pause is None or ((share := left(table)) is not None and share < HEADROOM_LOW):
        return None
    return _paused_by(table)


def _paused_by(table: Table) -> str:
    assert table.pause is not None
    reason = f": {table.pause.reason}" if table.pause.reason else ""
    return f"it was paused at {table.pause.at} by {table.pause.by}{reason}"


_LENGTHEN = "find out why it is behind; meanwhile lengthen the retention: `EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = MINUTES`"

_KINDS = (
    _Kind(
        ("{} may lose changes", "{} may lose changes"),
        "critical",
        "DStreamHeadroomNearlyGone",
        _nearly_gone,
        "cleanup is about to remove changes that were not read",
        _LENGTHEN,
    ),
    _Kind(
        ("{} has lost changes", "{} have lost changes"),
        "critical",
        "DStreamTableStopped",
        _gap,
        "changes were lost before they were read",
        "decide whether to go on without them: set on_gap, move the offset, or take a snapshot",
    ),
    _Kind(
        ("{} has stopped", "{} have stopped"),
        "critical",
        "DStreamTableStopped",
        _stopped,
        "an ingester has stopped them with an error",
        "the ingester's log has a line `table stopped` with the cause; correct it, and restart the ingester",
    ),
    _Kind(
        ("Nobody reads {}", "Nobody reads {}"),
        "critical",
        "DStreamTableWithoutOwner",
        _nobody,
        "no ingester has their locks",
        "start an ingester; if one runs, its log and its /readyz say why it takes no lock",
    ),
    _Kind(
        ("{} is paused, and may lose changes", "{} are paused, and may lose changes"),
        "critical",
        "DStreamHeadroomLow",
        _paused_too_long,
        "they are paused, and cleanup comes near, or has passed their offsets",
        "resume the table (dstream resume); if its changes are gone, its error then says how to go on: move the offset, and take a snapshot",
    ),
    _Kind(
        ("Cleanup comes near to {}", "Cleanup comes near to {}"),
        "warning",
        "DStreamHeadroomLow",
        _getting_low,
        "less than a quarter of the retention is left",
        _LENGTHEN,
    ),
    _Kind(
        ("{} is behind", "{} are behind"),
        "warning",
        "DStreamLagHigh",
        _lag,
        "they are more than a quarter of an hour behind",
        "compare lag and throughput: give the ingester more slots, or find out what holds it (queue, server, a large transaction)",
    ),
    _Kind(
        ("{} cannot be found", "{} cannot be found"),
        "warning",
        "DStreamTableAbsent",
        _absent,
        "they are missing, or not under Change Data Capture",
        "enable Change Data Capture for the table, or remove it from the configuration",
    ),
    _Kind(
        ("{} cannot be read as it is", "{} cannot be read as they are"),
        "warning",
        None,
        _problem,
        "they have a problem",
        None,
    ),
    _Kind(
        ("{} is paused", "{} are paused"),
        "warning",
        "DStreamTablePaused",
        _paused,
        "they are paused",
        "resume the table when the reason is gone",
    ),
)
