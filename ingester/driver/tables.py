"""What the driver remembers of each table between passes, and what it decides from a probe. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from common.names import TableName
from ingester.locks import Lease
from ingester.position import Position
from ingester.source import CaptureInstance, Hints, ProbeAnswer, TableState
from ingester.window import Gap, Window, gap, source_of, superseded, window


@dataclass(frozen=True, slots=True)
class Successor:
    """Another table that has the configured name now, while the offset still counts the changes of the one that had it before.

    `lost`: the former's changes are gone with it. `moment`: the server's time when the name was another's already.
    """

    source: str
    instances: tuple[CaptureInstance, ...]
    moment: str
    lost: bool

    @property
    def start(self) -> Position:
        """The beginning of what is held of it: what was loaded into it under another name belongs to it."""
        return min(instance.start for instance in self.instances)


@dataclass(slots=True)
class TrackedTable:
    """A configured table. `offset` is the stored one as last seen; None before the first start."""

    name: TableName
    lease: Lease | None = None
    instances: tuple[CaptureInstance, ...] = ()
    offset: Position | None = None
    source: str | None = None
    """Whose changes the offset counts, as far as known."""
    successor: Successor | None = None
    """Set while `instances` are those of a table that has lost the name."""
    backlog: bool = False
    failing: bool = False
    deadly: bool = False
    """Whether it was said that it kills the workers that read it."""
    stored_at: float = field(default=float("-inf"))
    absence: str | None = None
    """Why the table cannot be read yet, as last told; None when nothing is in the way."""
    row_bytes: float | None = None
    """What a row was encoded to lately; None before the first page."""
    page_rows: int | None = None
    """How many rows its next page would have; None before the first page."""
    held: bool = False
    """Whether another session held its change table when it was last looked at."""
    superseded: set[str] = field(default_factory=set)
    """Capture instances that were told to be of no more use."""

    drift: str | None = None
    """How the table differs from what is captured of it, as last told; None if it does not."""

    @property
    def misread(self) -> bool:
        """Whether the offset is not one of the table whose `instances` these are: the catalog has to say more."""
        bearer = source_of(self.instances)
        return None not in (bearer, self.source) and bearer != self.source

    @property
    def unclear(self) -> bool:
        """Whether the offset is another table's, and the catalog has not said yet what became of that one."""
        return self.misread and self.successor is None

    def take_in(self, state: TableState) -> str | None:
        """Note the capture instances that there are. Returns what is to be told of it, once."""
        bearer = source_of(state.instances)
        if bearer is None or self.source is None or bearer == self.source:
            self.instances, self.successor = state.instances, None
            return None
        told = self.successor is not None and self.successor.source == bearer
        moment = self.successor.moment if told and self.successor is not None else state.moment
        self.successor = Successor(bearer, state.instances, moment, lost=not state.former)
        self.instances = state.former or state.instances
        return None if told or not state.former else _renamed(self, bearer)

    def gone_over(self, begin: Position) -> None:
        """The offset counts the changes of the table that has the name now, from `begin`."""
        assert self.successor is not None
        self.offset, self.source, self.instances = begin, self.successor.source, self.successor.instances
        self.successor = None


def _renamed(table: TrackedTable, bearer: str) -> str:
    key = table.name.key
    return (
        f"table {key} is another one now (object {bearer}; the offset is of object {table.source}): what is left of the former's changes is "
        f"sent first, as {key}, and then all that capture holds of the present one"
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
    """`start`: where reading begins without an offset. `upto`: the window's end. `found`: the gap, for GAP."""

    act: Act
    window: Window
    start: Position
    upto: Position | None = None
    found: Gap | None = None


IDLE_COMMIT_SECONDS = 60.0
"""How often an idle table's offset follows the log: often enough for any retention, seldom enough to cost nothing."""


def decide(table: TrackedTable, answer: ProbeAnswer, captured: Position | None, now: float) -> Decision:
    """What the probe's answer means for `table`."""
    chosen = window(table.instances, table.offset, captured)
    low = answer.low_watermark
    start = low if low is not None else chosen.instance.start
    if table.offset is not None:
        found = gap(table.offset, low)
        if found is not None:
            return Decision(Act.GAP, chosen, start, chosen.upto, found)
    after = table.offset if table.offset is not None else start
    if chosen.upto is None or (chosen.upto <= after and table.successor is None):
        return Decision(Act.WAIT, chosen, start)
    if answer.pending:
        return Decision(Act.READ, chosen, start, chosen.upto)
    if table.successor is not None and not chosen.hands_over:
        return Decision(Act.GO_OVER, chosen, start, chosen.upto)
    due = chosen.hands_over or table.offset is None or now - table.stored_at >= IDLE_COMMIT_SECONDS
    return Decision(Act.ADVANCE if due else Act.WAIT, chosen, start, chosen.upto)


def drift(state: TableState, hints: Hints, offset: Position | None = None) -> str | None:
    """How a table's columns differ from those that its newest capture instance is filled with; None if they do not.

    `offset`: how far it was read: of two instances the older one is needed until the newer one has taken over.
    """
    if not state.instances:
        return None
    newest = state.instances[-1]
    gone = [column.name for column in newest.columns if column.gone]
    if not gone and not newest.added:
        return None
    added_text = f"{', '.join(newest.added)} added since and not captured" if newest.added else ""
    gone_text = f"{', '.join(gone)} dropped since and captured no more" if gone else ""
    return (
        f"the columns of table {newest.table.key} are not those of its capture instance {newest.name}: "
        f"{'; '.join(filter(None, (added_text, gone_text)))}. Make a capture instance of the present columns, which is read from there on: "
        f"{hints.capture_again(newest)}{_room(state.instances, offset)}"
    )


def _room(instances: Sequence[CaptureInstance], offset: Position | None) -> str:
    """What is to be done about the instances that there are, of which a table may have two: dropping one that is read loses its changes."""
    oldest = instances[0].name
    if len(instances) < 2:
        return f". Keep {oldest}, which is read up to there, until the log says that it can be dropped"
    if instances[0] in superseded(instances, offset):
        return f" (a table may have two: drop the older one, {oldest}, first; it has been read to its end)"
    return f" (a table may have two, and {oldest} is still read: wait until the log says that it can be dropped, and drop it first)"


def superseded_notes(table: TrackedTable, hints: Hints) -> list[str]:
    """Of each capture instance that a newer one has taken over from: that it may be dropped, and how. Once."""
    notes: list[str] = []
    if table.successor is not None:  # their table has another name
        return notes
    for instance in superseded(table.instances, table.offset):
        if instance.name not in table.superseded:
            table.superseded.add(instance.name)
            notes.append(
                f"table {table.name.key} is read from its newer capture instance; the old one can be dropped: {hints.drop(instance)}"
            )
    return notes
