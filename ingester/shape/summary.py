"""What a shape comes to for a capture instance, in words for the log and for `dstream check`. Pure; shows no salt and no text of a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ingester.change import OPERATION_NAMES
from ingester.shape.columns import SentColumn, fitted, sent_columns
from ingester.shape.filters import compile_filter
from ingester.shape.masking import characters
from ingester.shape.table_shape import TableShape
from ingester.source import CaptureInstance

_FEWEST_DIGITS: Final = 16
"""Of a key's hash: with fewer, two rows of a large table get the same one."""
_NAMED: Final = 40
"""The most columns in a text, besides the masked ones, all of which are named."""


def sent_of(shape: TableShape, instance: CaptureInstance) -> tuple[SentColumn, ...]:
    """The columns that are sent. Raises ShapeRefused if `shape` does not fit."""
    return sent_columns(fitted(shape, instance), instance.columns)


def doubts(shape: TableShape, instance: CaptureInstance, sent: Sequence[SentColumn]) -> Iterator[tuple[str, str]]:
    """What may not be meant, and what to do about it."""
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


def in_clear(sent: Iterable[SentColumn]) -> str:
    """The columns that are sent as they are."""
    return _listed([one.column.name for one in sent if one.mask is None])


def left_out(instance: CaptureInstance, sent: Iterable[SentColumn]) -> str:
    """The captured columns that are not sent."""
    names = {one.column.name for one in sent}
    return _listed([column.name for column in instance.columns if column.name not in names])


def masked(sent: Iterable[SentColumn]) -> str:
    """The columns that are masked, and how."""
    return ", ".join(f"{one.column.name} ({one.masked})" for one in sent if one.masked)


def limits(shape: TableShape) -> Iterator[str]:
    """Which changes are left out."""
    if shape.skip_operations:
        yield f"leaves out {', '.join(OPERATION_NAMES[one].lower() + 's' for one in shape.skip_operations)}"
    if shape.skip_unchanged:
        yield "leaves out updates that changed no sent column"
    if shape.filter is not None:
        yield "has a filter"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
