"""How a page is sent: around a change that fits no message, up to one that is refused, and at the pace of a namespace that throttles.

It is waited for with what it has not taken of the page; a slice that has its time behind it ends at what was taken, and leaves the rest to
the next. Nothing is committed here, and no batch sent when the slice's lease may have run out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from common.bus import MessageRefused, MessageTooLarge, OutOfTime, Sender, SendInterrupted
from common.clock import SteadyClock
from common.errors import PermanentError, Throttled, TransientError
from common.throttling import QUIET, THROTTLED_BACKOFF
from ingester.change import Change
from ingester.oversize import Outgoing, Oversized, not_taken, oversized
from ingester.position import Position
from ingester.slices import Slice, SliceResult
from ingester.task.encode import Encoder
from ingester.task.limits import Bounds
from ingester.task.page_size import learnt, page_rows

_PATIENCE = 30.0
"""Seconds that a namespace may refuse everything until the slice gives up. Where many want its credits, ten without any are no rarity."""

_THROTTLED_ROWS = 500
"""Changes sent at once while a namespace throttles: a slice can then end behind them with nothing to be sent again, whatever sessions a page has."""


@dataclass(slots=True)
class ThrottleState:
    """What one slice knows of the namespace for the next. `until`: as long as it counts as one that throttles (steady clock)."""

    until: float = -math.inf


@dataclass(slots=True)
class SliceProgress:
    """How far a slice has come, as it goes; see SliceResult."""

    row_bytes: float | None = None
    page_rows: int | None = None
    position: Position | None = None
    changes: int = 0
    dropped: int = 0
    pages: int = 0
    set_aside: tuple[Oversized, ...] = ()
    refusals: int = 0
    throttled: str = ""
    unsent: float | None = None

    @contextmanager
    def asking_the_queue(self, clock: SteadyClock) -> Iterator[None]:
        """Note for how long it failed to take anything. One that throttles has answered."""
        began, self.unsent = clock(), None
        try:
            yield
        except TransientError as error:
            sent = isinstance(error, SendInterrupted) and error.accepted
            if not isinstance(error, Throttled) and not (isinstance(error, SendInterrupted) and error.throttled):
                self.unsent = 0.0 if sent else clock() - began
            raise

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
            part=todo.part,
            refusals=self.refusals,
            throttled=self.throttled,
            unsent=self.unsent,
            dropped=self.dropped,
        )


@dataclass(slots=True)
class _Spell:
    """A namespace throttles. `since`: when it last took something (steady clock); `refusals`: since then; `ended`: no more is waited for."""

    since: float
    refusals: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class PageSender:
    """Sends the pages of one slice; see Drain for the parts."""

    sender: Sender
    encoder: Encoder
    clock: SteadyClock
    bounds: Bounds
    stand_ins: bool
    wait: Callable[[float], None]
    chance: Callable[[], float]
    throttle: ThrottleState

    def send(
        self, todo: Slice, changes: Sequence[Change], progress: SliceProgress
    ) -> tuple[Outgoing, PermanentError | None]:
        """All of a page's changes; or what comes before the change that stops the table, and why it does; or what there was time for.

        Raises Expired, and TransientError or PermanentError as the sender does.
        """
        out = Outgoing([self.encoder.message(change) for change in changes])
        progress.row_bytes = learnt(progress.row_bytes, out.left)
        with progress.asking_the_queue(self.clock):
            progress.page_rows = page_rows(todo.rows, progress.row_bytes, self.sender.batch_bytes())
        refused: PermanentError | None = None
        spell = _Spell(self.clock()) if self.clock() < self.throttle.until else None
        while left := out.left:
            if spell is not None and out.prefix and self.bounds.ends_within_a_page(even=out.even):
                out.stop_before(out.prefix)
                break
            self.bounds.refuse_expired()
            at_once = left if spell is None else left[:_THROTTLED_ROWS]
            try:
                with progress.asking_the_queue(self.clock):
                    self.sender.send(at_once, left=self.bounds.left)
                out.accept(range(len(at_once)))
                spell = spell and _Spell(self.clock())
            except OutOfTime as error:
                out.accept(error.accepted)
                if todo.part is not None or not out.prefix:
                    raise self.bounds.too_late() from error
                out.stop_before(out.prefix)
            except SendInterrupted as error:
                out.accept(error.accepted)
                if not error.throttled:
                    raise
                if (spell := self._refused(spell, error, progress)).ended:
                    if todo.part is not None or not out.prefix:
                        raise
                    out.stop_before(out.prefix)
            except MessageTooLarge as error:
                refused = self._around(todo, changes, out, error)
            except MessageRefused as error:
                at = out.refused(error)
                refused = not_taken(changes[at], todo.instance.columns, error)
                out.stop_before(at)
        return out, refused

    def _around(
        self, todo: Slice, changes: Sequence[Change], out: Outgoing, error: MessageTooLarge
    ) -> PermanentError | None:
        """Put a stand-in in the place of a change that fits no message; or why the table stops before it."""
        at = out.refused(error)
        found = oversized(changes[at], todo.instance.columns, error)
        if self.stand_ins and not out.is_stand_in(at):
            out.stand_in(at, self.encoder.stand_in(changes[at], found), found)
            return None
        out.stop_before(at)
        return found.refusal()

    def _refused(self, spell: _Spell | None, error: SendInterrupted, progress: SliceProgress) -> _Spell:
        """The namespace has no credits: wait a while for some, unless it has been long or a stop was asked for."""
        progress.refusals, progress.throttled = progress.refusals + 1, error.message
        if spell is None or error.accepted:
            spell = _Spell(self.clock())
        spell.refusals += 1
        self.throttle.until = self.clock() + QUIET
        spell.ended = self.clock() - spell.since >= _PATIENCE or self.bounds.stopping()
        if not spell.ended:
            self.wait(THROTTLED_BACKOFF.delay(spell.refusals, self.chance))
        return spell
