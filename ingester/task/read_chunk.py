"""Reads one chunk of a snapshot and sends its rows, in the order of their keys, through all that a change goes through.

Nothing is read before the fence stands, and nothing is sent once it may have run out: the table's stream must not go on while a row of an older
state can still reach the queue. No offset is moved. The rows of a chunk that is run again are the same messages, so a chunk may end anywhere;
its result says how far it came, and whether anything of it is still under way. Failures are values, as with other slices.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from common.errors import DStreamError, EntityUnavailable, PermanentError, TransientError
from common.side_topic import SideTopics
from ingester.change import Change
from ingester.history.rows import PAGE_BYTES, ConditionRefused, RowKey, RowPage
from ingester.history.snapshot import Chunk, ChunkDone
from ingester.history.store import Fence
from ingester.shape.compiled import Compiled
from ingester.shape.read_ids import key_of_ids
from ingester.slices import Slice, SliceResult, in_trouble
from ingester.source import CapturedColumn
from ingester.task.chunk_pages import ChunkPage, ChunkPages, ChunkReader
from ingester.task.drain import Drain
from ingester.task.events import RowChanges, of_snapshot
from ingester.task.fence import HeldFence
from ingester.task.limits import ChunkBounds
from ingester.task.page_size import BATCHES, page_rows
from ingester.task.schema_events import SchemaTeller
from ingester.task.send_page import PageSender, SliceProgress
from ingester.transform import transformed

EXACT_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of rows that are held back until capture has passed them. A chunk that is larger ends before the next page."""
CAPTURE_SECONDS: Final = 120.0
"""For how long rows are held back: capture reads the log every five seconds, unless it lags or its job does not run."""
_AT_ONCE_SECONDS: Final = 0.001
"""A page that is due so soon is due: a wait shorter than the clock's own step might never end."""
_POLL_SECONDS: Final = 1.0
"""The longest wait at a time, so that a stop is noticed and the fence is held meanwhile."""


@dataclass(slots=True)
class _Piece:
    """Rows of a chunk: where each stands, and its message as a change. `columns`: those that the last ones were read with."""

    keys: list[RowKey] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    columns: tuple[CapturedColumn, ...] = ()

    def add(self, page: RowPage, made: RowChanges) -> None:
        self.keys += [row.at for row in page.rows]
        self.changes += made.of(page)
        self.columns = page.columns

    def cut(self, at: int) -> _Piece:
        """Take away what is at `at` and behind it."""
        rest = _Piece(self.keys[at:], self.changes[at:], self.columns)
        del self.keys[at:], self.changes[at:]
        return rest


@dataclass(frozen=True, slots=True)
class ChunkDrain:
    """What reads chunks: `parts` are those of the slices of changes, so that both are sent by the same rules."""

    reader: ChunkReader
    fence: Fence
    parts: Drain
    side_topics: SideTopics

    def run(self, todo: Slice, chunk: Chunk) -> SliceResult:
        """Read and send `chunk` of `todo`. Raises no DStreamError; the caller turns any other exception into a result with `failed`."""
        progress, parts = SliceProgress(todo.row_bytes), self.parts
        fence = HeldFence(self.fence, chunk, todo.table, todo.epoch, parts.clock)
        bounds = ChunkBounds(todo, fence, now=parts.now, clock=parts.clock, stopping=parts.stopping)
        schemas = SchemaTeller(parts.schemas if chunk.topic is None else None, todo, chunk.snapshot)
        run = _Run(todo, chunk, self, bounds, progress, parts.page_sender(bounds), schemas)
        trouble: DStreamError | None = None
        try:
            self._refuse_topic(chunk)
            bounds.refuse_expired()  # takes the fence, before the first row is read; a round that is over says nothing of the shape
            run.id_key = key_of_ids(todo.shape, chunk.table.instance.columns, chunk.table.order)
            run.exactly() if chunk.exact else run.as_it_is()
        except DStreamError as error:
            trouble = _about_the_snapshot(todo, chunk, error)
        done = replace(run.done, settled=not progress.unanswered)
        result = replace(progress.result(todo, more=not done.complete), done=done)
        return result if trouble is None else in_trouble(result, trouble)

    def _refuse_topic(self, chunk: Chunk) -> None:
        """The stored topic is not trusted: who may write only that must not reach the subscribers of another table."""
        if chunk.topic is not None and (why := self.side_topics.refused(chunk.topic)) is not None:
            raise PermanentError(
                f"topic {chunk.topic!r}: {why}", hint="see in `dstream snapshot list` who asked for the snapshot"
            )


@dataclass(slots=True)
class _Run:
    """A chunk under way. `id_key`: of the ids of its rows. `done`: how far it came. `due`: when its next page is due by the rate."""

    todo: Slice
    chunk: Chunk
    by: ChunkDrain
    bounds: ChunkBounds
    progress: SliceProgress
    pages: PageSender
    schemas: SchemaTeller
    id_key: bytes = field(default=b"", repr=False)
    done: ChunkDone = field(default_factory=ChunkDone)
    due: float = -math.inf

    def as_it_is(self) -> None:
        """Send each page as soon as it is read, and due."""
        self.due = self.by.parts.clock()
        piece, made = _Piece(), RowChanges(self.chunk, self.todo.start, self.id_key)
        with self._reading() as pages:
            while True:
                read = pages.next(self._rows())
                piece.add(read.page, made)
                # Only the next page tells whether the last row of this one is the snapshot's last.
                rest = piece.cut(-1) if self.chunk.last and read.more else _Piece()
                if not self._send(piece, last=self.chunk.last and read.ended):
                    return None
                if not read.more:
                    return self._complete(ended=read.ended)
                if not self._goes_on():
                    return None
                piece = rest

    def exactly(self) -> None:
        """Read all, wait until capture has passed it, and leave the rows that changed meanwhile to their changes."""
        if not self.chunk.table.order:
            raise PermanentError(
                f"reading {self.todo.table.key}: the table has no unique key, so a snapshot of it cannot be exact",
                hint="set snapshot.exact = false for the table, then resume the snapshot",
            )
        piece = _Piece()
        if (end := self._all(piece)) is None or (changed := self._changed(end.page.moment)) is None:
            return
        stays = [at for at, change in enumerate(piece.changes) if change.key not in changed]
        tail = piece.cut(stays[-1] + 1 if stays else 0)
        while piece.keys:
            rest = piece.cut(self._rows())
            last = self.chunk.last and end.ended and not rest.keys
            if not self._send(piece, last=last, leaves_out=LeavesOut(changed)) or (rest.keys and self._ends()):
                return
            piece = rest
        self._passed(tail.keys)
        if not end.more:
            self._complete(ended=end.ended)

    def _reading(self) -> AbstractContextManager[ChunkPages]:
        return self.by.reader.pages(self.chunk, self._shape().columns)

    def _rows(self) -> int:
        """Rows of the next page."""
        with self.progress.asking_the_queue(self.by.parts.clock):
            batch = self.by.parts.sender.batch_bytes()
        rows = page_rows(self.todo.rows, self.progress.row_bytes, min(batch, PAGE_BYTES // BATCHES))
        return rows if self.chunk.rate is None else min(rows, self.chunk.rate)

    def _goes_on(self) -> bool:
        """Whether another page may begin, once it is due. The fence is held on meanwhile; a stop and the end of its time end the wait."""
        while not (self.bounds.refuses_a_page() or self.bounds.ends_after_a_page()):
            self.bounds.refuse_expired()
            early = self.due - self.by.parts.clock()
            if self.chunk.rate is None or early < _AT_ONCE_SECONDS:
                return True
            self.by.parts.wait(min(early, _POLL_SECONDS))
        return False

    def _ends(self) -> bool:
        """Whether the chunk ends before anything of it can be sent. Its time being up is no reason: capture decides how long it takes."""
        return self.bounds.refuses_a_page() or self.bounds.expired()

    def _all(self, piece: _Piece) -> ChunkPage | None:
        """Fill `piece` with the chunk's rows, as many as may be held back. Returns the last page of these; None if the chunk ends before."""
        made, size = RowChanges(self.chunk, self.todo.start, self.id_key), 0
        end: ChunkPage | None = None
        with self._reading() as pages:
            while end is None or end.more:
                read = pages.next(self._rows())
                size += sum(len(orjson.dumps(row.data)) for row in read.page.rows)
                if end is not None and size > EXACT_BYTES:
                    return end
                piece.add(read.page, made)
                end = read
                if end.more and self._ends():
                    return None
                self.bounds.refuse_expired()
        return end

    def _changed(self, moment: str) -> frozenset[tuple[object, ...]] | None:
        """The keys of the rows that changed until `moment`, once capture has passed it; None if the chunk ends before."""
        table, start, clock = self.chunk.table, self.todo.start, self.by.parts.clock
        begun = clock()
        while (found := self.by.reader.changed_since(table, start, moment)) is None:
            if self._ends():
                return None
            if clock() - begun >= CAPTURE_SECONDS:
                raise TransientError(
                    f"reading chunk {self.chunk.number} of snapshot {self.chunk.snapshot} of {self.todo.table.key}: capture has not passed "
                    f"its rows {CAPTURE_SECONDS:.0f} s after they were read, so nobody knows which of them changed meanwhile",
                    hint="nothing is lost, the chunk is read again; see in `dstream status` how far capture is behind",
                )
            self.by.parts.wait(_POLL_SECONDS)
            self.bounds.refuse_expired()
        return found

    def _send(self, piece: _Piece, *, last: bool, leaves_out: LeavesOut | None = None) -> bool:
        """Send what is in `piece`. Returns whether that was all of it. `last`: its last row is the snapshot's."""
        if not piece.keys:
            return True
        transforms = (*self.by.parts.transforms, *self._shape(piece.columns).transforms)
        if leaves_out is not None:
            transforms = (leaves_out, *transforms)
        ready = transformed(piece.changes, transforms)
        changes = list(ready.changes)
        if last and changes and ready.failure is None:
            changes[-1] = replace(changes[-1], history=of_snapshot(self.chunk, last=True))
        if changes and not self.schemas.told(piece.columns, changes[0].position, self._sent):
            return False
        out, refused = self.pages.send(self.todo, changes, self.progress)
        done = ready.done(out.end)
        left = 0 if leaves_out is None else sum(change.key in leaves_out.keys for change in piece.changes[:done])
        self.progress.passed(out, done, changes, left_out=left)
        self._passed(piece.keys[:done])
        if (stopped := refused or (ready.failure if done == ready.end else None)) is not None:
            raise stopped
        return done == len(piece.keys)

    def _shape(self, columns: tuple[CapturedColumn, ...] = ()) -> Compiled:
        """Ready for the chunk, or for rows that were read with `columns`."""
        return self.by.parts.shape(self.todo.shape, self.chunk.table.instance, columns)

    def _sent(self, event: Change) -> bool:
        return self.by.parts.sent_event(self.todo, event, self.pages, self.progress)

    def _passed(self, keys: Sequence[RowKey]) -> None:
        if keys:
            self.done = replace(self.done, upto=keys[-1] or None, rows=self.done.rows + len(keys))
            if self.chunk.rate is not None:  # time in which nothing could be sent is not made up for
                self.due = max(self.due + len(keys) / self.chunk.rate, self.by.parts.clock())

    def _complete(self, *, ended: bool) -> None:
        self.done = replace(self.done, upto=self.chunk.upto or self.done.upto, complete=True, ended=ended)


@dataclass(frozen=True, slots=True)
class LeavesOut:
    """A transform: leaves out the rows with these keys, which are in the stream."""

    keys: frozenset[tuple[object, ...]]

    @property
    def name(self) -> str:
        return "snapshot.exact"

    def __call__(self, change: Change) -> Change | None:
        return None if change.key in self.keys else change


def _about_the_snapshot(todo: Slice, chunk: Chunk, error: DStreamError) -> DStreamError:
    """What ends a snapshot says so: the table's changes go on. A queue that takes nothing concerns every table, and no snapshot."""
    if not isinstance(error, PermanentError) or isinstance(error, EntityUnavailable):
        return error
    advice = f"{error.hint.rstrip('.')}. " if error.hint else ""
    then = f"dstream snapshot resume {chunk.snapshot} goes on where it stopped"
    if isinstance(error, ConditionRefused):
        then = f"Start another one with another condition: dstream snapshot start {shlex.quote(todo.table.key)} --where ..."
    return PermanentError(
        f"reading chunk {chunk.number} of snapshot {chunk.snapshot}: {error.message}",
        hint=f"{advice}The snapshot stops here, the table's changes go on. {then}",
    )
