"""What is known of an ingester at one moment, as values: of each table, and of all together. Counts nothing itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from common.names import TableName
from common.observability.metrics import Distribution
from ingester.slices import SliceResult


class Standing(Enum):
    """The state of a table. ELSEWHERE: another ingester or none has its lock. ABSENT: missing, or not under CDC. PAUSED: this ingester has its
    lock, and a person has paused it."""

    READ = "read"
    ELSEWHERE = "elsewhere"
    ABSENT = "absent"
    STOPPED = "stopped"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Of one table, since the start.

    `rows`: sent by snapshots. `snapshots`: 1 while one is taken, else 0.
    `behind`: since when it is known to have changes past its offset (steady clock); None: it has none.
    `changed`: when a change of it was last sent. `failures`: by kind of trouble.
    """

    standing: Standing = Standing.ELSEWHERE
    behind: float | None = None
    changed: float | None = None
    changes: int = 0
    pages: int = 0
    dropped: int = 0
    oversize: int = 0
    filter_failed: int = 0
    gaps: int = 0
    rows: int = 0
    snapshots: int = 0
    failed_snapshots: int = 0
    failures: Mapping[str, int] = field(default_factory=Counter)

    @property
    def ours(self) -> bool:
        """Whether this ingester is responsible for the table: nobody else reads one that it has stopped."""
        return self.standing in (Standing.READ, Standing.STOPPED, Standing.PAUSED)

    def with_kept_back(self, result: SliceResult) -> TableFigures:
        """These, with what `result` left out or sent to be dead-lettered."""
        return replace(
            self,
            dropped=self.dropped + result.dropped,
            oversize=self.oversize + len(result.set_aside),
            filter_failed=self.filter_failed + (result.filter_failed.count if result.filter_failed else 0),
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything at one moment, `now` (steady clock). `queue`: False while the queue accepts no messages.

    `busy` of `slots` run tasks. `refusals`: sends that a throttling namespace refused. `clocks_off`: slices from machines
    whose clock differs. `scans`: of the log, by their outcome. `scanning`: whether a scan has succeeded lately; None: the ingester is not
    to scan. `answers`: whether SQL Server, where it can be reached, answers for the tables.
    """

    now: float
    begun: float
    connected: bool
    queue: bool
    tables: Mapping[TableName, TableFigures]
    passes: Distribution
    slices: Distribution
    slots: int
    busy: int
    refusals: int
    clocks_off: int
    scans: Mapping[str, int] = field(default_factory=dict)
    scanning: bool | None = None
    answers: bool = True

    @property
    def quiet(self) -> float:
        """Seconds since the last change was sent, or since the start."""
        return self.now - max([self.begun, *(t.changed for t in self.tables.values() if t.changed is not None)])

    @property
    def behind(self) -> bool:
        """Whether changes of a table wait to be sent."""
        return any(table.behind is not None for table in self.tables.values())
