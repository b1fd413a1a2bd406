"""What the driver remembers of each table between passes, and what it decides after a probe. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from common.clock import SteadyTime
from common.names import TableName
from ingester.driver.schedule import TableOutcome
from ingester.locks import Lease
from ingester.position import Position
from ingester.shape.table_shape import TableShape
from ingester.source import CapturedColumn, CaptureInstance, Hints, ProbeAnswer, ProbeRequest, TableState
from ingester.watch.figures import Standing
from ingester.window import Gap, Window, gap, probe_request, source_of, superseded, window

_NEVER = SteadyTime(float("-inf"))


@dataclass(frozen=True, slots=True)
class Successor:
    """Another table that has the configured name now, while the offset still counts the changes of the former one.

    `lost`: the former table's changes are gone with it. `moment`: the server's time when the name had changed already.
    """

    source: str
    instances: tuple[CaptureInstance, ...]
    moment: str
    lost: bool

    @property
    def start(self) -> Position:
        """The beginning of its captured changes, those under its earlier name included."""
        return min(instance.start for instance in self.instances)


@dataclass(frozen=True, slots=True)
class Look:
    """What a probe found of a table, and what followed from it. The same again, for the same lease, has the same decision."""

    lease: Lease | None
    instances: tuple[CaptureInstance, ...]
    offset: Position | None
    request: ProbeRequest
    answer: ProbeAnswer
    upto: Position | None
    decision: Decision


@dataclass(slots=True)
class TrackedTable:
    """A configured table. `offset`: the stored one as last seen; None before the first start."""

    name: TableName
    lease: Lease | None = None
    instances: tuple[CaptureInstance, ...] = ()
    offset: Position | None = None
    source: str | None = None
    """The table whose changes the offset counts, as far as known."""
    successor: Successor | None = None
    """Set while `instances` belong to a table that has lost the name."""
    backlog: bool = False
    failing: bool = False
    deadly: bool = False
    """Whether the log says that this table kills its workers."""
    stored_at: SteadyTime = _NEVER
    absence: str | None = None
    """Why the table cannot be read, as last logged; None if it can."""
    row_bytes: float | None = None
    """Recent encoded size of a row; None before the first page."""
    page_rows: int | None = None
    """How many rows its next page would have; None before the first page."""
    held: bool = False
    """Whether another session had locked its change table at the last look."""
    superseded: set[str] = field(default_factory=set)
    """Capture instances that the log has named as no longer needed."""
    shaped: tuple[TableShape, str, tuple[CapturedColumn, ...], int] | None = None
    """Its shape as last logged, with the instance that is read, its columns and the lock's epoch; None if it has always been sent as captured."""
    drift: str | None = None
    """How the table differs from its capture instance, as last logged; None if it does not."""
    looked: Look | None = None
    rested: Decision | None = None
    """The decision of a look after which nothing was to be done. When the next one comes to the same, nothing is again."""

    @property
    def request(self) -> ProbeRequest:
        """The question about it. The same object as long as nothing has changed, so that the answer is found again."""
        last = self.looked
        if last is not None and last.instances is self.instances and last.offset is self.offset:
            return last.request
        return probe_request(self.instances, self.offset)

    @property
    def misread(self) -> bool:
        """Whether `instances` belong to another table than the offset."""
        bearer = source_of(self.instances)
        return None not in (bearer, self.source) and bearer != self.source

    @property
    def unclear(self) -> bool:
        """Whether the offset belongs to another table, and the catalog must be asked what happened to that one."""
        return self.misread and self.successor is None

    def standing(self, *, catalog_known: bool) -> Standing:
        """Its state while it is not read and has not stopped."""
        if self.absence is not None or (not catalog_known and not self.instances):
            return Standing.ABSENT
        return Standing.ELSEWHERE if self.lease is None else Standing.READ

    def unread(self, *, server_away: bool) -> TableOutcome:
        """Why a pass did not read it."""
        if server_away:
            return TableOutcome.FAILED
        return TableOutcome.LOCKED if self.held or (self.instances and self.lease is None) else TableOutcome.IDLE

    def take_in(self, state: TableState) -> str | None:
        """Note the present capture instances. Returns what to log about a change of name, once."""
        bearer = source_of(state.instances)
        if bearer is None or self.source is None or bearer == self.source:
            self.instances, self.successor = state.instances, None
            return None
        known = self.successor if self.successor is not None and self.successor.source == bearer else None
        moment = state.moment if known is None else known.moment
        self.successor = Successor(bearer, state.instances, moment, lost=not state.former)
        self.instances = state.former or state.instances
        return _renamed(self, bearer) if known is None and state.former else None

    def gone_over(self, begin: Position) -> None:
        """From `begin` on the offset counts the changes of the table that has the name now."""
        assert self.successor is not None
        self.offset, self.source, self.instances = begin, self.successor.source, self.successor.instances
        self.successor = None


def _renamed(table: TrackedTable, bearer: str) -> str:
    key = table.name.key
    return (
        f"table {key} is another one now (object {bearer}; the offset belongs to object {table.source}): the remaining "
        f"changes of the former one are sent first, as {key}, then all captured changes of the present one"
    )


class Act(Enum):
    """What to do with a table after the probe."""

    WAIT = "wait"
    READ = "read"
    ADVANCE = "advance"
    GAP = "gap"
    GO_OVER = "go over"


@dataclass(frozen=True, slots=True)
class Decision:
    """`start`: where to begin without an offset. `upto`: the window's end. `found`: the gap, for GAP."""

    act: Act
    window: Window
    start: Position
    upto: Position | None = None
    found: Gap | None = None


IDLE_COMMIT_SECONDS = 60.0
"""How often an idle table's offset follows the log: often enough for any retention, rarely enough to cost nothing."""


def looked_at(
    table: TrackedTable, request: ProbeRequest, answer: ProbeAnswer, captured: Position | None, now: SteadyTime
) -> Decision:
    """What to do with `table` after the probe's answer to `request`: that of the last look, to wait, if everything is as it was."""
    last = table.looked
    if (
        last is not None
        and table.successor is None
        and last.answer is answer
        and last.request is request
        and last.lease is table.lease
        and last.upto == captured
        and now - table.stored_at < IDLE_COMMIT_SECONDS
    ):
        return last.decision
    decision = decide(table, answer, captured, now)
    if decision.act is not Act.WAIT:  # to be done once, and what it leads to may look the same
        table.looked = None
        return decision
    table.looked = Look(table.lease, table.instances, table.offset, request, answer, captured, decision)
    return decision


def decide(table: TrackedTable, answer: ProbeAnswer, captured: Position | None, now: SteadyTime) -> Decision:
    """What to do with `table` after the probe's answer."""
    chosen = window(table.instances, table.offset, captured)
    low = answer.low_watermark
    start = low if low is not None else chosen.instance.start
    if table.offset is not None:
        found = gap(table.offset, low)
        if found is not None:
            return Decision(Act.GAP, chosen, start, chosen.upto, found)
    after = table.offset if table.offset is not None else start
    if chosen.upto is None or (chosen.upto <= after and table.successor is None):
        if table.offset is None or now - table.stored_at < IDLE_COMMIT_SECONDS:
            return Decision(Act.WAIT, chosen, start)
        # Moved to where it is: so this process learns of a newer owner, and of an offset that was set, in a quiet log too.
        return Decision(Act.ADVANCE, chosen, start, after)
    if answer.pending:
        return Decision(Act.READ, chosen, start, chosen.upto)
    if table.successor is not None and not chosen.hands_over:
        return Decision(Act.GO_OVER, chosen, start, chosen.upto)
    due = chosen.hands_over or table.offset is None or now - table.stored_at >= IDLE_COMMIT_SECONDS
    return Decision(Act.ADVANCE if due else Act.WAIT, chosen, start, chosen.upto)


def drift(state: TableState, hints: Hints, offset: Position | None = None) -> str | None:
    """How a table's columns differ from those of its newest capture instance; None if they do not.

    `offset`: how far the table was read. The older of two instances is needed until the newer one takes over.
    """
    if not state.instances:
        return None
    newest = state.instances[-1]
    gone = [column.name for column in newest.columns if column.gone]
    if not gone and not newest.added:
        return None
    differences = []
    if newest.added:
        differences.append(f"{', '.join(newest.added)} added since and not captured")
    if gone:
        differences.append(f"{', '.join(gone)} dropped since and no longer captured")
    return (
        f"the columns of table {newest.table.key} are not those of its capture instance {newest.name}: "
        f"{'; '.join(differences)}. Create a capture instance of the present columns, which is read from then on: "
        f"{hints.capture_again(newest)}{_room(state.instances, offset)}"
    )


def _room(instances: Sequence[CaptureInstance], offset: Position | None) -> str:
    """What to do about the present instances. A table may have two; dropping one before it was read loses changes."""
    oldest = instances[0].name
    if len(instances) < 2:
        return f". Keep {oldest}, which is read up to that point, until the log says that it can be dropped"
    if instances[0] in superseded(instances, offset):
        return f" (a table may have two: drop the older one, {oldest}, first; it has been read to its end)"
    return (
        f" (a table may have two, and {oldest} is still being read: wait until the log says that it can be dropped, "
        "then drop it first)"
    )


def superseded_notes(table: TrackedTable, hints: Hints) -> list[str]:
    """For each capture instance that a newer one has replaced: that it can be dropped, and how. Once."""
    notes: list[str] = []
    if table.successor is not None:  # the instances belong to a table that has another name now
        return notes
    for instance in superseded(table.instances, table.offset):
        if instance.name not in table.superseded:
            table.superseded.add(instance.name)
            notes.append(
                f"table {table.name.key} is read from its newer capture instance; the old one can be dropped: {hints.drop(instance)}"
            )
    return notes
