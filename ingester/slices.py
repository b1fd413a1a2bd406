"""A slice: what one task may do with one table, and its result. Values between driver and workers; no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from common.bus.ports import SendInterrupted
from common.clock import UnixTime
from common.errors import (
    ConnectionLost,
    DStreamError,
    EntityUnavailable,
    LeaseLost,
    PermanentError,
    TransientError,
    unforeseen,
)
from common.names import TableName
from ingester.history.snapshot import Chunk, ChunkDone, ChunkId
from ingester.oversize import Oversized
from ingester.position import Position
from ingester.shape.columns import ShapeRefused
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance, Part
from ingester.transform import FilterStops, SetAside

Piece = Part | ChunkId

_NOT_YET = UnixTime(0.0)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task may do with one table.

    `table` is its configured name, the offset's key. `start` is where to begin if the table has no offset yet.

    Nothing may be sent after `send_before` (Unix time), nor `lease_seconds` after the slice began, whatever happens to
    the driver: all machines share the one clock, and nobody can set the other. None if the lease cannot run out.
    `sent_at`: when the driver handed the slice over (Unix time). `seconds`: how long the task may begin new pages.
    `skip_gaps`: `on_gap = "skip"`. `rows`: most rows of a page; `row_bytes`: recent encoded size of a row, None if
    unknown.
    `part`: read only this part, from `start`, where the offset must be, to `upto`, however long it takes.
    `chunk`: read this chunk of a snapshot instead, while the stream stands at `start`. `gap`: send the event about changes that were lost
    between `start` and `upto`, and go on at `upto`. `announces_gaps`: the driver sends such an event when a gap turns up.
    `shape`: what of the table is sent.
    """

    table: TableName
    instance: CaptureInstance
    start: Position
    upto: Position
    epoch: int
    rows: int
    seconds: float
    sent_at: UnixTime = _NOT_YET
    send_before: UnixTime | None = None
    lease_seconds: float | None = None
    skip_gaps: bool = False
    row_bytes: float | None = None
    part: Part | None = None
    chunk: Chunk | None = None
    gap: bool = False
    announces_gaps: bool = False
    shape: TableShape = AS_CAPTURED

    @property
    def piece(self) -> Piece | None:
        """Which of several slices of its table this is; None for the only one."""
        return self.part if self.chunk is None else self.chunk.id


class Trouble(Enum):
    """What the driver has to do about a failed slice.

    LEASE_LOST: there is a newer owner. EXPIRED: the lease may have run out meanwhile.
    SHAPE: the table's shape does not fit, or its filter fails, and another one may be configured while the ingester runs.
    QUEUE: the queue refuses messages, or this credential; every table meets that. OVERDUE: no result came in time.
    WORKER_LOST: its worker died, perhaps with other slices. KILLS_WORKER: several workers died that read only this
    table.
    """

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    SHAPE = "shape"
    QUEUE = "queue"
    LEASE_LOST = "lease lost"
    EXPIRED = "expired"
    OVERDUE = "overdue"
    WORKER_LOST = "worker lost"
    KILLS_WORKER = "kills worker"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class WorkerClock:
    """What the worker's wall clock showed when it began and ended a slice, and the driver's when it sent the slice.

    `host`: the worker's machine.
    """

    host: str
    sent_at: UnixTime
    begun_at: UnixTime
    ended_at: UnixTime


@dataclass(frozen=True, slots=True)
class SliceResult:
    """How far a slice came. `position` is the stored offset as far as known; `more`: the window is not finished.

    `row_bytes`: for the table's next slice; `page_rows`: how many rows its next page would have, None without a page.
    `refusals`: how many sends a throttling namespace refused; `throttled`: what it answered.
    `changes`: how many were sent; `dropped`: how many a transform left out.
    `set_aside`: changes that fitted no message and were sent as stand-ins, up to `position`. `filter_failed`: those on which the filter
    failed and which were sent to be dead-lettered.
    A `part` moves no offset: its `position` is where it began, and the other values are what it sent.
    `unsent`: seconds that the queue had accepted nothing when a send failed; None if the trouble is another one.
    `lost`: the trouble is a lost connection to SQL Server.
    `clock`: the worker's; None if the slice reached no worker.
    `chunk`: of a slice that had one; `done`: how far that came, None if not known. `position` is then None.
    `unreached`: why the worker could not report results before their bundle ended, reported once.
    """

    table: TableName
    position: Position | None
    changes: int = 0
    pages: int = 0
    more: bool = False
    trouble: Trouble | None = None
    message: str = ""
    hint: str | None = None
    row_bytes: float | None = None
    page_rows: int | None = None
    set_aside: tuple[Oversized, ...] = ()
    part: Part | None = None
    refusals: int = 0
    throttled: str = ""
    unsent: float | None = None
    lost: bool = False
    clock: WorkerClock | None = None
    unreached: str | None = None
    dropped: int = 0
    filter_failed: SetAside | None = None
    chunk: ChunkId | None = None
    done: ChunkDone | None = None

    @property
    def piece(self) -> Piece | None:
        """See Slice."""
        return self.part if self.chunk is None else self.chunk


class Expired(DStreamError):
    """Nothing more may be sent, because the lease may have run out."""


class WorkerLost(TransientError):
    """The worker of a bundle died: by itself, or because of one of the bundle's tables."""


class Overdue(DStreamError):
    """A slice was given up because no result came in time. It may still be running."""


def untouched(todo: Slice) -> SliceResult:
    """The result of a slice that did not begin: the driver stops, or it waited too long. A part or a chunk must not count as read."""
    if todo.piece is not None:
        return failed(todo, Expired(f"reading {todo.table.key}: the ingester stops"))
    return SliceResult(todo.table, None, more=True)


def unsettled(result: SliceResult) -> SliceResult:
    """`result` of a chunk that may have been begun elsewhere too, as far as this worker knows: its driver cannot be reached."""
    return result if result.done is None else replace(result, done=replace(result.done, settled=False))


def failed(todo: Slice, error: Exception) -> SliceResult:
    """The result of a slice that failed, and of which nothing else is known."""
    chunk = None if todo.chunk is None else todo.chunk.id
    return in_trouble(SliceResult(todo.table, None, more=True, part=todo.part, chunk=chunk), error)


def in_trouble(result: SliceResult, error: Exception) -> SliceResult:
    """`result` of a slice that `error` ended, with what the driver needs of the error."""
    hint = error.hint if isinstance(error, DStreamError) else None
    text = error.message if isinstance(error, DStreamError) else unforeseen(error)
    lost = isinstance(error, ConnectionLost)
    return replace(result, trouble=_trouble(error), message=text, hint=hint, lost=lost)


def _trouble(error: Exception) -> Trouble:
    if isinstance(error, LeaseLost):
        return Trouble.LEASE_LOST
    if isinstance(error, Expired):
        return Trouble.EXPIRED
    if isinstance(error, EntityUnavailable) or (isinstance(error, SendInterrupted) and error.disabled):
        return Trouble.QUEUE
    if isinstance(error, Overdue):
        return Trouble.OVERDUE
    if isinstance(error, WorkerLost):
        return Trouble.WORKER_LOST
    if isinstance(error, TransientError):
        return Trouble.TRANSIENT
    if isinstance(error, (ShapeRefused, FilterStops)):
        return Trouble.SHAPE
    if isinstance(error, PermanentError):
        return Trouble.PERMANENT
    return Trouble.UNEXPECTED
