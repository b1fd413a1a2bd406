"""The result of `dstream status` as text and as JSON. The keys of the JSON are documented (docs/run.md) and stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from common.bus.depths import Depth
from common.unread import Unread, by_cause
from desk.status import Status
from dstream.rendering.columns import duration, or_dash, table

if TYPE_CHECKING:  # the router's side runs without the ingester's packages
    from ingester.commands.status import TableStatus
    from ingester.operating.pauses import Pause


_TABLE = ("TABLE", "OWNER", "LAG", "CHANGES", "HEADROOM", "OFFSET", "COMMITTED", "INSTANCE")
_DEPTH = ("ENTITY", "SUBSCRIPTION", "ACTIVE", "DEAD", "SCHEDULED", "TRANSFER DEAD")
_NUMBERS = ("LAG", "CHANGES", "HEADROOM", "TABLES", "ACTIVE", "DEAD", "SCHEDULED", "TRANSFER DEAD")


def status_lines(status: Status) -> list[str]:
    """One section after the other; what is wrong at the end, where a person looks first."""
    sections: list[list[str]] = []
    if status.tables:
        sections.append(_tables(status.tables))
    if status.ingesters:
        rows = [(owner, f"{tables:,}") for owner, tables in status.ingesters.items()]
        sections.append(table(("INGESTER", "TABLES"), rows, right=_NUMBERS))
    depths = [] if status.queue is None else [status.queue]
    if depths := [*depths, *status.topics]:
        sections.append(table(_DEPTH, [_depth_row(each) for each in depths], right=_NUMBERS))
    problems = [f"problem: {each.table}: {each.problem}" for each in status.tables if each.problem is not None]
    paused = [f"paused: {each.table}: {_pause_words(each.pause)}" for each in status.tables if each.pause is not None]
    if (capture := status.capture) is not None:
        problems.append(f"problem: {capture.text}" + ("" if capture.hint is None else f" ({capture.hint})"))
    problems += [f"problem: {each.text} ({each.remedy})" for each in status.missing]
    unknown = [f"unknown: {each}" for each in by_cause(status.unknown)]
    notes = [f"note: {each}" for each in by_cause(status.notes)]
    sections += [part for part in (paused, notes, problems, unknown) if part]
    return [line for part in sections for line in ("", *part)][1:]


def _tables(tables: Sequence[TableStatus]) -> list[str]:
    """With a column of snapshots if there is one."""
    rows = [_table_row(each) for each in tables]
    if all(each.snapshot is None for each in tables):
        return table(_TABLE, rows, right=_NUMBERS)
    more = [(*row, _snapshot_words(each)) for row, each in zip(rows, tables, strict=True)]
    return table((*_TABLE, "SNAPSHOT"), more, right=_NUMBERS)


def _pause_words(pause: Pause) -> str:
    return f"since {pause.at} by {pause.by}" + ("" if pause.reason is None else f": {pause.reason}")


def _snapshot_words(each: TableStatus) -> str:
    return "-" if each.snapshot is None else f"{each.snapshot.state}, {each.snapshot.rows:,} rows"


def _table_row(each: TableStatus) -> tuple[str, ...]:
    return (
        each.table,
        owner_words(each),
        "-" if each.lag is None else duration(each.lag.seconds),
        "-" if each.lag is None else str(each.lag.waiting),
        duration(each.headroom),
        or_dash(each.position),
        or_dash(each.committed),
        or_dash(each.instance),
    )


def owner_words(each: TableStatus) -> str:
    """Who has the lock: `spark-1:4711`, `held`, `none`, `unknown (last spark-1:4711)`."""
    if each.held == "held":
        return each.owner or "held"
    if each.held == "free":
        return "none"
    return "unknown" if each.owner is None else f"unknown (last {each.owner})"


def _depth_row(each: Depth) -> tuple[str, ...]:
    numbers = (each.active, each.dead, each.scheduled, each.transfer_dead)
    return each.entity, or_dash(each.subscription), *(f"{number:,}" for number in numbers)


def status_document(status: Status) -> dict[str, Any]:
    return {
        "at": status.at,
        "complete": not status.unknown,
        "tables": [table_entry(each) for each in status.tables],
        "ingesters": [{"owner": owner, "tables": tables} for owner, tables in status.ingesters.items()],
        "queue": None if status.queue is None else _entity(status.queue, "queue"),
        "topics": [_entity(each, "topic") for each in status.topics],
        "capture": None
        if (capture := status.capture) is None
        else {"state": capture.state.value, "text": capture.text, "remedy": capture.hint},
        "missing_subscriptions": [
            {"output": each.output, "topic": each.topic, "subscription": each.subscription, "remedy": each.remedy}
            for each in status.missing
        ],
        "unknown": [_unread_entry(each) for each in status.unknown],
        "notes": [_unread_entry(each) for each in status.notes],
    }


def _unread_entry(each: Unread) -> dict[str, Any]:
    return {"what": each.what, "text": each.why, "remedy": each.hint}


def table_entry(each: TableStatus) -> dict[str, Any]:
    offset = {"position": each.position, "lsn": each.lsn, "committed_at": each.committed, "updated_at": each.updated}
    lag = each.lag
    return {
        "table": each.table,
        "lock": str(each.held),
        "owner": each.owner,
        "epoch": each.epoch,
        "offset": None if each.position is None else offset,
        "lag": None
        if lag is None
        else {"seconds": lag.seconds, "changes": lag.waiting.changes, "at_least": lag.waiting.capped},
        "headroom_seconds": each.headroom,
        "capture_instance": each.instance,
        "problem": each.problem,
        "snapshot": None
        if (snapshot := each.snapshot) is None
        else {"id": snapshot.id, "state": str(snapshot.state), "rows": snapshot.rows},
        "pause": None if (pause := each.pause) is None else {"at": pause.at, "by": pause.by, "reason": pause.reason},
    }


def _entity(depth: Depth, kind: str) -> dict[str, Any]:
    name: dict[str, Any] = {kind: depth.entity}
    if kind == "topic":
        name["subscription"] = depth.subscription
    return name | {
        "active": depth.active,
        "dead_letters": depth.dead,
        "scheduled": depth.scheduled,
        "transfer_dead_letters": depth.transfer_dead,
    }
