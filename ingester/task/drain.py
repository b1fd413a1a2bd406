"""Drains one slice of one table: page -> transform -> encode -> send -> commit, until the end of the window or of the slice's time.

A slice may be one part of a stride while other tasks read the other parts. It then commits nothing, and goes on to the stride's end.

A slice never runs ahead of a stored offset, sends nothing after `send_before`, and leaves out no change because it is too large. Failures
are returned as values: a bad table must not fail its neighbours, and a slice that is run again begins at the stored offset.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from common.bus.ports import Sender
from common.clock import SteadyClock, UnixClock, steady
from common.errors import DStreamError, TransientError
from ingester.change import Change
from ingester.offsets import TakenOffsets
from ingester.position import Position
from ingester.schema.store import SchemaStore
from ingester.shape.compiled import Compiled, compiled
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice, SliceResult, in_trouble
from ingester.source import CapturedColumn, CaptureInstance, Page, PageQuery, Source
from ingester.task.encode import Encoder
from ingester.task.events import gap_event
from ingester.task.limits import Bounds
from ingester.task.page_size import page_rows
from ingester.task.schema_events import SchemaTeller
from ingester.task.send_page import PageSender, SliceProgress, ThrottleState
from ingester.transform import Transform, transformed
from ingester.window import gap, gap_error


@dataclass(frozen=True, slots=True)
class Drain:
    """The parts that drain a slice. `now` is Unix time, `clock` the steady clock. `stand_ins`: `on_oversize = "dead_letter"`.

    `before_images`: the setting of that name. `transforms` see the change as it was read, before its table's shape.
    """

    source: Source
    offsets: TakenOffsets
    sender: Sender
    encoder: Encoder
    now: UnixClock
    clock: SteadyClock = steady
    stand_ins: bool = False
    before_images: bool = False
    transforms: Sequence[Transform] = ()
    schemas: SchemaStore | None = None
    """Where the versions of tables with `schema_events` are kept."""
    wait: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    throttle: ThrottleState = field(default_factory=ThrottleState)
    stopping: Callable[[], bool] = lambda: False
    """Whether a stop was requested. Called before each page, except in a part (which is about one page), and while the slice is throttled."""

    def run(self, todo: Slice) -> SliceResult:
        """Drain `todo`. Raises no DStreamError; the caller turns any other exception into a result with `failed`."""
        progress = SliceProgress(todo.row_bytes)
        try:
            more = self._drain(todo, progress)
        except DStreamError as error:
            return in_trouble(progress.result(todo, more=True), error)
        return progress.result(todo, more=more)

    def _drain(self, todo: Slice, progress: SliceProgress) -> bool:
        bounds = Bounds(todo, now=self.now, clock=self.clock, stopping=self.stopping)
        pages = self.page_sender(bounds)
        table = todo.table
        progress.position = seen = self.offsets.load(table, todo.epoch, todo.instance.source or None)
        after = todo.start if seen is None else seen
        if (todo.part is not None or todo.gap) and after != todo.start:
            what = "a part" if todo.part is not None else "a gap"
            raise TransientError(
                f"reading {what} of {table.key}: the offset has moved to {after}, {what[2:]} begins at {todo.start}"
            )
        if todo.gap:
            return self._tell_of_gap(todo, seen, pages, progress)
        shape = self.shape(todo.shape, todo.instance)
        schemas = SchemaTeller(self.schemas, todo)
        while after < todo.upto:
            if bounds.refuses_a_page():
                return True
            bounds.refuse_expired()
            with progress.asking_the_queue(self.clock):
                rows = page_rows(todo.rows, progress.row_bytes, self.sender.batch_bytes())
            query = PageQuery(todo.instance, after, todo.upto, rows, todo.part, shape.columns, shape.reads_before)
            page = self.source.page(query)
            _refuse_gap(todo, after, page)
            if page.end is None:
                return False
            first = page.changes[0].position if page.changes else page.end
            if not schemas.told(page.columns, first, lambda event: self.sent_event(todo, event, pages, progress)):
                return True
            as_read = self.shape(todo.shape, todo.instance, page.columns)
            ready = transformed(page.changes, (*self.transforms, *as_read.transforms))
            out, refused = pages.send(todo, ready.changes, progress)
            done = ready.done(out.end)
            whole = done == len(page.changes)
            end = page.end if whole else page.changes[done - 1].position if done else None
            if end is not None:
                if todo.part is None:
                    self.offsets.commit(table, todo.epoch, seen=seen, position=end)
                    progress.position = seen = end
                after = end
                progress.passed(out, done, ready.changes)
            if (stopped := refused or (ready.failure if done == ready.end else None)) is not None:
                raise stopped
            if not whole:
                return True
            if not page.full:
                return False
            if bounds.ends_after_a_page():
                return True
        return False

    def shape(self, shape: TableShape, instance: CaptureInstance, columns: tuple[CapturedColumn, ...] = ()) -> Compiled:
        """`shape` made ready for what is to be read of `instance`, or for rows that were read with `columns`."""
        metadata = self.encoder.metadata
        return compiled(shape, instance, sends_before=self.before_images, metadata=metadata, columns=columns)

    def page_sender(self, bounds: Bounds) -> PageSender:
        """What sends the pages of a slice with these bounds."""
        return PageSender(
            self.sender, self.encoder, self.clock, bounds, self.stand_ins, self.wait, self.chance, self.throttle
        )

    @staticmethod
    def sent_event(todo: Slice, event: Change, pages: PageSender, progress: SliceProgress) -> bool:
        """Whether an event that is about no row was accepted. It counts as no change, and no transform sees it."""
        out, refused = pages.send(todo, [event], progress)
        if refused is not None:
            raise refused
        return out.end == 1

    def _tell_of_gap(self, todo: Slice, seen: Position | None, pages: PageSender, progress: SliceProgress) -> bool:
        """Send the event about what was lost, and go on behind it. No transform sees it: it is about no row."""
        out, refused = pages.send(todo, [gap_event(todo)], progress)
        if refused is not None:
            raise refused
        self.offsets.commit(todo.table, todo.epoch, seen=seen, position=todo.upto)
        progress.position = todo.upto
        progress.passed(out, out.end, ())
        return True


def _refuse_gap(todo: Slice, after: Position, page: Page) -> None:
    found = gap(after, page.low_watermark)
    if found is None or todo.skip_gaps:
        return
    error = gap_error(todo.instance, found)
    raise TransientError(error.message) if todo.announces_gaps else error
