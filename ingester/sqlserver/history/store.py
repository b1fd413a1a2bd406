"""The snapshots of SQL Server's tables, in table dbo.cdc_snapshots: they fail over with the offsets, and with the tables themselves.

No statement waits longer than a second for somebody who holds the table.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import DStreamError, LeaseLost, PermanentError
from common.names import TableName
from ingester.history.rows import RowKey
from ingester.history.snapshot import ChunkId, Reason, Snapshot, SnapshotState
from ingester.history.store import Progress, StoredSnapshots
from ingester.locks import this_owner
from ingester.sqlserver.connection import Connection, is_error, lacks_rights, needing
from ingester.sqlserver.hints import MAKE_SNAPSHOTS, USE_SNAPSHOTS
from ingester.sqlserver.sql import snapshots as queries
from ingester.sqlserver.sql.changes import Statement

_TABLE_THERE, _NO_TABLE = 2714, 208
_LONGEST_ERROR = 2000
NOTHING = StoredSnapshots()


class SqlServerSnapshots:
    """The store for the owner of a table, and for its tasks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._read = False
        """Whether this login could read the table before."""
        self._rounds: dict[str, int] = {}
        """The round that was begun here last, of each snapshot."""

    def ensure(self) -> None:
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            with needing(MAKE_SNAPSHOTS):
                self._create()
        if not self._connection.rows(queries.MAY_USE)[0][0]:
            raise PermanentError(
                "using dbo.cdc_snapshots: this login may not read it or write to it", hint=USE_SNAPSHOTS
            )

    def _create(self) -> None:
        try:
            self._connection.execute(queries.CREATE)
        except DStreamError as error:
            if not is_error(error, _TABLE_THERE):
                raise

    def standings(self, tables: Sequence[TableName]) -> Mapping[TableName, StoredSnapshots]:
        """A login that never could read the table has raised no fence: its streams go on, and it takes no snapshots."""
        statements = [
            queries.standings([table.key for table in tables[first : first + queries.TABLES_A_STATEMENT]])
            for first in range(0, len(tables), queries.TABLES_A_STATEMENT)
        ]
        if not statements:
            return {}
        try:
            with needing(USE_SNAPSHOTS):
                found = self._connection.batch(statements)
        except PermanentError as error:
            if is_error(error, _NO_TABLE) or (not self._read and lacks_rights(error)):
                return dict.fromkeys(tables, NOTHING)
            raise
        self._read = True
        rows: dict[TableName, list[tuple[Any, ...]]] = {}
        for number, result in enumerate(found):
            for row in result:
                rows.setdefault(tables[number * queries.TABLES_A_STATEMENT + row[0]], []).append(row[1:])
        return {table: _standing(rows.get(table, [])) for table in tables}

    def add(self, table: TableName, epoch: int, reason: Reason) -> None:
        if self._change(queries.add(new_id(), table.key, epoch, reason.value)) == 0:
            self._refuse_older(table, epoch, f"asking for a snapshot of {table.key}")

    def begin(self, snapshot: str, table: TableName, epoch: int) -> Snapshot | None:
        self._rounds.pop(snapshot, None)  # without an answer nobody knows it
        with needing(USE_SNAPSHOTS):
            found = self._connection.result_sets(*queries.begin(snapshot, table.key, epoch, this_owner()))
        if not found or not found[-1]:
            self._refuse_older(table, epoch, f"beginning a round of snapshot {snapshot} of {table.key}")
            return None
        begun = read(found[-1][0])
        self._rounds[snapshot] = begun.round
        return begun

    def hold(self, chunk: ChunkId, table: TableName, epoch: int, *, round: int, seconds: float) -> None:
        snapshot, number = chunk
        if self._change(queries.hold(snapshot, table.key, epoch, round, round_up(seconds))) != 1:
            raise LeaseLost(
                f"reading chunk {number} of snapshot {snapshot} of {table.key}: its round is over, the snapshot no longer runs, or a newer "
                "owner has claimed the table"
            )

    def record(
        self, snapshot: str, table: TableName, epoch: int, seen: RowKey | None, progress: Progress
    ) -> SnapshotState:
        """A record whose answer was lost is repeated with the same values: its round is over then, and it changes nothing."""
        round, key = self._round(snapshot), table.key
        kept = (written(progress.done), progress.chunks, progress.rows)
        error = None if progress.error is None else progress.error[:_LONGEST_ERROR]
        ended = (progress.state.value, error)
        changed = self._change(
            queries.record(snapshot, key, epoch, round, written(seen), kept, ended, lowers=progress.lowers)
        )
        state = self._connection.rows(*queries.recorded(snapshot, key, epoch, round, kept))
        if state:
            return SnapshotState(state[0][0])
        raise LeaseLost(
            f"recording a round of snapshot {snapshot} of {key}: "
            + ("it has gone on since" if changed else "a newer owner has claimed the table or moved the snapshot on")
        )

    def _round(self, snapshot: str) -> int:
        """The round that is to be ended: of an owner that began it elsewhere, the stored one."""
        if (begun := self._rounds.get(snapshot)) is not None:
            return begun
        found = self._connection.rows(*queries.rounds(snapshot))
        return int(found[0][0]) if found else 0

    def _change(self, statement: Statement) -> int:
        with needing(USE_SNAPSHOTS):
            return self._connection.execute(*statement)

    def _refuse_older(self, table: TableName, epoch: int, doing: str) -> None:
        if not self._connection.rows(*queries.owned(table.key, epoch))[0][0]:
            raise LeaseLost(f"{doing}: a newer owner has claimed the table")

    def close(self) -> None:
        self._connection.close()


def new_id() -> str:
    return secrets.token_hex(6)


def round_up(seconds: float) -> int:
    """In milliseconds."""
    return -int(-seconds * 1000 // 1)


def written(key: RowKey | None) -> str | None:
    return None if key is None else json.dumps(key)


def read(row: Sequence[Any]) -> Snapshot:
    """A snapshot from its columns, in the order of the queries."""
    id, table, reason, state, where, topic, done, chunks, rows, attempt, round = row
    return Snapshot(
        id=id,
        table=table,
        reason=Reason(reason),
        state=SnapshotState(state),
        where=where,
        topic=topic,
        done=None if done is None else tuple(json.loads(done)),
        chunks=chunks,
        rows=rows,
        attempt=attempt,
        round=round,
    )


def _standing(rows: Sequence[Sequence[Any]]) -> StoredSnapshots:
    """`rows`: milliseconds of the fence, and the snapshot, in the order in which they were asked for."""
    fenced = max((row[0] for row in rows), default=0)
    found = [read(row[1:]) for row in rows]
    running = [each for each in found if each.state is SnapshotState.RUNNING]
    waiting = [each for each in found if each.state is SnapshotState.WAITING]
    return StoredSnapshots(next(iter(running + waiting), None), fenced / 1000)
