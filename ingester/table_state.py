"""What the driver remembers of each table between passes, and what it decides from a probe. Pure: no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from common.names import TableName
from ingester.locks import Lease
from ingester.lsn import Lsn, Position
from ingester.schedule import Rhythm
from ingester.source import CaptureInstance, ProbeAnswer, TableState
from ingester.window import Gap, Window, gap, superseded, window


@dataclass(slots=True)
class TrackedTable:
    """A configured table. `offset` is the stored one as last seen; None before the first start."""

    name: TableName
    rhythm: Rhythm
    lease: Lease | None = None
    instances: tuple[CaptureInstance, ...] = ()
    offset: Position | None = None
    backlog: bool = False
    failing: bool = False
    stored_at: float = field(default=float("-inf"))
    absence: str | None = None
    """Why the table cannot be read yet, as last told; None when nothing is in the way."""
    row_bytes: float | None = None
    """What a row was encoded to lately; None before the first page."""
    page_rows: int | None = None
    """How many rows its next page would have; None before the first page."""
    superseded: set[str] = field(default_factory=set)
    """Capture instances that were told to be of no more use."""


class Act(Enum):
    """What to do with a table after the probe."""

    WAIT = "wait"
    READ = "read"
    ADVANCE = "advance"
    GAP = "gap"


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


def decide(table: TrackedTable, answer: ProbeAnswer, max_lsn: Lsn | None, now: float) -> Decision:
    """What the probe's answer means for `table`."""
    chosen = window(table.instances, table.offset, max_lsn)
    low = answer.low_watermark
    known_low = low if low is not None and not low.unknown else chosen.instance.start_lsn
    start = Position.before(known_low)
    if table.offset is not None:
        found = gap(table.offset, low)
        if found is not None:
            return Decision(Act.GAP, chosen, start, chosen.upto, found)
    after = table.offset if table.offset is not None else start
    if chosen.upto is None or chosen.upto <= after:
        return Decision(Act.WAIT, chosen, start)
    if answer.pending:
        return Decision(Act.READ, chosen, start, chosen.upto)
    due = chosen.hands_over or table.offset is None or now - table.stored_at >= IDLE_COMMIT_SECONDS
    return Decision(Act.ADVANCE if due else Act.WAIT, chosen, start, chosen.upto)


def absence(table: TableName, state: TableState) -> str | None:
    """Why `table` cannot be read, with the remedy; None when it can."""
    if not state.exists:
        return (
            f"table {table.key} does not exist in the database, or the login may not see it (GRANT SELECT ON {table.quoted}); "
            "it is looked for again on later passes"
        )
    if not state.instances:
        schema, name = (part.replace("'", "''") for part in (table.schema, table.table))
        enable_table = (
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{name}', @role_name = NULL"
        )
        if not state.database_has_cdc:
            return (
                f"table {table.key} cannot be read: Change Data Capture is off for the whole database; enable it with "
                f"EXEC sys.sp_cdc_enable_db (as sysadmin, in Azure SQL Database as db_owner), then {enable_table}; "
                "it is looked for again on later passes"
            )
        return (
            f"table {table.key} is not under CDC; enable it with {enable_table}; it is looked for again on later passes"
        )
    return None


def superseded_notes(table: TrackedTable) -> list[str]:
    """Of each capture instance that a newer one has taken over from: that it may be dropped, and how. Once."""
    notes = []
    for instance in superseded(table.instances, table.offset):
        if instance.name not in table.superseded:
            table.superseded.add(instance.name)
            schema, name, capture = (
                part.replace("'", "''") for part in (instance.table.schema, instance.table.table, instance.name)
            )
            notes.append(
                f"table {table.name.key} is read from its newer capture instance; the old one can be dropped: EXEC sys.sp_cdc_disable_table "
                f"@source_schema = N'{schema}', @source_name = N'{name}', @capture_instance = N'{capture}'"
            )
    return notes
