"""Tells of other columns before the first messages that have them (`schema_events`). Decides from the kept versions; moves no offset.

The event is sent first and its version kept then, so a kill between the two sends the event again, as the same message. The table's first version
is kept without an event: nothing was different before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ingester.change import Change
from ingester.position import Position
from ingester.schema.store import KeptSchema, SchemaStore
from ingester.shape.versions import schema_of, version_of
from ingester.slices import Slice
from ingester.source import CapturedColumn
from ingester.task.events import schema_event

Send = Callable[[Change], bool]
"""Sends an event; returns whether it was accepted. Raises as sending a page does."""


@dataclass(slots=True)
class SchemaTeller:
    """Of one slice, or one chunk. Parts and chunks of a table may tell at the same time: they send the same message, and keep one version.

    `store`: None where nothing is told.
    """

    store: SchemaStore | None
    todo: Slice
    _last: KeptSchema | None = None

    def told(self, columns: tuple[CapturedColumn, ...], at: Position, send: Send) -> bool:
        """Whether messages with `columns` may follow. `at`: the position of the first one. False: the event was not accepted yet."""
        todo, store = self.todo, self.store
        if store is None or not todo.shape.schema_events:
            return True
        version = version_of(columns, todo.shape)
        if self._last is not None and self._last.version == version:
            return True
        last = store.latest(todo.table)
        if last is None or last.version != version:
            following = KeptSchema(1 if last is None else last.number + 1, version, schema_of(columns, todo.shape))
            if last is not None and not send(schema_event(todo.instance, following, last.version, at)):
                return False
            store.keep(todo.table, todo.epoch, following)
            last = following
        self._last = last
        return True
