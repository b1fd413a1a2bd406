"""Tells of other columns before the first messages that have them (`schema_events`). Decides from the kept versions; moves no offset.

The event is sent first and its version kept then, so a kill between the two sends the event again, as the same message. The table's first version
is kept without an event: nothing was different before. With `initial_schema_events` it has one, and so has each snapshot, for consumers that begin
there.
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

    `store`: None where nothing is told. `snapshot`: of a chunk, whose rows a consumer may begin with.
    """

    store: SchemaStore | None
    todo: Slice
    snapshot: str | None = None
    _last: KeptSchema | None = None

    def told(self, columns: tuple[CapturedColumn, ...], at: Position, send: Send) -> bool:
        """Whether messages with `columns` may follow. `at`: the position of the first one. False: the event was not accepted yet."""
        todo, store = self.todo, self.store
        if store is None or not todo.shape.schema_events:
            return True
        version = version_of(columns, todo.shape)
        if self._last is not None and self._last.version == version:
            return True
        last, initial = store.latest(todo.table), todo.shape.initial_schema_events
        if last is None or last.version != version:
            following = KeptSchema(1 if last is None else last.number + 1, version, schema_of(columns, todo.shape))
            previous = version if last is None else last.version
            if (last is not None or initial) and not send(schema_event(todo.instance, following, previous, at)):
                return False
            store.keep(todo.table, todo.epoch, following)
            last = following
        elif initial and self.snapshot is not None and self._last is None:
            again = schema_event(todo.instance, last, version, at, snapshot=self.snapshot)
            if not send(again):
                return False
        self._last = last
        return True
