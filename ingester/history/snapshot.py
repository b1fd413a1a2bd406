"""A snapshot as it is stored, and the chunks that tasks read of it. Values; no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ingester.history.rows import BaseTable, RowKey


class Reason(StrEnum):
    """Why a snapshot is taken."""

    INITIAL = "initial"
    GAP = "gap"
    ASKED = "asked"


class SnapshotState(StrEnum):
    """WAITING: behind another snapshot of its table, or for the table's owner. STOPPED: by a person. FAILED: `error` says why."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stored snapshot. `table`: the offset's key. `where`: its condition; `topic`: where it goes instead of the table's topic.

    `done`: all rows up to this key were sent and recorded; None: none yet. `chunks`, `rows`: how many were recorded.
    `attempt`: how often it was begun from the first row; a table without an order has no other beginning. `round`: counts the rounds.
    """

    id: str
    table: str
    reason: Reason
    state: SnapshotState
    where: str | None = None
    topic: str | None = None
    done: RowKey | None = None
    chunks: int = 0
    rows: int = 0
    attempt: int = 0
    round: int = 0


ChunkId = tuple[str, int]
"""The snapshot's id, and the chunk's number."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one task reads and sends of a snapshot: the rows with keys in (after, upto], at most `rows` of them where `upto` is None.

    `number` counts a snapshot's chunks from 1. `last`: nothing else of the snapshot is to be sent, so the last row of the table is the
    snapshot's last. `exact`: keys that changed since the slice's start are left to the stream. `attempt`, `round`: see Snapshot.
    `rate`: the most rows that it sends in a second; None: no limit.
    """

    snapshot: str
    table: BaseTable
    number: int
    rows: int
    after: RowKey | None = None
    upto: RowKey | None = None
    where: str | None = None
    topic: str | None = None
    last: bool = False
    exact: bool = False
    attempt: int = 0
    round: int = 0
    rate: int | None = None

    @property
    def id(self) -> ChunkId:
        return self.snapshot, self.number


@dataclass(frozen=True, slots=True)
class ChunkDone:
    """How far a chunk came. `upto`: all its rows up to this key were accepted by the queue; None: nothing was recorded to be.

    `rows`: how many of them. `complete`: the whole chunk. `ended`: there is no row behind it.
    `settled`: nothing more of the chunk can reach the queue: it ended, and each of its sends was answered.
    """

    upto: RowKey | None = None
    rows: int = 0
    complete: bool = False
    ended: bool = False
    settled: bool = False
