"""The shapes that hold now. A reload brings others, between two slices of a table: one that runs finishes with the shape that it began with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.errors import PermanentError
from common.names import TableName
from ingester.shape.columns import fitted, refuse_uncovered, uncaptured, with_nearest
from ingester.shape.compiled import compiled
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance


@dataclass(frozen=True, slots=True)
class _Judged:
    shape: TableShape
    instances: tuple[CaptureInstance, ...]
    """The older ones, then the one that was to be read."""
    refusal: PermanentError | None


class ShapesInForce:
    """Read from any thread, except `refusal` and `slips`, which the loop's thread asks."""

    def __init__(self, shapes: Mapping[TableName, TableShape]) -> None:
        self._shapes = shapes
        self._judged: dict[TableName, _Judged] = {}
        """The last one of each table: a pass asks for every table, and few have changed since the one before."""
        self._read: dict[TableName, CaptureInstance] = {}
        """What each table was read from last. It may be dropped by now."""
        self._slips: tuple[str, ...] = ()

    def take(self, shapes: Mapping[TableName, TableShape]) -> frozenset[TableName]:
        """Take over `shapes`; return the tables whose shape differs now. A removed table keeps its own: its slices may have yet to begin."""
        others = frozenset(name for name, shape in shapes.items() if self.of(name) != shape)
        self._shapes = {**self._shapes, **shapes}
        return others

    def refusal(
        self, table: TableName, instance: CaptureInstance, instances: Sequence[CaptureInstance] = ()
    ) -> PermanentError | None:
        """Why `table` cannot be read from `instance`. `instances`: all of the table, in order."""
        shape, last = self.of(table), self._judged.get(table)
        chosen = (*instances[: instances.index(instance)], instance) if len(instances) > 1 else (instance,)
        if last is None or last.shape != shape or last.instances != chosen:
            refused = self._refusal(table, shape, instance, (*chosen[:-1], *self._dropped(table, instance, instances)))
        else:
            refused = last.refusal
        self._judged[table] = _Judged(shape, chosen, refused)  # those of the newest catalog are found equal faster
        return refused

    def _dropped(
        self, table: TableName, instance: CaptureInstance, present: Sequence[CaptureInstance]
    ) -> Iterator[CaptureInstance]:
        """What this same table was read from before, if that is gone."""
        read = self._read.get(table)
        if read is not None and read.source == instance.source and all(read.columns != one.columns for one in present):
            yield read

    def _refusal(
        self, table: TableName, shape: TableShape, instance: CaptureInstance, older: tuple[CaptureInstance, ...]
    ) -> PermanentError | None:
        try:
            compiled(shape, instance, sends_before=False)
            refuse_uncovered(shape, older, instance)
        except PermanentError as error:
            return error
        self._read[table] = instance
        return None

    def slips(self, tables: Mapping[TableName, Sequence[CaptureInstance]]) -> tuple[str, ...]:
        """Names in the defaults that none of `tables`, which are all, captures: each once, until one does."""
        instances = [instance for own in tables.values() for instance in own]
        if not instances:
            return ()
        known, self._slips = self._slips, uncaptured(map(self.of, tables), instances)
        return with_nearest([name for name in self._slips if name not in known], instances)

    def of(self, table: TableName, instance: CaptureInstance | None = None) -> TableShape:
        """`instance`: what is read of it; the shape may name columns that came later."""
        shape = self._shapes.get(table, AS_CAPTURED)
        return shape if instance is None else fitted(shape, instance)
