"""The results of `dstream snapshot` as text and as JSON. The keys of the JSON are documented (docs/history.md) and stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from common.unread import Unread
from dstream.rendering.columns import or_dash, table

if TYPE_CHECKING:
    from ingester.commands.snapshots import Changed, Listed, Started
    from ingester.history.desk import SeenSnapshot

LOOK_SECONDS = 10
"""How often a running ingester looks for snapshots that somebody has asked for."""

_SIZED_ROWS = 1_000
"""With fewer rows, the space of the table is mostly pages that are not full."""

_LISTED = ("ID", "TABLE", "STATE", "REASON", "ROWS", "OF ABOUT", "SINCE", "UPDATED", "OWNER", "TO", "WHERE", "ERROR")
_RIGHT = ("ROWS", "OF ABOUT")


def started_lines(started: Started) -> Iterator[str]:
    """What it will read and send, when it begins, and its id."""
    base = started.base
    sized = base.row_bytes is not None and base.rows >= _SIZED_ROWS
    size = f" of about {base.row_bytes:,.0f} bytes each" if sized else ""
    yield f"table:  {started.table.key}, about {base.rows:,} rows{size}"
    if started.where is not None:
        yield f"where:  {started.where}"
    if base.order:
        yield f"order:  by {', '.join(base.order)}, in chunks; the table's changes are sent between them"
    else:
        yield "order:  none: the table has no key, so it is read in one pass, and its changes wait meanwhile"
    yield f"to:     {started.topic or 'the topic of the table'}"
    if started.ahead:
        yield f"behind: {started.ahead} of the table {'is' if started.ahead == 1 else 'are'} not over; one runs at a time"
    yield f"begins: {_begins(started)}"
    if started.id is None:
        yield "not asked for: --dry-run"
    else:
        yield f"id:     {started.id}"


def _begins(started: Started) -> str:
    locks = started.locks
    soon = (
        f"within {LOOK_SECONDS} s" if not started.ahead else "after that one" if started.ahead == 1 else "after those"
    )
    if locks.unknown is not None:
        return f"{soon} if an ingester reads the table, which cannot be seen: {locks.unknown.message}"
    if started.table in locks.held:
        return f"{soon}: a running ingester reads the table"
    return "when an ingester reads the table: none does now"


def listed_lines(found: Listed, unread: Sequence[Unread]) -> list[str]:
    problems = [f"unknown: {each}" for each in unread]
    if not found.snapshots:
        return problems or ["no snapshot was asked for"]
    rows = [
        (
            each.snapshot.id,
            each.snapshot.table,
            each.snapshot.state.value,
            each.snapshot.reason.value,
            f"{each.snapshot.rows:,}",
            "-" if (size := _of(each, found)) is None else f"{size:,}",
            each.begun or each.asked,
            or_dash(each.updated),
            or_dash(each.owner),
            or_dash(each.snapshot.topic),
            or_dash(each.snapshot.where),
            or_dash(each.error),
        )
        for each in found.snapshots
    ]
    return [*table(_LISTED, rows, right=_RIGHT), *problems]


def listed_document(found: Listed, unread: Sequence[Unread]) -> dict[str, Any]:
    return {
        "complete": not unread,
        "snapshots": [_entry(each, _of(each, found)) for each in found.snapshots],
        "unknown": [{"what": each.what, "text": each.why, "remedy": each.hint} for each in unread],
    }


def _entry(each: SeenSnapshot, size: int | None) -> dict[str, Any]:
    snapshot = each.snapshot
    return {
        "id": snapshot.id,
        "table": snapshot.table,
        "state": snapshot.state.value,
        "reason": snapshot.reason.value,
        "rows": snapshot.rows,
        "of": size,
        "chunks": snapshot.chunks,
        "where": snapshot.where,
        "to": snapshot.topic,
        "asked": each.asked,
        "asked_by": each.asked_by,
        "begun": each.begun,
        "updated": each.updated,
        "owner": each.owner,
        "error": each.error,
    }


def _of(each: SeenSnapshot, found: Listed) -> int | None:
    """About how many rows there are to send; None where that is not known: nobody counts how many a condition chooses."""
    return None if each.snapshot.where is not None else found.sizes.get(each.snapshot.table)


_NOW = {
    "paused": "paused; what was sent is not sent again: dstream snapshot resume {id}",
    "waiting": f"it goes on within {LOOK_SECONDS} s if an ingester reads the table",
    "running": "it runs",
    "stopped": "stopped; rows that were not read yet are not sent",
    "done": "it is over: all rows were sent",
    "failed": "it failed; dstream snapshot resume {id} goes on where it stopped",
}


def changed_lines(changed: Sequence[Changed]) -> Iterator[str]:
    for each in changed:
        snapshot = each.seen.snapshot
        state = _NOW[snapshot.state.value].format(id=snapshot.id)
        yield f"snapshot {snapshot.id} of {snapshot.table}: {state}; {snapshot.rows:,} rows were sent"
