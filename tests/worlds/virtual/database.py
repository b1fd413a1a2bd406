"""A database in memory: tables, a log of committed transactions, and capture that follows the log with a lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from common.names import TableName
from ingester.change import Change, Operation
from ingester.source import CapturedColumn, CaptureInstance
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import ORDERS, PERSONS, lsn
from tests.worlds.virtual.simulation import Simulation

Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A row. `version`: grows with each change of any row. `group`: what conditions ask for. `place`: where it is in a table without a key."""

    key: Key
    version: int
    group: int
    place: int

    def data(self) -> dict[str, object]:
        return {"ID": self.key[0], "Sub": self.key[-1], "V": self.version, "G": self.group}


@dataclass(frozen=True, slots=True)
class Write:
    """What a transaction does to a row. `put`: insert or update; `move`: give it the key `to`."""

    what: Literal["put", "delete", "move"]
    key: Key
    group: int = 0
    to: Key = ()


@dataclass(slots=True)
class Transaction:
    """A committed one, and the changes of each table. `committed`, `captured`: when it was."""

    number: int
    committed: float
    changes: dict[TableName, list[Change]]
    captured: float | None = None


def instance(table: TableName, *, keyed: bool) -> CaptureInstance:
    """A capture instance from LSN 1 on."""
    columns = tuple(
        CapturedColumn(name, "int", at, key_ordinal=at if keyed and at < 3 else None)
        for at, name in enumerate(("ID", "Sub", "V", "G"), 1)
    )
    return CaptureInstance(f"{table.schema}_{table.table}", table, LogPosition.before(lsn(1)), columns, "")


@dataclass
class Database:
    """`keyed`: the tables with a primary key. `captured`: transactions in the change tables. `low`: below these LSNs the tables'
    changes were cleaned up."""

    world: Simulation
    keyed: frozenset[TableName]
    tables: dict[TableName, dict[Key, Stored]] = field(default_factory=lambda: {PERSONS: {}, ORDERS: {}})
    captured: list[Transaction] = field(default_factory=list)
    log: list[Transaction] = field(default_factory=list)
    low: dict[TableName, int] = field(default_factory=lambda: {PERSONS: 1, ORDERS: 1})
    _capture_at: float = 0.0
    _versions: int = 0

    def instance(self, table: TableName) -> CaptureInstance:
        return instance(table, keyed=table in self.keyed)

    def load(self, table: TableName, keys: Sequence[Key]) -> None:
        """Rows from before capture was enabled."""
        for key in keys:
            self._store(table, key, self.world.random.randrange(6))

    def commit(self, writes: Sequence[tuple[TableName, Write]], lag: float) -> None:
        """All of `writes` at once; they are in the change tables after `lag` seconds, or when all before them are."""
        number = len(self.log) + 2
        done = Transaction(number, self.world.now, {})
        for table, write in writes:
            changes = done.changes.setdefault(table, [])
            for operation, row in self._apply(table, write):
                changes.append(self._change(table, number, len(changes) + 1, operation, row))
        self.log.append(done)
        self._capture_at = max(self._capture_at, self.world.now + lag)
        self.world.at(self._capture_at, self._capture)

    def _capture(self) -> None:
        following = self.log[len(self.captured)]
        following.captured = self.world.now
        self.captured.append(following)

    def clean_up(self, table: TableName) -> None:
        """Delete all that was captured so far."""
        self.low[table] = len(self.captured) + 2

    def low_watermark(self, table: TableName) -> LogPosition:
        return LogPosition.before(lsn(self.low[table]))

    @property
    def captured_all(self) -> bool:
        return len(self.captured) == len(self.log)

    def has_captured(self, seconds: float) -> bool:
        """Whether all that was committed up to then is captured."""
        return self.captured_all or self.log[len(self.captured)].committed > seconds

    def changes(self, table: TableName, transactions: Sequence[Transaction] | None = None) -> list[Change]:
        """All that are captured, in order."""
        of = self.captured if transactions is None else transactions
        return [change for transaction in of for change in transaction.changes.get(table, ())]

    def _apply(self, table: TableName, write: Write) -> list[tuple[Operation, Stored]]:
        rows = self.tables[table]
        old = rows.get(write.key)
        if write.what == "put":
            row = self._store(table, write.key, write.group)
            return [(Operation.INSERT if old is None else Operation.UPDATE, row)]
        if old is None:
            return []
        if write.what == "move" and write.to in rows:
            return []
        del rows[write.key]
        self._versions += 1
        gone = Stored(old.key, self._versions, old.group, old.place)
        if write.what == "delete":
            return [(Operation.DELETE, gone)]
        return [(Operation.DELETE, gone), (Operation.INSERT, self._store(table, write.to, write.group))]

    def _store(self, table: TableName, key: Key, group: int) -> Stored:
        self._versions += 1
        old = self.tables[table].get(key)
        row = Stored(key, self._versions, group, self._versions if old is None else old.place)
        self.tables[table][key] = row
        return row

    def _change(self, table: TableName, number: int, seq: int, operation: Operation, row: Stored) -> Change:
        at = LogPosition(lsn(number), seq, seq.to_bytes(10, "big"), int(operation))
        known = self.instance(table)
        key: tuple[object, ...] = row.key if table in self.keyed else ()
        return Change(table, known.name, at, operation, row.data(), commit_time="2026-01-01T00:00:00Z", key=key)
