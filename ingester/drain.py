"""One table, one slice of its window: page -> encode -> send -> commit, until the window's end or the slice's bounds.

A slice may be one share of a stride, which others read at the same time: it commits nothing, and goes on to the stride's end.

A namespace that throttles is waited for, with what it has not taken of the page; a slice that has its time behind it commits what was
taken and leaves the rest to the next.

Never runs ahead of a stored offset, never sends after `not_after`, never leaves out a change that fits no message. Failures come back
as values: a bad table must not fail its neighbours, and a slice that is run again begins at the stored offset.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from common.bus import MessageRefused, MessageTooLarge, Sender, SendInterrupted
from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from common.names import TableName
from common.throttling import QUIET, THROTTLED_BACKOFF
from ingester.encode import Encoder
from ingester.locks import Clock, steady
from ingester.lsn import Position
from ingester.offsets import Offsets
from ingester.oversize import Outgoing, Oversized, not_taken, oversized
from ingester.page_size import learnt, page_rows
from ingester.source import CaptureInstance, Page, Share, Source
from ingester.window import gap

_PATIENCE = 30.0
"""Seconds that a namespace may refuse everything until the slice gives up. Where many want its credits, ten without any are no rarity."""

_THROTTLED_ROWS = 500
"""Changes sent at once while a namespace throttles: a slice can then end behind them with nothing to be sent again, whatever sessions a page has."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task may do with one table.

    `table` is its configured name, the offset's key. `start` is where to begin when the table has no offset yet.

    Nothing may be sent after `not_after` (Unix time), nor `lease_seconds` after the slice was begun, whatever becomes of the driver:
    the one clock is common to all machines, the other cannot be set. None if the lease cannot run out.
    `seconds`: how long new pages are begun. `skip_gaps`: `on_gap = "skip"`.
    `rows`: most rows a page; `row_bytes`: what a row of the table was encoded to lately, None if that is not known.
    `share`: read only this, from `start`, where the offset must stand, to `upto`, whatever time it takes.
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
    row_bytes: float | None = None
    share: Share | None = None


class Trouble(Enum):
    """What the driver does about a failed slice. LEASE_LOST: a newer owner was met. EXPIRED: the lease may have run out meanwhile."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    LEASE_LOST = "lease lost"
    EXPIRED = "expired"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class SliceResult:
    """How far a slice came. `position` is the stored offset as far as known; `more`: the window was not finished.

    `row_bytes`: for the table's next slice; `page_rows`: how many rows its next page would have, None where there was no page.
    `refusals`: sends that a throttling namespace refused meanwhile, and `throttled` what it said.
    `set_aside`: changes that fitted no message and were sent as stand-ins, up to `position`.
    A `share` moves no offset: its `position` is where it began, the rest tells what was sent.
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
    share: Share | None = None
    refusals: int = 0
    throttled: str = ""


class _Expired(DStreamError):
    """Nothing more may be sent: the lease may have run out."""


@dataclass(slots=True)
class _Spell:
    """A namespace throttles. `since`: when it last took something (steady clock); `refusals`: since then."""

    since: float
    refusals: int = 0


@dataclass(slots=True)
class Throttled:
    """What one slice knows of the namespace for the next. `until`: as long as it counts as one that throttles (steady clock)."""

    until: float = -math.inf


@dataclass(slots=True)
class _Progress:
    """`begun`: time of the steady clock."""

    begun: float
    row_bytes: float | None = None
    page_rows: int | None = None
    position: Position | None = None
    changes: int = 0
    pages: int = 0
    set_aside: tuple[Oversized, ...] = ()
    refusals: int = 0
    throttled: str = ""

    def result(self, todo: Slice, *, more: bool) -> SliceResult:
        return SliceResult(
            todo.table,
            self.position,
            self.changes,
            self.pages,
            more,
            row_bytes=self.row_bytes,
            page_rows=self.page_rows,
            set_aside=self.set_aside,
            share=todo.share,
            refusals=self.refusals,
            throttled=self.throttled,
        )


@dataclass(frozen=True, slots=True)
class Drain:
    """The parts a slice is drained with. `now` is Unix time, `clock` the steady clock; `stand_ins`: `on_oversize = "dead_letter"`."""

    source: Source
    offsets: Offsets
    sender: Sender
    encoder: Encoder
    now: Clock
    clock: Clock = steady
    stand_ins: bool = False
    wait: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    throttled: Throttled = field(default_factory=Throttled)
    stopping: Callable[[], bool] = lambda: False
    """Asked before each page of a slice that is no share, and while it is throttled: whether a stop was asked for. A share is about a page."""

    def run(self, todo: Slice) -> SliceResult:
        """Drain `todo`. Never raises for what DStream knows; see `failed` for the rest."""
        progress = _Progress(self.clock(), todo.row_bytes)
        try:
            more = self._drain(todo, progress)
        except DStreamError as error:
            return _in_trouble(progress.result(todo, more=True), error)
        return progress.result(todo, more=more)

    def _drain(self, todo: Slice, progress: _Progress) -> bool:
        table, deadline = todo.table, self.now() + todo.seconds
        progress.position = seen = self.offsets.load(table, todo.epoch)
        after = todo.start if seen is None else seen
        if todo.share is not None and after != todo.start:
            raise TransientError(f"reading a share of {table.key}: the offset was moved, to {after}")
        while after < todo.upto:
            if todo.share is None and self.stopping():
                return True
            self._refuse_expired(todo, progress)
            rows = page_rows(todo.rows, progress.row_bytes, self.sender.batch_bytes())
            page = self.source.page(todo.instance, after=after, upto=todo.upto, rows=rows, share=todo.share)
            self._refuse_gap(todo, after, page)
            if page.end is None:
                return False
            out, refused = self._send(todo, page, progress, deadline)
            whole = out.end == len(page.changes)
            end = page.end if whole else page.changes[out.end - 1].position if out.end else None
            if end is not None:
                if todo.share is None:
                    self.offsets.commit(table, todo.epoch, seen=seen, position=end)
                    progress.position = seen = end
                after = end
                progress.changes += out.end
                progress.pages += 1
                progress.set_aside += out.set_aside
            if refused is not None:
                raise refused
            if not whole:
                return True
            if not page.full:
                return False
            if todo.share is None and (self.now() >= deadline or self._expired(todo, progress)):
                return True
        return False

    def _send(
        self, todo: Slice, page: Page, progress: _Progress, deadline: float
    ) -> tuple[Outgoing, PermanentError | None]:
        """Send a page; or what comes before the change that stops the table, and why it does; or what there was time for."""
        out = Outgoing([self.encoder.message(change) for change in page.changes])
        progress.row_bytes = learnt(progress.row_bytes, out.left)
        progress.page_rows = page_rows(todo.rows, progress.row_bytes, self.sender.batch_bytes())
        refused: PermanentError | None = None
        spell = _Spell(self.clock()) if self.clock() < self.throttled.until else None
        while left := out.left:
            if spell is not None and out.prefix and self._over(todo, progress, deadline if out.even else math.inf):
                out.stop_before(out.prefix)
                break
            self._refuse_expired(todo, progress)
            at_once = left if spell is None else left[:_THROTTLED_ROWS]
            try:
                self.sender.send(at_once)
                out.accept(at_once)
                spell = spell and _Spell(self.clock())
            except SendInterrupted as error:
                out.accept(error.accepted)
                if not error.throttled:
                    raise
                progress.refusals, progress.throttled = progress.refusals + 1, error.message
                if spell is None or error.accepted:
                    spell = _Spell(self.clock())
                spell.refusals += 1
                self.throttled.until = self.clock() + QUIET
                if self.clock() - spell.since < _PATIENCE and not self.stopping():
                    self.wait(THROTTLED_BACKOFF.delay(spell.refusals, self.chance))
                elif todo.share is None and out.prefix:
                    out.stop_before(out.prefix)
                else:
                    raise
            except MessageTooLarge as error:
                at = out.refused(error)
                found = oversized(page.changes[at], todo.instance.columns, error)
                if self.stand_ins and not out.is_stand_in(at):
                    out.stand_in(at, self.encoder.stand_in(page.changes[at], found), found)
                else:
                    refused = found.refusal()
                    out.stop_before(at)
            except MessageRefused as error:
                at = out.refused(error)
                refused = not_taken(page.changes[at], todo.instance.columns, error)
                out.stop_before(at)
        return out, refused

    def _over(self, todo: Slice, progress: _Progress, deadline: float) -> bool:
        """Whether a slice that is throttled ends within its page, at `deadline` or because it must; a share is to be sent whole."""
        return todo.share is None and (self.now() >= deadline or self.stopping() or self._expired(todo, progress))

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


def failed(todo: Slice, error: Exception) -> SliceResult:
    """A failure as a value, of a slice of which nothing is known."""
    return _in_trouble(SliceResult(todo.table, None, more=True, share=todo.share), error)


def _in_trouble(result: SliceResult, error: Exception) -> SliceResult:
    hint = error.hint if isinstance(error, DStreamError) else None
    text = error.message if isinstance(error, DStreamError) else f"{type(error).__name__}: {error}"
    return replace(result, trouble=_trouble(error), message=text, hint=hint)


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
