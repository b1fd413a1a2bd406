"""The parts of a loop that deal with snapshots and gaps, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.clock import SteadyClock
from ingester.driver.dispatch import Dispatcher
from ingester.driver.history.gaps import Gaps
from ingester.driver.history.preparing import Beside, Preparing
from ingester.driver.history.snapshots import Snapshots
from ingester.driver.history.turns import Turns
from ingester.driver.loop_settings import LoopSettings
from ingester.driver.ownership import Ownership
from ingester.driver.roster import Roster
from ingester.history.rows import Rows
from ingester.history.store import SnapshotStore
from ingester.source import Hints
from ingester.watch.stats import IngesterStats


@dataclass(frozen=True, slots=True)
class Stored:
    """What the driver reads of tables and stores of snapshots. `rows`: makes one with a connection of its own. `beside`: runs a look at a table
    in another thread, which may hang. `snapshots` belongs to the loop's thread."""

    rows: Callable[[], Rows]
    snapshots: SnapshotStore
    beside: Beside


@dataclass(frozen=True, slots=True)
class History:
    """The parts; see their modules."""

    preparing: Preparing
    snapshots: Snapshots
    turns: Turns
    gaps: Gaps


def history(
    stored: Stored,
    settings: LoopSettings,
    dispatcher: Dispatcher,
    ownership: Ownership,
    roster: Roster,
    stats: IngesterStats,
    hints: Hints,
    clock: SteadyClock,
    chance: Callable[[], float],
) -> History:
    """The arguments are parts of a loop."""
    preparing = Preparing(stored.rows, stored.beside)
    snapshots = Snapshots(
        settings.snapshots,
        preparing=preparing,
        store=stored.snapshots,
        superseded=ownership.superseded,
        failed=roster.failed,
        stats=stats,
        clock=clock,
        chance=chance,
    )
    turns = Turns(snapshots, dispatcher, page_rows=settings.page_rows, seconds=settings.slice_seconds)
    gaps = Gaps(settings.skips, snapshots, dispatcher, stats, hints, roster.stop, roster.put, turns.slice)
    return History(preparing, snapshots, turns, gaps)
