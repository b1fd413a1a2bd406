"""What the change tables say of changes that are old: for those who look at dead letters, and at the way of a change. Changes nothing.

A change is read and judged by what the ingester itself reads and judges with: the same source, shape and encoder. What leaves this module is what
the ingester would send, never a row as it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from common.cel.filters import FilterFailed
from common.errors import DStreamError
from common.names import TableName
from ingester.change import OPERATION_NAMES, Change
from ingester.commands.stores import chosen
from ingester.operating.finding import Captured, ChangeFinder, Found, Moved, Named, TableLook, Treated
from ingester.operating.newer import NewerChanges
from ingester.position import Position
from ingester.settings import IngesterSettings
from ingester.shape.compiled import Compiled, compiled
from ingester.source import CaptureInstance
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.operating.desk import SqlServerDesk
from ingester.sqlserver.operating.finding import SqlServerFinder, position_of_place
from ingester.sqlserver.operating.newer import SqlServerNewer
from ingester.sqlserver.position import in_the_log
from ingester.sqlserver.transactions.source import sql_server_source
from ingester.task.encode import Encoder
from ingester.task.identity import event_ids_begin

_QUERY_SECONDS = 10.0
_SKIPS = {
    "skip_operations": "the operation is one that its table leaves out (skip_operations)",
    "skip_unchanged": "the update changed no column that is sent (skip_unchanged)",
    "filter": "its table's filter is not true for it",
}


def newer_changes(settings: IngesterSettings) -> NewerChanges:
    """Connects at the first question; for one thread at a time."""
    connection = Connection(settings.db, query_seconds=_QUERY_SECONDS)
    source = sql_server_source(connection, transactions=False, tables=lambda: settings.tables)
    return SqlServerNewer(connection, source, SqlServerDesk(connection))


def change_finder(settings: IngesterSettings) -> ChangeFinder:
    """`settings` with the names of the tables that patterns match. Connects at the first question; for one thread at a time."""
    return _Finder(settings)


class _Finder:
    def __init__(self, settings: IngesterSettings) -> None:
        connection = Connection(settings.db, query_seconds=_QUERY_SECONDS)
        source = sql_server_source(
            connection,
            transactions=False,
            tables=lambda: settings.tables,
            before_images=settings.before_images,
            decimals_as_numbers=settings.decimals == "number",
            query_mode=settings.query_mode,
        )
        self._settings = settings
        self._finder = SqlServerFinder(connection, source, SqlServerDesk(connection))
        queue = settings.queue
        self._encoder = Encoder(settings.origin, queue.name, queue.ordering, queue.key_buckets)
        self._shapes = {
            each.name.key.casefold(): each.shape for each in settings.schedule
        }  # a change has the server's spelling
        self._instances: dict[TableName, tuple[CaptureInstance, ...]] = {}
        self._begins = {
            begin.casefold(): table
            for table in settings.streams
            for begin in event_ids_begin(settings.origin.database, table)
        }

    def named(self, event_id: str) -> Named | None:
        names, colon, place = event_id.rpartition(":")
        table = self._begins.get((names + colon).casefold())
        if table is None:
            return None
        position = position_of_place(place)
        if position is not None and table.key.casefold() in self._shapes:
            return Named(table, position)
        kind = place.partition("-")[0]
        return Named(
            table,
            None,
            kind
            if kind in ("gap", "schema")
            else "transaction"
            if table.key.casefold() not in self._shapes
            else "read",
        )

    def table(self, name: str) -> TableName:
        return chosen(self._settings, [name])[0]

    def look(self, table: TableName) -> TableLook:
        look, instances = self._finder.look(table)
        self._instances[table] = tuple(instances)
        return look

    def at(self, table: TableName, position: Position) -> Captured | None:
        if table not in self._instances:
            self.look(table)
        found = self._finder.read(self._instances[table], in_the_log(position), self._columns)
        return None if found is None else self._judged(*found)

    def of_key(self, table: TableName, key: Mapping[str, str], most: int) -> Found:
        if table not in self._instances:
            self.look(table)
        positions = self._finder.of_key(self._instances[table], key, most)
        changes = [self._finder.read([instance], position, self._columns) for instance, position in positions.found]
        return Found([self._judged(*each) for each in changes if each is not None], positions.rows, positions.back_to)

    def moved_over(self, table: TableName, position: Position) -> Moved | None:
        return self._finder.moved_over(table, in_the_log(position))

    def commit_time(self, position: Position) -> str | None:
        return self._finder.commit_time(in_the_log(position))

    def close(self) -> None:
        self._finder.close()

    def _judged(self, instance: CaptureInstance, change: Change) -> Captured:
        treated, why, sent = self._treated(instance, change)
        metadata = self._encoder.metadata(change)
        return Captured(
            change.table,
            metadata["EventID"],
            OPERATION_NAMES[change.operation],
            metadata["LSN"],
            change.commit_time,
            change.position,
            treated,
            why,
            None if sent is None else self._encoder.message(sent),
        )

    def _treated(self, instance: CaptureInstance, change: Change) -> tuple[Treated, str | None, Change | None]:
        """As a slice does. The row before the change was read in any case; the shape sees it only where a slice would have read it."""
        before_images = self._settings.before_images
        try:
            ready = self._compiled(instance)
        except DStreamError as error:
            return Treated.STOPS, error.message, None
        found = change if before_images or ready.reads_before else replace(change, before=None)
        for transform in ready.transforms:
            try:
                made = transform(found)
            except FilterFailed as failed:
                return Treated.STOPS, str(failed), None
            if made is None:
                treated = Treated.FILTERED if transform.name == "filter" else Treated.SKIPPED
                return treated, _SKIPS.get(transform.name, f"{transform.name} leaves it out"), None
            found = made
        if not before_images and found.before is not None:
            found = replace(found, before=None)
        if found.set_aside is not None:
            return Treated.SET_ASIDE, found.set_aside, found
        return Treated.SENT, None, found

    def _compiled(self, instance: CaptureInstance) -> Compiled:
        shape, metadata = self._shapes[instance.table.key.casefold()], self._encoder.metadata
        return compiled(shape, instance, sends_before=self._settings.before_images, metadata=metadata)

    def _columns(self, instance: CaptureInstance) -> tuple[str, ...] | None:
        """Those that a slice would read: one of an unsupported type may be left out by the shape."""
        try:
            return self._compiled(instance).columns
        except DStreamError:
            return None
