"""A shape made ready for one capture instance: what its source has to read, and the transform of each change. Pure.

The order is fixed: skipped operations, unchanged updates, the filter, which sees the row as it was captured, the trace, columns and masks. What is
left out is never sent; what is sent holds no column and no value that the shape keeps back, in `data` or in `before`. A change keeps its
table, position, operation and key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import orjson

from common.cel.filters import METADATA, Filter, FilterFailed
from common.observability.trace_context import traceparent
from ingester.change import Change, Operation
from ingester.shape.columns import SentColumn, ShapeRefused, fitted, sent_columns
from ingester.shape.filters import compile_filter
from ingester.shape.masking import Masking, masking
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.shape.versions import version_of
from ingester.source import CapturedColumn, CaptureInstance
from ingester.transform import Transform

_SHAPES: Final = 1024
"""How many compiled shapes are cached: a worker gets every table in time, some with two capture instances."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """`columns`: those to read; None: all. `reads_before`: whether the row before each update has to be read."""

    columns: tuple[str, ...] | None = None
    reads_before: bool = False
    transforms: tuple[Transform, ...] = ()


_AS_CAPTURED: Final = Compiled()


MetadataOf = Callable[[Change], Mapping[str, object]]
"""The metadata of a change's message."""


def compiled(
    shape: TableShape,
    instance: CaptureInstance,
    *,
    sends_before: bool,
    metadata: MetadataOf | None = None,
    columns: tuple[CapturedColumn, ...] = (),
) -> Compiled:
    """`sends_before`: whether `before` is sent. `metadata`: for the filter; without it no change can be transformed. `columns`: those that
    rows were read with; else those of `instance`.

    Raises ShapeRefused, and ConfigurationError for a salt that is not set.
    """
    if shape == AS_CAPTURED:
        return _AS_CAPTURED
    try:
        return _compiled(fitted(shape, instance), columns or instance.columns, sends_before, metadata)
    except ShapeRefused as error:
        raise ShapeRefused(f"the shape of {instance.table.key}: {error.message}", hint=error.hint or "") from None


@lru_cache(_SHAPES)
def _compiled(
    shape: TableShape, columns: tuple[CapturedColumn, ...], sends_before: bool, metadata: MetadataOf | None
) -> Compiled:
    sent = sent_columns(shape, columns)
    names = tuple(one.column.name for one in sent)
    transforms = list[Transform]()
    if shape.skip_operations:
        transforms.append(SkipOperations(frozenset(shape.skip_operations)))
    if shape.skip_unchanged:
        transforms.append(SkipUnchanged(names))
    read = frozenset(names)
    if shape.filter is not None:
        wanted = Filtered.of(shape.filter, metadata, sets_aside=shape.on_filter_error == "dead_letter")
        read |= _needed(wanted.filter, columns)
        transforms.append(wanted)
    if shape.trace_column is not None and (traced := Traced.of(shape.trace_column, shape, columns)) is not None:
        read |= {traced.column}
        transforms.append(traced)
    keeps_before = sends_before or not shape.skip_unchanged
    row = Row.of(sent, columns, keeps_before=keeps_before, schema_version=version_of(columns, shape))
    if row is not None:
        transforms.append(row)
    to_read = None if len(read) == len(columns) else tuple(one.name for one in columns if one.name in read)
    return Compiled(to_read, shape.skip_unchanged, tuple(transforms))


def _needed(wanted: Filter, columns: Sequence[CapturedColumn]) -> frozenset[str]:
    """The columns that a filter may use, which finds them in another case as well. Whether a change has the value of a dropped column shows
    only when it is read."""
    if wanted.columns is None:
        return frozenset(one.name for one in columns)
    folded = {name.casefold() for name in wanted.columns}
    metadata = wanted.fields[METADATA]
    asks = metadata is None or "Unavailable" in metadata
    return frozenset(one.name for one in columns if one.name.casefold() in folded or (asks and one.gone))


@dataclass(frozen=True, slots=True)
class SkipOperations:
    """Leaves changes with these operations out."""

    operations: frozenset[Operation]
    name = "skip_operations"

    def __call__(self, change: Change) -> Change | None:
        return None if change.operation in self.operations else change


@dataclass(frozen=True, slots=True)
class SkipUnchanged:
    """Leaves updates out that changed the value of none of `columns`.

    By the values before and after it: the server's update mask may also have columns that were written with the value that they had. Where
    capture does not have a column's value before the update, the mask decides.
    """

    columns: tuple[str, ...]
    name = "skip_unchanged"

    def __call__(self, change: Change) -> Change | None:
        if change.operation is not Operation.UPDATE or self._changed(change):
            return change
        return None

    def _changed(self, change: Change) -> bool:
        before, data = change.before or {}, change.data
        return any(
            not _same(before[name], data[name]) if name in before else name in change.changed_columns
            for name in self.columns
            if name in data
        )


@dataclass(frozen=True, slots=True)
class Filtered:
    """Leaves changes out that the filter is not true for. One on which it fails is set aside, or FilterFailed is raised."""

    filter: Filter
    metadata: MetadataOf | None
    sets_aside: bool
    name = "filter"

    @classmethod
    def of(cls, text: str, metadata: MetadataOf | None, *, sets_aside: bool) -> Filtered:
        wanted = compile_filter(text)
        uses_metadata = wanted.fields[METADATA] is None or wanted.fields[METADATA]
        return cls(wanted, metadata if uses_metadata else _no_metadata, sets_aside)

    def __call__(self, change: Change) -> Change | None:
        assert self.metadata is not None
        try:
            return change if self.filter(change.data, change.before, self.metadata(change)) else None
        except FilterFailed as failed:
            if not self.sets_aside:
                raise
            return replace(change, set_aside=str(failed))


@dataclass(frozen=True, slots=True)
class Traced:
    """Takes the trace context of a change from the column that its application wrote it into.

    A delete has the row's last values, and an update that did not write the column an earlier write's: neither context is its own.
    """

    column: str
    name = "trace_column"

    @classmethod
    def of(cls, name: str, shape: TableShape, captured: Sequence[CapturedColumn]) -> Traced | None:
        """None for a table without the column. Raises ShapeRefused if it is masked, sent or not: its value would leave as it is."""
        own = [one.name for one in captured if one.name == name] or [
            one.name for one in captured if one.name.casefold() == name.casefold()
        ]
        if not own:
            return None
        others = {one.name for one in captured} - {own[0]}
        if any(masked.casefold() == own[0].casefold() and masked not in others for masked, _ in shape.masks):
            raise ShapeRefused(
                f'trace_column names "{own[0]}", which is masked: leave it out with exclude_columns instead, and remove its mask'
            )
        return cls(own[0])

    def __call__(self, change: Change) -> Change | None:
        written = change.operation is Operation.INSERT or (
            change.operation is Operation.UPDATE and self.column in change.changed_columns
        )
        found = traceparent(change.data.get(self.column)) if written else None
        return change if found is None else replace(change, traceparent=found)


def _no_metadata(change: Change) -> Mapping[str, object]:
    """For a filter that does not use any: making it takes longer than most filters."""
    return {}


@dataclass(frozen=True, slots=True)
class Row:
    """Leaves out columns and masks values. `columns`: those that stay; None: all. `masks`: by column. `schema_version`: of what it makes."""

    columns: frozenset[str] | None
    masks: tuple[tuple[str, Masking], ...]
    keeps_before: bool
    schema_version: str
    name = "shape"

    @classmethod
    def of(
        cls,
        sent: Sequence[SentColumn],
        captured: Sequence[CapturedColumn],
        *,
        keeps_before: bool,
        schema_version: str,
    ) -> Row | None:
        """None if there is nothing to do."""
        masks = tuple((one.column.name, masking(one.mask, one.column)) for one in sent if one.mask is not None)
        columns = None if len(sent) == len(captured) else frozenset(one.column.name for one in sent)
        if columns is None and not masks and keeps_before:
            return None
        return cls(columns, masks, keeps_before, schema_version)

    def __call__(self, change: Change) -> Change | None:
        data = self._shaped(change.data)
        before = change.before
        if before is not None:
            before = (data if before is change.data else self._shaped(before)) if self.keeps_before else None
        changed, unavailable = change.changed_columns, change.unavailable
        if self.columns is not None:
            changed = tuple([name for name in changed if name in self.columns])
            unavailable = tuple([name for name in unavailable if name in self.columns])
        if not self.keeps_before and unavailable:
            unavailable = tuple([name for name in unavailable if name not in data])
        return replace(
            change,
            data=data,
            before=before,
            changed_columns=changed,
            unavailable=unavailable,
            schema_version=self.schema_version,
        )

    def _shaped(self, row: Mapping[str, object]) -> Mapping[str, object]:
        columns = self.columns
        # A source has read no others, unless the filter needs them.
        shaped = dict(row) if columns is None or row.keys() <= columns else _some(row, columns)
        for name, masked in self.masks:
            value = shaped.get(name)
            if value is not None:
                shaped[name] = masked(value)
        return shaped


def _some(row: Mapping[str, object], columns: frozenset[str]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name in columns}


def _same(one: object, other: object) -> bool:
    if isinstance(one, orjson.Fragment) and isinstance(other, orjson.Fragment):
        return orjson.dumps(one) == orjson.dumps(other)
    return one == other
