"""Table ownership: take the lock, claim the offset; give both back when needed.

That is when the lease ends, when another ingester is due its share, or when the table is no longer configured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import structlog

from common.clock import UnixTime
from common.errors import DStreamError, LeaseLost, PermanentError
from common.names import TableName
from ingester.driver.lease_keeper import LeaseKeeper
from ingester.driver.tables import TrackedTable
from ingester.locks import Lease
from ingester.offsets import Claim, Claimed, Offsets
from ingester.slices import Slice
from ingester.window import source_of

log = structlog.get_logger("ingester")

_SUPERSEDED = (
    "nothing, if another ingester is meant to have the table, or its offset was set (dstream offsets moves): an "
    'ingester takes it again by itself; with locks of type "local" no other may run: stop it'
)


class Ownership:
    """`lock_names`: the lock of each table. Only the loop calls it. Nothing here waits for the lock service."""

    def __init__(self, leases: LeaseKeeper, offsets: Offsets, lock_names: Mapping[TableName, str]) -> None:
        self._leases = leases
        self._offsets = offsets
        self._lock_names = dict(lock_names)
        self._tables = {lock: table for table, lock in lock_names.items()}

    def want(self, tables: Iterable[TrackedTable]) -> None:
        """The tables to own, as far as other ingesters leave them to this one."""
        self._leases.want([self._lock_names[table.name] for table in tables])

    def add(self, table: TableName, lock: str) -> None:
        """Add a table that was configured meanwhile."""
        self._lock_names[table], self._tables[lock] = lock, table

    def leave(self, table: TrackedTable) -> None:
        """Stop reading `table` here. Its lock, claimed or not, is free for others; its offset stays."""
        table.lease, table.backlog = None, False
        self._leases.unwant(self._lock_names[table.name])

    def remove(self, table: TrackedTable) -> None:
        """Leave a table that is no longer configured."""
        self.leave(table)
        del self._tables[self._lock_names.pop(table.name)]

    def give_back_all(self, tables: Iterable[TrackedTable], *, besides: Collection[TableName]) -> None:
        """Give back `tables` and all unclaimed locks. `besides`: tables with a slice under way, which stay."""
        for table in tables:
            if table.name not in besides:
                table.lease, table.backlog = None, False
        self._leases.give_back_all(besides=[self._lock_names[name] for name in besides])

    def news(self) -> list[TableName]:
        """Tables to look at now, because their locks were taken or refused."""
        return [self._tables[lock] for lock in self._leases.news() if lock in self._tables]

    def claim(self, tables: Iterable[TrackedTable]) -> list[tuple[TrackedTable, DStreamError]]:
        """Claim the offsets of those `tables` whose locks were taken, with one query. Returns the errors by table.

        Raises ConnectionLost; the locks are then kept for a while, unclaimed.
        """
        taken, refused = list[tuple[TrackedTable, Lease]](), list[tuple[TrackedTable, DStreamError]]()
        for table in tables:
            try:
                lease = self._leases.lease(self._lock_names[table.name])
            except PermanentError as error:
                refused.append((table, error))
                continue
            if lease is not None:
                taken.append((table, lease))
        claims = [Claim(table.name, lease.epoch, source_of(table.instances)) for table, lease in taken]
        found = self._offsets.claim_many(claims) if claims else ()
        for (table, lease), outcome in zip(taken, found, strict=True):
            if isinstance(outcome, Claimed):
                table.lease, table.offset, table.source, table.successor = lease, outcome.position, outcome.source, None
                log.info("lock taken", table=table.name.key, epoch=lease.epoch)
            elif isinstance(outcome, LeaseLost):
                table.lease = lease
                self.superseded(table, outcome.message)
            else:
                refused.append((table, outcome))
        return refused

    def ours(self, table: TrackedTable) -> bool:
        """Whether `table` was claimed and may still be read. Raises PermanentError if its lock was refused."""
        return table.lease is not None and self._still(table, table.lease)

    def stamped(self, todo: Slice, table: TrackedTable | None, now: UnixTime) -> Slice:
        """`todo` as it starts at `now`, with the time that its table's lease is sure to last. From any thread."""
        lease = None if table is None else table.lease
        try:
            left = 0.0 if lease is None or lease.epoch != todo.epoch else self._leases.seconds_left(lease)
        except DStreamError:  # logged when the slice is back
            left = 0.0
        todo = replace(todo, sent_at=now)
        return todo if left is None else replace(todo, send_before=UnixTime(now + left), lease_seconds=left)

    def superseded(self, table: TrackedTable, why: str) -> None:
        """Drop `table`, because its offset has a newer owner."""
        if table.lease is not None:
            self._leases.lost(table.lease)
            table.lease, table.backlog = None, False
            log.warning("lock lost", table=table.name.key, why=why, hint=_SUPERSEDED)

    def gone_over(self, table: TrackedTable) -> bool:
        """Go over to the table that has the name now. False if there is a newer owner. Raises PermanentError."""
        to, lease, left = table.successor, table.lease, table.source
        if to is None or lease is None or left is None:
            return False
        try:
            begin = self._offsets.go_over(
                table.name, lease.epoch, seen=table.offset, left=left, source=to.source, start=to.start
            )
        except LeaseLost as error:
            self.superseded(table, error.message)
            return False
        table.gone_over(begin)
        log.info("reading the table that has the name now", table=table.name.key, lsn=begin.place()[1])
        return True

    def give_back(self, table: TrackedTable) -> None:
        """Leave `table` to other ingesters."""
        if table.lease is not None:
            self._leases.give_back(table.lease)
            table.lease, table.backlog = None, False

    def close(self, *, besides: Collection[TableName] = ()) -> None:
        """Give everything back, and wait a little for that. `besides`: tables that a machine out of reach may still be reading. Their leases
        run out, as the time of its slices does, so nobody sends beside it.
        """
        if besides:
            log.info("locks are left to run out", tables=sorted(name.key for name in besides))
        self._leases.close(besides=[self._lock_names[name] for name in besides if name in self._lock_names])

    def _still(self, table: TrackedTable, lease: Lease) -> bool:
        try:
            self._leases.seconds_left(lease)
        except LeaseLost as error:
            self.give_back(table)
            log.warning("lock lost", table=table.name.key, why=error.message)
            return False
        if self._leases.surplus():
            self.give_back(table)
            log.info("lock given back, others have their share", table=table.name.key)
            return False
        return True
