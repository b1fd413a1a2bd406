"""Stand-ins for the store of snapshots and for the tasks that read chunks, for loop logic alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from common.errors import LeaseLost
from common.names import TableName
from ingester.history.rows import RowKey, RowsQuery
from ingester.history.snapshot import ChunkDone, ChunkId, Reason, Snapshot, SnapshotState
from ingester.history.store import Progress, StoredSnapshots
from ingester.slices import Expired, Slice, SliceResult, failed
from tests.fakes.rows import FakeRows

_OPEN = (SnapshotState.RUNNING, SnapshotState.WAITING)


@dataclass
class FakeSnapshots:
    """The promises of `ingester/history/store.py` in a dictionary. `clock`: the store's. `fail`: raised by the next call, once."""

    clock: Callable[[], float]
    stored: dict[str, Snapshot] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    fences: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str | None] = field(default_factory=dict)
    fail: Exception | None = None
    refused: Exception | None = None
    """Raised by each call but `hold`."""
    records: list[Progress] = field(default_factory=list)

    def ask(self, table: TableName, *, where: str | None = None, topic: str | None = None) -> str:
        """What a person does."""
        return self._new(table, Reason.ASKED, where, topic)

    def ensure(self) -> None:
        self._raise()

    def standings(self, tables: Sequence[TableName]) -> Mapping[TableName, StoredSnapshots]:
        self._raise()
        return {table: self._standing(table.key) for table in tables}

    def _standing(self, key: str) -> StoredSnapshots:
        ours = [snapshot for snapshot in self.stored.values() if snapshot.table == key]
        open_ones = sorted((one for one in ours if one.state in _OPEN), key=lambda one: _OPEN.index(one.state))
        fence = max((self.fences.get(one.id, 0.0) - self.clock() for one in ours), default=0.0)
        return StoredSnapshots(open_ones[0] if open_ones else None, max(0.0, fence))

    def add(self, table: TableName, epoch: int, reason: Reason) -> None:
        self._raise()
        self._ours(table, epoch)
        for one in self.stored.values():
            fresh = one.state in (SnapshotState.WAITING, SnapshotState.PAUSED) and not one.attempt
            if one.table == table.key and one.reason is reason and fresh:
                return
        self._new(table, reason)

    def _new(self, table: TableName, reason: Reason, where: str | None = None, topic: str | None = None) -> str:
        name = f"s{len(self.stored) + 1}"
        self.stored[name] = Snapshot(name, table.key, reason, SnapshotState.WAITING, where, topic)
        return name

    def begin(self, snapshot: str, table: TableName, epoch: int) -> Snapshot | None:
        self._raise()
        self._ours(table, epoch)
        found = self.stored.get(snapshot)
        if found is None or found.table != table.key or found.state not in _OPEN:
            return None
        if any(
            it.state is SnapshotState.RUNNING for it in self.stored.values() if it.table == table.key and it != found
        ):
            return None
        attempt = found.attempt + (found.done is None)
        found = replace(found, state=SnapshotState.RUNNING, attempt=attempt, round=found.round + 1)
        self.stored[snapshot], self.epochs[snapshot] = found, epoch
        return found

    def record(
        self, snapshot: str, table: TableName, epoch: int, seen: RowKey | None, progress: Progress
    ) -> SnapshotState:
        self._raise()
        self._ours(table, epoch)
        found = self.stored[snapshot]
        if found.done != seen or self.epochs[snapshot] != epoch:
            raise LeaseLost("a newer owner")
        set_by_a_person = found.state is not SnapshotState.RUNNING
        stopped = found.state is SnapshotState.STOPPED and progress.state is SnapshotState.FAILED
        state = (
            found.state if stopped or (set_by_a_person and progress.state is SnapshotState.RUNNING) else progress.state
        )
        self.stored[snapshot] = replace(
            found, done=progress.done, chunks=progress.chunks, rows=progress.rows, state=state, round=found.round + 1
        )
        self.errors[snapshot] = progress.error
        self.records.append(progress)
        if progress.lowers:
            self.fences.pop(snapshot, None)
        return state

    def hold(self, chunk: ChunkId, table: TableName, epoch: int, *, round: int, seconds: float) -> None:
        self._ours(table, epoch)
        found = self.stored[chunk[0]]
        if found.state is not SnapshotState.RUNNING or found.round != round or self.epochs[chunk[0]] != epoch:
            raise LeaseLost("the snapshot no longer runs, or its round is over")
        self.fences[chunk[0]] = max(self.fences.get(chunk[0], 0.0), self.clock() + seconds)

    def claim(self, table: TableName, epoch: int) -> None:
        """A newer owner has claimed the table."""
        self.epochs[table.key] = epoch

    def _ours(self, table: TableName, epoch: int) -> None:
        if self.epochs.get(table.key, 0) > epoch:
            raise LeaseLost("a newer owner")

    def _raise(self) -> None:
        if self.refused is not None:
            raise self.refused
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error

    def close(self) -> None:
        pass


@dataclass
class FakeChunks:
    """Reads chunks in place of a task. `sent`: called with each row's table and key. `next`: called before the next chunks; what they return
    is the result in place of reading."""

    rows: FakeRows
    store: FakeSnapshots
    sent: Callable[[TableName, int], None]
    next: list[Callable[[Slice], SliceResult | None]] = field(default_factory=list)

    def run(self, todo: Slice) -> SliceResult:
        if self.next and (instead := self.next.pop(0)(todo)) is not None:
            return instead
        chunk = todo.chunk
        assert chunk is not None
        try:
            self.store.hold(chunk.id, todo.table, todo.epoch, round=chunk.round, seconds=25.0)
        except LeaseLost as error:
            return replace(failed(todo, error), done=ChunkDone(settled=True))
        if todo.lease_seconds is not None and todo.lease_seconds <= 0:
            return replace(failed(todo, Expired("its time is over")), done=ChunkDone(settled=True))
        page = self.rows.page(RowsQuery(chunk.table, chunk.rows, chunk.after, chunk.upto))
        for row in page.rows:
            self.sent(todo.table, int(row.at[0]))
        end = page.rows[-1].at if page.rows else None
        done = ChunkDone(end, len(page.rows), complete=True, ended=chunk.upto is None and not page.full, settled=True)
        return SliceResult(todo.table, None, chunk=chunk.id, done=done)
