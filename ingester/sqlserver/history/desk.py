"""The snapshots of SQL Server's tables as a person asks for them, sees them and stops them: dbo.cdc_snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from common.errors import DStreamError, PermanentError
from common.names import TableName
from ingester.history.desk import OPEN, POSSIBLE, SeenSnapshot
from ingester.history.snapshot import Snapshot, SnapshotState
from ingester.sqlserver.connection import Connection, needing
from ingester.sqlserver.hints import USE_SNAPSHOTS
from ingester.sqlserver.history.store import SqlServerSnapshots, new_id, read
from ingester.sqlserver.sql import operating as queries_of_operating
from ingester.sqlserver.sql import snapshots as queries
from ingester.sqlserver.sql.changes import Statement

_AT_ONCE = 500
"""Tables in one statement."""
_OF_THE_SNAPSHOT = 11


class SqlServerSnapshotDesk:
    """What only looks creates nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def start(self, table: TableName, *, where: str | None, topic: str | None) -> str:
        snapshot = new_id()
        with _while(f"asking for a snapshot of {table.key}"):
            SqlServerSnapshots(self._connection).ensure()
            self._asked(queries.ask(snapshot, table.key, where, topic))
        return snapshot

    def snapshots(self, tables: Sequence[TableName] | None, most: int) -> Sequence[SeenSnapshot]:
        if self._missing():
            return ()
        if tables is None:
            return self._seen([queries.seen(None, most)])
        keys = [table.key for table in tables]
        parts = [queries.seen(keys[first : first + _AT_ONCE], most) for first in range(0, len(keys), _AT_ONCE)]
        found = sorted(self._seen(parts), key=lambda each: each.asked, reverse=True)
        return sorted(found, key=lambda each: each.snapshot.state not in OPEN)[:most]

    def change(self, snapshot: str, state: SnapshotState) -> SeenSnapshot | None:
        if self._missing():
            return None
        possible = [each.value for each in POSSIBLE[state]]
        with _while(f"changing snapshot {snapshot}"), needing(USE_SNAPSHOTS):
            self._connection.execute(*queries.change(snapshot, state.value, possible))
        return self.find(snapshot)

    def find(self, snapshot: str) -> SeenSnapshot | None:
        found = () if self._missing() else self._seen([queries.one(snapshot)])
        return found[0] if found else None

    def sizes(self, tables: Sequence[TableName]) -> Mapping[TableName, int]:
        found: dict[TableName, int] = {}
        for first in range(0, len(tables), _AT_ONCE):
            some = tables[first : first + _AT_ONCE]
            for number, rows in self._asked(queries.sizes([table.quoted for table in some])):
                if rows is not None:
                    found[some[number]] = int(rows)
        return found

    def _missing(self) -> bool:
        """Whether there is no such table. Raises PermanentError if that cannot be known: the table may be hidden."""
        if not self._connection.rows(queries.TABLE_MISSING)[0][0]:
            return False
        if self._connection.rows(queries_of_operating.SEES_ALL_TABLES)[0][0]:
            return True
        raise PermanentError("dbo.cdc_snapshots does not exist yet, or this login may not see it", hint=USE_SNAPSHOTS)

    def _seen(self, statements: Sequence[Statement]) -> list[SeenSnapshot]:
        return [_seen(row) for statement in statements for row in self._asked(statement)]

    def _asked(self, statement: Statement) -> list[tuple[Any, ...]]:
        with needing(USE_SNAPSHOTS):
            found = self._connection.result_sets(*statement)
        return found[0] if found else []

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _while(doing: str) -> Iterator[None]:
    """Says of an error what was being done; its kind stays."""
    try:
        yield
    except DStreamError as error:
        raise type(error)(f"{doing}: {error.message}", hint=error.hint) from error.__cause__


def _seen(row: Sequence[Any]) -> SeenSnapshot:
    asked, login, host, begun, updated, owner, error = row[_OF_THE_SNAPSHOT:]
    snapshot: Snapshot = read(row[:_OF_THE_SNAPSHOT])
    return SeenSnapshot(
        snapshot,
        asked=f"{asked}Z",
        asked_by=login if host is None else f"{login} on {host}",
        begun=None if begun is None else f"{begun}Z",
        updated=None if updated is None else f"{updated}Z",
        owner=owner if snapshot.state is SnapshotState.RUNNING else None,
        error=error,
    )
