"""Sends a replay: page after page straight to its topic, in the order of the log, with no router and no queue between.

Holds one page, or two while the next is read ahead. It skips nothing: where cleanup has been, where the topic refuses a change, and after a
trouble that does not end it stops, and `progress` says up to where it came. Commits nothing, claims nothing, and knows no offset.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

import structlog

from common.bus.ports import MessageRefused, Sender, SendInterrupted
from common.bus.throttling import THROTTLED_BACKOFF
from common.clock import SteadyClock, SteadyTime, steady
from common.errors import DStreamError, PermanentError, Stopped, TransientError, unforeseen
from common.message import Message
from common.names import Origin
from common.retry import Backoff
from ingester.change import Change
from ingester.history.replay import Replay, lsn_of, next_window, passed
from ingester.oversize import not_taken
from ingester.position import Position
from ingester.shape.columns import refuse_uncovered
from ingester.shape.compiled import Compiled, compiled
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn, CaptureInstance, Page, PageQuery, Source
from ingester.task.encode import Encoder
from ingester.task.identity import identity
from ingester.task.page_size import learnt, page_rows
from ingester.transform import Transform, set_aside, transformed
from ingester.window import gap

REPORT_SECONDS = 10.0
PATIENCE = 300.0
"""Seconds without a page or a message accepted, after which a trouble ends the replay: longer than a failover takes."""
AT_ONCE = 500
"""The most changes of a send: after a fault, so many may be in doubt."""

_BACKOFF = Backoff(first=0.5, longest=15.0)

log = structlog.get_logger("replay")


@dataclass(slots=True)
class ReplayProgress:
    """`sent`: changes that the topic accepted. `upto`: the last of them, and when it was committed."""

    sent: int = 0
    upto: Position | None = None
    committed: str | None = None

    def goes_on_from(self, replay: Replay) -> str:
        """What `--from` takes to go on: the transaction of the last change, which is sent again as a whole."""
        return lsn_of(replay.begin if self.upto is None else self.upto)


class ReplayEncoder:
    """Makes the messages of a replay: those of the live changes, with another id and destination. All have the table's session, whatever
    `queue.ordering` is, so that one session keeps the order of the log."""

    def __init__(self, origin: Origin, queue: str, replay: Replay) -> None:
        """`queue`: the ingest queue, as live changes name it."""
        self.replay = replay
        self._origin = origin
        self._encoder = Encoder(origin, queue)
        self.metadata = self._encoder.metadata
        """Of the live change, as its filter saw it."""

    def message(self, change: Change) -> Message:
        live = identity(change, self._origin, "table", 1)
        replay = self.replay
        return self._encoder.message(
            replay.change(change, live.event_id),
            live._replace(event_id=replay.event_id(live.event_id), destination=replay.topic),
        )


@dataclass(slots=True)
class _Trouble:
    """Attempts that failed in a row, and since when (steady clock). `told`: it was logged."""

    since: SteadyTime
    times: int = 0
    told: bool = False


@dataclass
class Replayer:
    """Sends one replay. `instances`: the table's present capture instances. `most_rate`: changes a second; None: no limit.

    `stop`: once set, `run` raises Stopped at its next step. `before_images`: the setting of that name.
    """

    source: Source
    sender: Sender
    encode: ReplayEncoder
    instances: Callable[[], Sequence[CaptureInstance]]
    stop: threading.Event
    most_rows: int
    most_rate: int | None = None
    transforms: Sequence[Transform] = ()
    shape: TableShape = AS_CAPTURED
    before_images: bool = False
    clock: SteadyClock = steady
    wait: Callable[[float], object] | None = None
    chance: Callable[[], float] = random.random
    progress: ReplayProgress = field(default_factory=ReplayProgress)

    def run(self) -> None:
        """Raises PermanentError, TransientError after PATIENCE, or Stopped. `progress` is then as far as it came."""
        try:
            self._run()
        except DStreamError:
            raise
        except Exception as error:  # a command that fails with it would print its text
            raise PermanentError(
                f"replaying {self.encode.replay.table.key}: {unforeseen(error)}",
                hint="this is a defect of DStream: report this line, and the stack that --log-level debug prints",
            ) from error

    def _run(self) -> None:
        self._reported = self._next = self.clock()
        self._trouble = _Trouble(self._reported)
        self._row_bytes: float | None = None
        replay = self.encode.replay
        after, instances = replay.begin, self._asked(self.instances)
        while after < replay.end:
            instance, upto = next_window(instances, after, replay.end)
            refuse_uncovered(self.shape, instances[: instances.index(instance)], instance)
            page = self._page(instance, after, upto)
            if page is None:
                instances = self._asked(self.instances)
                continue
            if page.low_watermark is not None and gap(after, page.low_watermark) is not None:
                raise passed(replay.table, after, page.low_watermark)
            self._send(instance, page)
            after = page.end if page.full and page.end is not None else upto

    def _page(self, instance: CaptureInstance, after: Position, upto: Position) -> Page | None:
        """None after a trouble: another look at the capture instances comes first."""
        self._refuse_stopped()
        try:
            rows = page_rows(self.most_rows, self._row_bytes, self.sender.batch_bytes())
            shape = self._shape(instance)
            query = PageQuery(instance, after, upto, rows, None, shape.columns, shape.reads_before)
            page = self.source.page(query)
        except TransientError as error:
            self._sit_out(error)
            return None
        self._went_well()
        return page

    def _asked(self, ask: Callable[[], Sequence[CaptureInstance]]) -> Sequence[CaptureInstance]:
        while True:
            self._refuse_stopped()
            try:
                return ask()
            except TransientError as error:
                self._sit_out(error)

    def _send(self, instance: CaptureInstance, page: Page) -> None:
        ready = transformed(page.changes, (*self.transforms, *self._shape(instance, page.columns).transforms))
        sent = self._without_set_aside(ready.changes)
        messages = [self.encode.message(change) for change in sent]
        self._row_bytes = learnt(self._row_bytes, messages)
        at = 0
        while at < len(messages):
            self._refuse_stopped()
            accepted = self._accepted(instance, sent, messages, at)
            self._count(sent[at : at + accepted])
            at += accepted
            if accepted:
                self._report()
                self._keep_to_the_rate(accepted)
        if ready.failure is not None:
            raise ready.failure

    def _shape(self, instance: CaptureInstance, columns: tuple[CapturedColumn, ...] = ()) -> Compiled:
        """Ready for what is to be read, or for rows that were read with `columns`."""
        metadata, before = self.encode.metadata, self.before_images
        return compiled(self.shape, instance, sends_before=before, metadata=metadata, columns=columns)

    def _without_set_aside(self, changes: Sequence[Change]) -> Sequence[Change]:
        """A replay goes past the router, which alone keeps from subscribers what is set aside: they do not get it from here either."""
        if (found := set_aside(changes)) is None:
            return changes
        log.warning(
            "filter failed on changes; the replay leaves them out",
            replay=self.encode.replay.id,
            changes=found.count,
            first_lsn=lsn_of(found.first),
            error=found.why,
            hint="correct the filter and ask for the replay again",
        )
        return [change for change in changes if change.set_aside is None]

    def _accepted(
        self, instance: CaptureInstance, changes: Sequence[Change], messages: Sequence[Message], at: int
    ) -> int:
        """How many of the next messages the topic accepted. They are of one session, so these are the first ones."""
        now = messages[at : at + min(AT_ONCE, self.most_rate or AT_ONCE)]
        try:
            self.sender.send(now)
        except SendInterrupted as error:
            if error.accepted:
                self._went_well()
            self._sit_out(error)
            return _prefix(error.accepted)
        except MessageRefused as error:
            self._count(changes[at : at + _prefix(error.accepted)])
            raise not_taken(changes[at + error.at], instance.columns, error) from error
        except TransientError as error:
            self._sit_out(error)
            return 0
        self._went_well()
        return len(now)

    def _count(self, changes: Sequence[Change]) -> None:
        if changes:
            self.progress.sent += len(changes)
            self.progress.upto, self.progress.committed = changes[-1].position, changes[-1].commit_time

    def _went_well(self) -> None:
        if self._trouble.told:
            log.info("replay goes on", replay=self.encode.replay.id, failed_attempts=self._trouble.times)
        self._trouble = _Trouble(self.clock())

    def _sit_out(self, error: TransientError) -> None:
        """Wait before the next attempt. Raises `error` when nothing succeeded for PATIENCE."""
        self._refuse_stopped()
        trouble = self._trouble
        if not trouble.times:
            trouble.since = self.clock()
        trouble.times += 1
        if self.clock() - trouble.since >= PATIENCE:
            raise error
        throttled = isinstance(error, SendInterrupted) and error.throttled
        if not trouble.told and (trouble.times > 1 or not throttled):
            trouble.told = True
            log.warning(
                "replay interrupted; trying again",
                replay=self.encode.replay.id,
                error=error.message,
                hint=error.hint,
                gives_up_after_seconds=PATIENCE,
            )
        self._pause((THROTTLED_BACKOFF if throttled else _BACKOFF).delay(trouble.times, self.chance))

    def _keep_to_the_rate(self, accepted: int) -> None:
        """An outage is not made up for by a burst."""
        if self.most_rate is not None:
            now = self.clock()
            self._next = SteadyTime(max(self._next, now - 1.0) + accepted / self.most_rate)
            self._pause(self._next - now)

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            (self.wait or self.stop.wait)(seconds)

    def _refuse_stopped(self) -> None:
        if self.stop.is_set():
            raise Stopped("asked to stop")

    def _report(self) -> None:
        if self.clock() - self._reported < REPORT_SECONDS:
            return
        self._reported, progress = self.clock(), self.progress
        assert progress.upto is not None
        log.info(
            "replaying",
            replay=self.encode.replay.id,
            changes=progress.sent,
            committed=progress.committed,
            lsn=lsn_of(progress.upto),
        )


def _prefix(accepted: Collection[int]) -> int:
    """How many of the first messages were accepted without a gap."""
    return next(number for number in count() if number not in accepted)
