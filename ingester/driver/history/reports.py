"""What the log says of snapshots: each thing once, and its end. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from common.clock import SteadyClock
from common.errors import DStreamError
from common.names import TableName
from ingester.driver.history.rounds import RoundOver
from ingester.history.rows import BaseTable
from ingester.history.snapshot import Snapshot, SnapshotState
from ingester.slices import Trouble

log = structlog.get_logger("ingester")

_SAY_SECONDS = 60.0
"""How often the log says how far a snapshot has come."""
_QUIET = (Trouble.EXPIRED, Trouble.LEASE_LOST)
"""Troubles of chunks that say nothing to a person: they are read again."""


class Reports:
    """`_failing`: the tables whose rounds fail, as the log says."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._failing: set[TableName] = set()
        self._said_at: dict[TableName, float] = {}
        self._waits = self._refused = False

    def begins(self, table: TableName, snapshot: Snapshot, base: BaseTable) -> None:
        """The first round under this owner. `base`: the table as it is now."""
        self._said_at[table] = self._clock()
        log.info(
            "snapshot begins" if snapshot.done is None else "snapshot goes on",
            table=table.key,
            snapshot=snapshot.id,
            reason=snapshot.reason.value,
            rows_sent=snapshot.rows,
            rows_about=base.rows,
        )
        if not base.order:
            log.warning(
                "the table has no unique key, its changes wait while all its rows are read",
                table=table.key,
                snapshot=snapshot.id,
                rows_about=base.rows,
                hint="nothing is lost; a primary key, or a unique index over columns that are NOT NULL, lets changes through in between",
            )

    def waits_for_capture(self, table: TableName, snapshot: Snapshot) -> None:
        """The table has no offset before capture has recorded something. Once."""
        log.info("snapshot waits until capture has recorded a transaction", table=table.key, snapshot=snapshot.id)

    def fails(self, table: TableName, why: str, hint: str | None) -> None:
        """Once until a round succeeds."""
        if table not in self._failing:
            self._failing.add(table)
            log.warning("snapshot waits, retrying", table=table.key, error=why, hint=hint)

    def unrecorded(self, table: TableName, why: DStreamError) -> None:
        """A round cannot be recorded, and until then the stream stands. Once until a round succeeds."""
        if table not in self._failing:
            self._failing.add(table)
            log.warning(
                "snapshot cannot be recorded, the table's changes wait, retrying",
                table=table.key,
                error=why.message,
                hint=why.hint,
            )

    def over(self, table: TableName, state: SnapshotState, snapshot: Snapshot, found: RoundOver) -> None:
        """A round was recorded; the snapshot is in `state` now."""
        progress, trouble = found.progress, found.trouble
        told = {"table": table.key, "snapshot": snapshot.id, "rows_sent": progress.rows}
        if state is SnapshotState.FAILED:
            log.error(
                "snapshot failed, the table's changes go on",
                **told,
                error=progress.error,
                hint="dstream snapshot list shows it, and the error says what to do",
            )
        elif trouble is not None and trouble.trouble not in _QUIET:
            self.fails(table, trouble.message, trouble.hint)
        elif trouble is None and table in self._failing:
            self._failing.discard(table)
            log.info("snapshot recovered", **told)
        if state is SnapshotState.RUNNING:
            if self._clock() - self._said_at.get(table, 0.0) >= _SAY_SECONDS:
                self._said_at[table] = self._clock()
                log.info("snapshot", **told, chunks=progress.chunks)
        elif state is SnapshotState.DONE:
            log.info("snapshot done", **told, chunks=progress.chunks)
        elif state is SnapshotState.PAUSED:
            log.info("snapshot paused", **told, chunks=progress.chunks)
        elif state is SnapshotState.STOPPED:
            log.info("snapshot stopped", **told, chunks=progress.chunks)

    def waits(self, tables: Sequence[TableName], why: DStreamError | None) -> None:
        """Which tables must not be read because the store does not answer; none: it does."""
        if tables and not self._waits:
            log.warning(
                "tables wait to learn whether a snapshot of them is under way, retrying",
                tables=sorted(table.key for table in tables),
                error=None if why is None else why.message,
                hint=None if why is None else why.hint,
            )
        elif self._waits and not tables:
            log.info("tables no longer wait for the state of snapshots")
        self._waits = bool(tables)

    @property
    def is_refused(self) -> bool:
        """Whether the store cannot be used."""
        return self._refused

    def refused(self, why: DStreamError | None) -> None:
        """Why the store cannot be used; None: it can."""
        if why is not None and not self._refused:
            log.warning("snapshots cannot be taken", error=why.message, hint=why.hint)
        self._refused = why is not None
