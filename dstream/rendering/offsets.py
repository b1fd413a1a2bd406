"""The results of `dstream offsets` as text and as JSON. The keys of the JSON are documented (docs/run.md) and stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from common.unread import Unread
from dstream.rendering.columns import duration, or_dash, table
from dstream.rendering.status import owner_words, table_entry

if TYPE_CHECKING:
    from ingester.commands.offsets import MoveResult
    from ingester.commands.status import TableStatus
    from ingester.operating.moving import MovePlan
    from ingester.operating.offset_desk import Move

_SHOWN = ("TABLE", "OFFSET", "COMMITTED", "OWNER", "EPOCH", "HEADROOM")
_FIRST = "none: the table was never read"


def shown_lines(tables: Sequence[TableStatus], unread: Sequence[Unread]) -> list[str]:
    rows = [
        (
            each.table,
            or_dash(each.position),
            or_dash(each.committed),
            owner_words(each),
            or_dash(each.epoch),
            duration(each.headroom),
        )
        for each in tables
    ]
    problems = [f"problem: {each.table}: {each.problem}" for each in tables if each.problem is not None]
    return [*table(_SHOWN, rows, right=("EPOCH", "HEADROOM")), *problems, *(f"unknown: {each}" for each in unread)]


def shown_document(tables: Sequence[TableStatus], unread: Sequence[Unread]) -> dict[str, Any]:
    """Entries as in `dstream status`, without the lag."""
    entries = [table_entry(each) for each in tables]
    return {
        "complete": not unread,
        "tables": [{key: value for key, value in entry.items() if key != "lag"} for entry in entries],
        "unknown": [{"what": each.what, "text": each.why, "remedy": each.hint} for each in unread],
    }


def result_lines(result: MoveResult, *, dry_run: bool, duplicate_window: timedelta) -> Iterator[str]:
    """From, to, what it means, and what happened."""
    plan = result.plan
    yield f"table:  {plan.table.key}"
    yield f"from:   {_FIRST if result.begun is None else result.begun}"
    yield f"to:     {result.to}"
    yield from _meaning(plan, duplicate_window)
    if result.lacking:
        yield from (f"refused without {option}: {why}" for option, why in result.lacking)
    elif result.moved:
        yield from _moved(plan)
    elif plan.begun == plan.to:
        yield "nothing to do: the offset is there already"
    elif dry_run:
        yield "not moved: --dry-run"


def _meaning(plan: MovePlan, duplicate_window: timedelta) -> Iterator[str]:
    if plan.again is not None:
        yield (
            f"again:  {plan.again} will be sent again; queue and topics drop copies of what they accepted within their duplicate "
            f"window (the queue's is {duration(duplicate_window.total_seconds())})"
        )
    if plan.lost is not None:
        yield f"lost:   {plan.lost}"
    if plan.skipped is not None:
        yield f"lost:   {plan.skipped} will never be sent"


def _moved(plan: MovePlan) -> Iterator[str]:
    yield "moved, and written to dbo.cdc_offset_moves"
    if plan.held == "free":
        yield 'an ingester reads on from here; one that has stopped this table ("table stopped" in its log) must be restarted'
    else:
        yield (
            f"{plan.owner or 'an ingester that runs'} can no longer commit what it had begun to read; within about a minute it logs "
            '"lock lost", and an ingester takes the table again from here'
        )


_MOVES = ("AT", "TABLE", "FROM", "TO", "LOGIN", "HOST", "REASON")


def moves_lines(moves: Sequence[Move]) -> list[str]:
    if not moves:
        return ["no offset was ever moved by hand"]
    rows = [
        (
            each.at,
            each.table,
            or_dash(each.begun),
            each.to,
            each.login,
            or_dash(each.host),
            or_dash(each.reason),
        )
        for each in moves
    ]
    return table(_MOVES, rows)


def moves_document(moves: Sequence[Move]) -> dict[str, Any]:
    return {
        "moves": [
            {
                "at": each.at,
                "table": each.table,
                "from": each.begun,
                "to": each.to,
                "login": each.login,
                "host": each.host,
                "reason": each.reason,
            }
            for each in moves
        ]
    }
