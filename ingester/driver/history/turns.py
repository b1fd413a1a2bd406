"""Whose turn it is: a table's stream, or a round of its snapshot, which this module hands over to workers."""

from __future__ import annotations

from dataclasses import replace

from ingester.driver.dispatch import Dispatcher
from ingester.driver.history.snapshots import Snapshots
from ingester.driver.tables import Act, Decision, TrackedTable
from ingester.slices import Slice
from ingester.source import CaptureInstance

_ONE_PASS_SECONDS = 86_400.0
"""A table without an order has no end before its last row."""


class Turns:
    """`page_rows`, `seconds`: the settings of a slice."""

    def __init__(self, snapshots: Snapshots, dispatcher: Dispatcher, *, page_rows: int, seconds: float) -> None:
        self._snapshots = snapshots
        self._dispatcher = dispatcher
        self._page_rows = page_rows
        self._seconds = seconds

    def takes(self, table: TrackedTable, decision: Decision, *, shut: bool) -> bool:
        """Whether a round of a snapshot has begun, so that `table` is out. `shut`: the queue refuses messages. Raises ConnectionLost."""
        if decision.act is Act.GO_OVER or table.successor is not None:
            return False
        if table.offset is None:
            self._snapshots.wait_for_capture(table)
            return False
        if decision.act is Act.GAP and self._snapshots.streams(table):
            return False
        room, instance = self._dispatcher.room, decision.window.instance
        if not self._snapshots.turn(table, instance, pending=decision.act is not Act.WAIT, room=max(1, room)):
            return False
        if shut or (room < 1 and self._snapshots.rounds_out):
            self._snapshots.postpone(table)
            return False
        chunks = self._snapshots.round(table, instance, room=max(1, room))
        for chunk in chunks:
            todo = replace(self.slice(table, instance), chunk=chunk)
            if chunk.table.order:
                self._dispatcher.add(todo, backlog=True)
            else:
                self._dispatcher.add_long(replace(todo, seconds=_ONE_PASS_SECONDS))
        return bool(chunks)

    def slice(self, table: TrackedTable, instance: CaptureInstance) -> Slice:
        """One that begins and ends at the offset."""
        assert table.lease is not None
        assert table.offset is not None
        return Slice(
            table=table.name,
            instance=instance,
            start=table.offset,
            upto=table.offset,
            epoch=table.lease.epoch,
            rows=self._page_rows,
            seconds=self._seconds,
            row_bytes=table.row_bytes,
        )
