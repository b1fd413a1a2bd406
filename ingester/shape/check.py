"""What a table's shape means for its captured columns, as findings of `dstream check`. Pure; shows no salt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from common.check import BY_EDITING, Finding, failed, ok, warn
from ingester.shape.columns import (
    SLIPS,
    SentColumn,
    ShapeRefused,
    refuse_uncovered,
    uncaptured,
    with_nearest,
)
from ingester.shape.compiled import compiled
from ingester.shape.summary import doubts, in_clear, left_out, limits, masked, sent_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance


def judge_shape(shape: TableShape, instances: Sequence[CaptureInstance], *, clear: bool = False) -> Iterator[Finding]:
    """What is sent of the newest of the table's `instances`, and what about it may not be meant. `clear`: also of a table that is sent as
    captured."""
    if not instances or (shape == AS_CAPTURED and not clear):
        return
    *older, instance = instances
    subject = f"shape of {instance.table.key}"
    try:
        compiled(shape, instance, sends_before=False)
        refuse_uncovered(shape, older, instance)
        sent = sent_of(shape, instance)
    except ShapeRefused as error:
        yield failed(subject, error, fix=BY_EDITING)
        return
    yield ok(subject, _said(shape, instance, sent))
    if found := list(doubts(shape, instance, sent)):
        yield warn(subject, "; ".join(text for text, _ in found), "; ".join(hint for _, hint in found), fix=BY_EDITING)


def judge_defaults(shapes: Iterable[TableShape], instances: Sequence[CaptureInstance]) -> Iterator[Finding]:
    """A warning about names in the defaults that no table captures. `instances`: of all tables."""
    names = with_nearest(uncaptured(shapes, instances), instances) if instances else ()
    if names:
        yield warn("shape", f"names columns that no table captures: {', '.join(names)}", SLIPS, fix=BY_EDITING)


def columns_read(shape: TableShape, instance: CaptureInstance) -> tuple[str, ...] | None:
    """The columns that a task reads; all of a table whose shape is refused."""
    try:
        return compiled(shape, instance, sends_before=False).columns
    except ShapeRefused:
        return None


def _said(shape: TableShape, instance: CaptureInstance, sent: tuple[SentColumn, ...]) -> str:
    parts = [f"sends {len(sent)} of {len(instance.columns)} columns, in clear {in_clear(sent) or 'none'}"]
    parts += [f"masks {found}"] if (found := masked(sent)) else []
    parts += [f"not {found}"] if (found := left_out(instance, sent)) else []
    parts += limits(shape)
    parts += ["sends schema events"] if shape.schema_events else []
    return "; ".join(parts)
