"""A slice: what one task may do with one table, and what came of it. Values that travel between driver and workers; nothing is done here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from common.bus import SendInterrupted
from common.clock import UnixTime
from common.errors import (
    ConnectionLost,
    DestinationUnavailable,
    DStreamError,
    LeaseLost,
    PermanentError,
    TransientError,
)
from common.names import TableName
from ingester.oversize import Oversized
from ingester.position import Position
from ingester.source import CaptureInstance, Part

_NOT_YET = UnixTime(0.0)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task may do with one table.

    `table` is its configured name, the offset's key. `start` is where to begin when the table has no offset yet.

    Nothing may be sent after `send_before` (Unix time), nor `lease_seconds` after the slice was begun, whatever becomes of the driver:
    the one clock is common to all machines, the other cannot be set. None if the lease cannot run out.
    `sent_at`: when the driver handed it over (Unix time). `seconds`: how long new pages are begun. `skip_gaps`: `on_gap = "skip"`.
    `rows`: most rows a page; `row_bytes`: what a row of the table was encoded to lately, None if that is not known.
    `part`: read only this, from `start`, where the offset must stand, to `upto`, whatever time it takes.
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


class Trouble(Enum):
    """What the driver does about a failed slice. LEASE_LOST: a newer owner was met. EXPIRED: the lease may have run out meanwhile.

    QUEUE: the queue, or the right to use it, is refused: that is no table's own trouble, and every table meets it.
    OVERDUE: nothing was heard of it in time. WORKER_LOST: the worker died that it ran on, maybe with others. KILLS_WORKER: so did each that
    read this table alone.
    """

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    QUEUE = "queue"
    LEASE_LOST = "lease lost"
    EXPIRED = "expired"
    OVERDUE = "overdue"
    WORKER_LOST = "worker lost"
    KILLS_WORKER = "kills worker"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class WorkerClock:
    """What a worker's wall clock showed as it took a slice up and as it handed its result back, and the driver's as it sent the slice.

    All Unix time. `host`: the worker's machine.
    """

    host: str
    sent_at: UnixTime
    begun_at: UnixTime
    ended_at: UnixTime


@dataclass(frozen=True, slots=True)
class SliceResult:
    """How far a slice came. `position` is the stored offset as far as known; `more`: the window was not finished.

    `row_bytes`: for the table's next slice; `page_rows`: how many rows its next page would have, None where there was no page.
    `refusals`: sends that a throttling namespace refused meanwhile, and `throttled` what it said.
    `changes`: those that were sent; `dropped`: those that a transform left out.
    `set_aside`: changes that fitted no message and were sent as stand-ins, up to `position`.
    A `part` moves no offset: its `position` is where it began, the rest tells what was sent.
    `unsent`: for how many seconds the queue had taken nothing when it failed to; None where the trouble is another's.
    `lost`: the trouble is that the connection to SQL Server was lost.
    `clock`: the worker's; None where the slice reached none.
    `unreached`: why the worker could lately not tell the driver of results before their bucket was over, said once.
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


class Expired(DStreamError):
    """Nothing more may be sent: the lease may have run out."""


class WorkerLost(TransientError):
    """The worker died that a bucket ran on: of its own accord, or one of the bucket's tables kills it."""


class Overdue(DStreamError):
    """A slice was given up because nothing was heard of it; it may still be running."""


def failed(todo: Slice, error: Exception) -> SliceResult:
    """A failure as a value, of a slice of which nothing is known."""
    return in_trouble(SliceResult(todo.table, None, more=True, part=todo.part), error)


def in_trouble(result: SliceResult, error: Exception) -> SliceResult:
    """`result` of a slice that `error` ended."""
    hint = error.hint if isinstance(error, DStreamError) else None
    text = error.message if isinstance(error, DStreamError) else f"{type(error).__name__}: {error}"
    lost = isinstance(error, ConnectionLost)
    return replace(result, trouble=_trouble(error), message=text, hint=hint, lost=lost)


def _trouble(error: Exception) -> Trouble:
    if isinstance(error, LeaseLost):
        return Trouble.LEASE_LOST
    if isinstance(error, Expired):
        return Trouble.EXPIRED
    if isinstance(error, DestinationUnavailable) or (isinstance(error, SendInterrupted) and error.disabled):
        return Trouble.QUEUE
    if isinstance(error, Overdue):
        return Trouble.OVERDUE
    if isinstance(error, WorkerLost):
        return Trouble.WORKER_LOST
    if isinstance(error, TransientError):
        return Trouble.TRANSIENT
    if isinstance(error, PermanentError):
        return Trouble.PERMANENT
    return Trouble.UNEXPECTED
