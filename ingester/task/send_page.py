"""How a page is sent: around a change that is too large, up to one that is refused, and at the pace of a namespace that throttles.

While the namespace throttles, the rest of the page waits. When the slice's time is up, it ends with what was accepted and leaves the rest to
the next slice. Nothing is committed here, and no batch is sent once the slice's lease may have ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from common.bus.ports import MessageRefused, MessageTooLarge, OutOfTime, Sender, SendInterrupted
from common.bus.throttling import QUIET, THROTTLED_BACKOFF
from common.clock import SteadyClock
from common.errors import EntityUnavailable, PermanentError, Throttled, TransientError
from ingester.change import Change
from ingester.oversize import Outgoing, Oversized, not_taken, oversized
from ingester.position import Position
from ingester.slices import Slice, SliceResult
from ingester.task.encode import Encoder
from ingester.task.limits import Bounds
from ingester.task.page_size import learnt, page_rows
from ingester.transform import SetAside, set_aside, together

_PATIENCE = 30.0
"""Seconds for which a namespace may refuse everything before the slice gives up. On a busy namespace ten seconds without credits are common."""

_THROTTLED_ROWS = 500
"""Changes sent at once while a namespace throttles. A slice can end after them with nothing to send again, however many sessions a page has."""


@dataclass(slots=True)
class ThrottleState:
    """What the next slice should know about the namespace. `until`: it counts as throttling until then (steady clock)."""

    until: float = -math.inf


@dataclass(slots=True)
class SliceProgress:
    """How far a slice has come so far; see SliceResult."""

    row_bytes: float | None = None
    page_rows: int | None = None
    position: Position | None = None
    changes: int = 0
    dropped: int = 0
    pages: int = 0
    set_aside: tuple[Oversized, ...] = ()
    filter_failed: SetAside | None = None
    refusals: int = 0
    throttled: str = ""
    unsent: float | None = None
    unanswered: bool = False
    """Whether the last send may still reach the queue: nobody knows what became of it."""

    @contextmanager
    def asking_the_queue(self, clock: SteadyClock) -> Iterator[None]:
        """Measure for how long the queue has accepted nothing. A queue that throttles has answered, so it does not count."""
        began, self.unsent = clock(), None
        try:
            yield
        except TransientError as error:
            sent = isinstance(error, SendInterrupted) and error.accepted
            if not isinstance(error, Throttled) and not (isinstance(error, SendInterrupted) and error.throttled):
                self.unsent = 0.0 if sent else clock() - began
            raise

    @contextmanager
    def sending(self, clock: SteadyClock) -> Iterator[None]:
        """The same around a send, which counts as unanswered unless it ended well, or the queue has refused something."""
        self.unanswered = True
        try:
            with self.asking_the_queue(clock):
                yield
        except (MessageRefused, EntityUnavailable):
            self.unanswered = False
            raise
        except SendInterrupted as error:
            self.unanswered = not error.throttled
            raise
        self.unanswered = False

    def passed(self, out: Outgoing, done: int, changes: Sequence[Change], *, left_out: int = 0) -> None:
        """Count a page of which `done` changes need nothing more. `changes`: what of it was to be sent. `left_out`: those that were left
        out, and by no transform."""
        self.changes += out.end
        self.dropped += done - out.end - left_out
        self.pages += 1
        self.set_aside += out.set_aside
        self.filter_failed = together([self.filter_failed, set_aside(changes[: out.end])])

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
            filter_failed=self.filter_failed,
            chunk=None if todo.chunk is None else todo.chunk.id,
        )


@dataclass(slots=True)
class _Spell:
    """A time in which the namespace throttles. `since`: when it last accepted something (steady clock). `refusals`: since then. `ended`: the
    slice waits no longer."""

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
        """Send all of a page's changes, or those before a change that stops the table, or as many as there is time for.

        Returns what was sent, and why the table stops, if it does. Raises Expired, and TransientError or PermanentError as the sender does.
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
                with progress.sending(self.clock):
                    self.sender.send(at_once, left=self.bounds.left)
                out.accept(range(len(at_once)))
                if spell is not None:
                    spell = _Spell(self.clock())
            except OutOfTime as error:
                out.accept(error.accepted)
                if todo.part is not None or not out.prefix:
                    raise self.bounds.too_late() from error
                out.stop_before(out.prefix)
            except SendInterrupted as error:
                out.accept(error.accepted)
                if not error.throttled:
                    raise
                if (spell := self._throttled(spell, error, progress)).ended:
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
        """Replace a change that is too large by a stand-in, or return why the table stops before it."""
        at = out.refused(error)
        found = oversized(changes[at], todo.instance.columns, error)
        if self.stand_ins and not out.is_stand_in(at):
            out.stand_in(at, self.encoder.stand_in(changes[at], found), found)
            return None
        out.stop_before(at)
        return found.refusal()

    def _throttled(self, spell: _Spell | None, error: SendInterrupted, progress: SliceProgress) -> _Spell:
        """The namespace has no credits: wait a little, unless the slice has waited too long or a stop was requested."""
        progress.refusals, progress.throttled = progress.refusals + 1, error.message
        if spell is None or error.accepted:
            spell = _Spell(self.clock())
        spell.refusals += 1
        self.throttle.until = self.clock() + QUIET
        spell.ended = self.clock() - spell.since >= _PATIENCE or self.bounds.stopping()
        if not spell.ended:
            self.wait(THROTTLED_BACKOFF.delay(spell.refusals, self.chance))
        return spell
