"""Keeps paused tables from being read: no slice, no stride and no round of a snapshot begins. What is in flight ends by itself, and locks stay.

A paused table is looked at as any other, so that its lock is claimed and its results are taken in; it is never part of a probe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from queue import SimpleQueue

import structlog

from common.clock import UnixTime
from common.names import TableName
from ingester.driver.pausing.look import Heard
from ingester.driver.roster import Roster
from ingester.driver.tables import TrackedTable
from ingester.operating.pauses import Pause
from ingester.slices import Slice
from ingester.watch.figures import Standing

log = structlog.get_logger("ingester")


class Pausing:
    """`heard`, `holds` and `held_back` are for any thread, the rest is for the loop."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._heard: SimpleQueue[Heard] = SimpleQueue()
        self._paused: Mapping[str, Pause] = {}

    def heard(self, news: Heard) -> None:
        """Take it over at the next turn of the loop."""
        self._heard.put(news)

    def look(self) -> None:
        """Take over what was heard."""
        while not self._heard.empty():
            self._take(self._heard.get())

    def _take(self, news: Heard) -> None:
        before, self._paused = self._paused, news.paused
        for table in [*self._roster.tables]:
            key = table.key.lower()
            was, now = before.get(key), news.paused.get(key)
            if was == now:
                continue
            if now is not None:
                log.info("table paused", table=table.key, by=now.by, at=now.at, reason=now.reason)
            else:
                last = news.resumed.get(key)
                who = {} if last is None else {"by": last.by, "at": last.at, "reason": last.reason}
                log.info("table resumed", table=table.key, **who)
            self._roster.hurry([table])

    def holds(self, table: TableName) -> bool:
        """Whether `table` is paused."""
        return bool(self._paused) and table.key.lower() in self._paused

    def sift(self, tables: list[TrackedTable]) -> list[TrackedTable]:
        """Those of `tables` that may be read."""
        return [table for table in tables if not self.holds(table.name)] if self._paused else tables

    def due(self, names: Iterable[TableName]) -> list[TableName]:
        """Those of `names` that may be read: a paused table that has something to do is not looked at because of it."""
        return [name for name in names if not self.holds(name)]

    def standing(self, table: TrackedTable, *, catalog_known: bool) -> Standing:
        """The state of `table` while it is not read."""
        found = table.standing(catalog_known=catalog_known)
        return Standing.PAUSED if found is Standing.READ and self.holds(table.name) else found

    def held_back(self, todo: Slice) -> Slice:
        """`todo`, which a worker begins now. A whole slice of a paused table sends nothing, nor does a chunk of a snapshot, which is sent
        after the resume; a part of a stride that is under way is finished."""
        if todo.part is not None or not self.holds(todo.table):
            return todo
        return replace(todo, send_before=UnixTime(0.0), lease_seconds=0.0)
