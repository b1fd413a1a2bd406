"""The shapes that hold now. A reload brings others, between two slices of a table: one that runs finishes with the shape that it began with."""

from __future__ import annotations

from collections.abc import Mapping

from common.names import TableName
from ingester.shape.columns import ShapeRefused
from ingester.shape.compiled import compiled
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance


class ShapesInForce:
    """Read from any thread."""

    def __init__(self, shapes: Mapping[TableName, TableShape]) -> None:
        self._shapes = shapes

    def take(self, shapes: Mapping[TableName, TableShape]) -> frozenset[TableName]:
        """Take over `shapes`; return the tables whose shape differs now. A removed table keeps its own: its slices may have yet to begin."""
        others = frozenset(name for name, shape in shapes.items() if self.of(name) != shape)
        self._shapes = {**self._shapes, **shapes}
        return others

    def refusal(self, table: TableName, instance: CaptureInstance) -> ShapeRefused | None:
        """Why `table` cannot be read from `instance`."""
        try:
            compiled(self.of(table), instance, sends_before=False)
        except ShapeRefused as error:
            return error
        return None

    def of(self, table: TableName) -> TableShape:
        return self._shapes.get(table, AS_CAPTURED)
