"""What a table's shape means for its captured columns, as findings of `dstream check`. Pure; shows no salt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from common.check import BY_EDITING, Finding, failed, ok, warn
from ingester.change import OPERATION_NAMES
from ingester.shape.columns import (
    SentColumn,
    ShapeRefused,
    fitted,
    refuse_uncovered,
    sent_columns,
    uncaptured,
    with_nearest,
)
from ingester.shape.compiled import compiled
from ingester.shape.filters import compile_filter
from ingester.shape.masking import characters
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance

_FEWEST_DIGITS: Final = 16
"""Of a key's hash: with fewer, two rows of a large table get the same one."""


def judge_shape(shape: TableShape, instances: Sequence[CaptureInstance]) -> Iterator[Finding]:
    """One finding, for the newest of the table's `instances`; nothing for a table that is sent as captured."""
    if shape == AS_CAPTURED or not instances:
        return
    *older, instance = instances
    subject = f"shape of {instance.table.key}"
    try:
        compiled(shape, instance, sends_before=False)
        refuse_uncovered(shape, older, instance)
        sent = sent_columns(fitted(shape, instance), instance.columns)
    except ShapeRefused as error:
        yield failed(subject, error, fix=BY_EDITING)
        return
    found = list(_doubts(shape, instance, sent))
    if found:
        yield warn(subject, "; ".join(text for text, _ in found), "; ".join(hint for _, hint in found), fix=BY_EDITING)
    else:
        yield ok(subject, _said(shape, instance, sent))


def judge_defaults(shapes: Iterable[TableShape], instances: Sequence[CaptureInstance]) -> Iterator[Finding]:
    """A warning about names in the defaults that no table captures. `instances`: of all tables."""
    names = with_nearest(uncaptured(shapes, instances), instances) if instances else ()
    if names:
        hint = "correct the names in ingester.shape, whose columns may be sent in clear; nothing, if a table with them comes later"
        yield warn("shape", f"names columns that no table captures: {', '.join(names)}", hint, fix=BY_EDITING)


def columns_read(shape: TableShape, instance: CaptureInstance) -> tuple[str, ...] | None:
    """The columns that a task reads; all of a table whose shape is refused."""
    try:
        return compiled(shape, instance, sends_before=False).columns
    except ShapeRefused:
        return None


def _doubts(shape: TableShape, instance: CaptureInstance, sent: tuple[SentColumn, ...]) -> Iterator[tuple[str, str]]:
    for one in sent:
        most = characters(one.column)
        if one.masked == "hash" and one.column.key_ordinal is not None and most is not None and most < _FEWEST_DIGITS:
            yield (
                f"the hash of {one.column.name}, part of the key, is cut to the {most} characters of its column: two rows may get the same key",
                "consumers should take another key, or the column be made longer",
            )
    known = {column.name.casefold() for column in instance.columns}
    named = compile_filter(shape.filter).columns if shape.filter is not None else None
    if unknown := sorted(name for name in named or () if name.casefold() not in known):
        yield (
            f"the filter names {', '.join(unknown)}, which {instance.name} does not capture: it fails on every change that needs it",
            "correct the filter, or ask with has(data.NAME) first",
        )


def _said(shape: TableShape, instance: CaptureInstance, sent: tuple[SentColumn, ...]) -> str:
    names = {one.column.name for one in sent}
    left = [column.name for column in instance.columns if column.name not in names]
    masked = [f"{one.column.name} ({one.masked})" for one in sent if one.masked]
    skipped = [OPERATION_NAMES[one].lower() + "s" for one in shape.skip_operations]
    parts = [f"sends {len(sent)} of {len(instance.columns)} columns" + (f", not {', '.join(left)}" if left else "")]
    parts += [f"masks {', '.join(masked)}"] if masked else []
    parts += [f"leaves out {', '.join(skipped)}"] if skipped else []
    parts += ["leaves out updates that changed no sent column"] if shape.skip_unchanged else []
    parts += ["has a filter"] if shape.filter is not None else []
    parts += ["sends schema events"] if shape.schema_events else []
    return "; ".join(parts)
