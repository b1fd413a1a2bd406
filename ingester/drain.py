"""One table, one slice of its window: page -> encode -> send -> commit, until the window's end or the slice's bounds.

Never runs ahead of a stored offset, never sends after `not_after`. Failures come back as values: a bad table must not fail its
neighbours, and a slice that is run again begins at the stored offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from common.bus import Sender
from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from common.names import TableName
from ingester.encode import Encoder
from ingester.locks import Clock, steady
from ingester.lsn import Position
from ingester.offsets import Offsets
from ingester.source import CaptureInstance, Page, Source
from ingester.window import gap


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task may do with one table.

    `table` is its configured name, the offset's key. `start` is where to begin when the table has no offset yet.

    Nothing may be sent after `not_after` (Unix time), nor `lease_seconds` after the slice was begun, whatever becomes of the driver:
    the one clock is common to all machines, the other cannot be set. None if the lease cannot run out.
    `seconds`: how long new pages are begun. `skip_gaps`: `on_gap = "skip"`.
    """

    table: TableName
    instance: CaptureInstance
    start: Position
    upto: Position
    epoch: int
    rows: int
    seconds: float
    not_after: float | None = None
    lease_seconds: float | None = None
    skip_gaps: bool = False


class Trouble(Enum):
    """What the driver does about a failed slice. LEASE_LOST: a newer owner was met. EXPIRED: the lease may have run out meanwhile."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    LEASE_LOST = "lease lost"
    EXPIRED = "expired"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class SliceResult:
    """How far a slice came. `position` is the stored offset as far as known; `more`: the window was not finished."""

    table: TableName
    position: Position | None
    changes: int = 0
    pages: int = 0
    more: bool = False
    trouble: Trouble | None = None
    message: str = ""
    hint: str | None = None


class _Expired(DStreamError):
    """Nothing more may be sent: the lease may have run out."""


@dataclass(slots=True)
class _Progress:
    """`begun`: time of the steady clock."""

    begun: float
    position: Position | None = None
    changes: int = 0
    pages: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """The parts a slice is drained with. `now` is Unix time, `clock` the steady clock."""

    source: Source
    offsets: Offsets
    sender: Sender
    encoder: Encoder
    now: Clock
    clock: Clock = steady

    def run(self, todo: Slice) -> SliceResult:
        """Drain `todo`. Never raises for what DStream knows; see `failed` for the rest."""
        progress = _Progress(self.clock())
        try:
            more = self._drain(todo, progress)
        except DStreamError as error:
            return failed(todo, error, progress.position, progress.changes, progress.pages)
        return SliceResult(todo.table, progress.position, progress.changes, progress.pages, more)

    def _drain(self, todo: Slice, progress: _Progress) -> bool:
        table, deadline = todo.table, self.now() + todo.seconds
        progress.position = seen = self.offsets.load(table, todo.epoch)
        after = todo.start if seen is None else seen
        while after < todo.upto:
            self._refuse_expired(todo, progress)
            page = self.source.page(todo.instance, after=after, upto=todo.upto, rows=todo.rows)
            self._refuse_gap(todo, after, page)
            if page.end is None:
                return False
            messages = [self.encoder.message(change) for change in page.changes]
            self._refuse_expired(todo, progress)
            self.sender.send(messages)
            self.offsets.commit(table, todo.epoch, seen=seen, position=page.end)
            progress.position = seen = after = page.end
            progress.changes += len(messages)
            progress.pages += 1
            if not page.full:
                return False
            if self.now() >= deadline or self._expired(todo, progress):
                return True
        return False

    def _expired(self, todo: Slice, progress: _Progress) -> bool:
        """Whether either clock says so; a commit needs no such look, since the epoch guards it."""
        by_date = todo.not_after is not None and self.now() >= todo.not_after
        return by_date or (todo.lease_seconds is not None and self.clock() - progress.begun >= todo.lease_seconds)

    def _refuse_expired(self, todo: Slice, progress: _Progress) -> None:
        if self._expired(todo, progress):
            raise _Expired(
                f"sending changes of {todo.table.key}: the lease may have run out before a page was ready",
                hint="if this repeats, the machine is overloaded or ingester.page_rows too large",
            )

    def _refuse_gap(self, todo: Slice, after: Position, page: Page) -> None:
        found = gap(after, page.low_watermark)
        if found is not None and not todo.skip_gaps:
            raise gap_error(todo.instance, found.offset, found.low_watermark.hex)


def gap_error(instance: CaptureInstance, offset: Position, low_watermark: str) -> PermanentError:
    """Changes were removed before they were read: which, and what can be done."""
    return PermanentError(
        f"reading {instance.table.key}: changes were lost: the offset is at LSN 0x{offset.lsn.hex}, "
        f"but {instance.name} begins at its low watermark 0x{low_watermark}",
        hint='CDC cleanup passed the offset; set on_gap = "skip" to go on from the watermark, and lengthen the retention',
    )


def failed(
    todo: Slice, error: Exception, position: Position | None = None, changes: int = 0, pages: int = 0
) -> SliceResult:
    """A slice's failure as a value."""
    hint = error.hint if isinstance(error, DStreamError) else None
    text = error.message if isinstance(error, DStreamError) else f"{type(error).__name__}: {error}"
    return SliceResult(todo.table, position, changes, pages, True, _trouble(error), text, hint)


def _trouble(error: Exception) -> Trouble:
    if isinstance(error, LeaseLost):
        return Trouble.LEASE_LOST
    if isinstance(error, _Expired):
        return Trouble.EXPIRED
    if isinstance(error, TransientError):
        return Trouble.TRANSIENT
    if isinstance(error, PermanentError):
        return Trouble.PERMANENT
    return Trouble.UNEXPECTED
