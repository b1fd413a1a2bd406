"""Locks in the source database itself: session-owned application locks, all held by one connection.

The server frees them as soon as the session ends, so a lease is not a promise by the server: it limits how long this
process may continue without a sign that its session is alive. Until it notices the end, another ingester may read the
same table; the offset's epoch prevents the older one from committing, and duplicate detection removes what both have
sent.

The epoch is the one in dbo.cdc_offsets, raised by one in the batch that takes the lock: a session that has ended can
raise nothing.
https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from common.clock import SteadyClock, SteadyTime, steady
from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from ingester.locks import Lease, this_owner
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.sql import locks as queries

LEASE_SECONDS = 15.0
"""How long the session counts as alive after the last sign of it: short, since nothing else reports its end."""
RENEW_SECONDS = 3.0
QUERY_SECONDS = 5
"""Seconds before a question counts as hung. The server answers it from memory."""
_RESOURCE_LIMIT = 255
_REFUSED = -999
_ASKED_AT_ONCE = 200


class SqlServerLocks:
    """`connection` must not be used for anything else. `keys`: the offset's key for each table's lock; other locks have
    epoch 0."""

    def __init__(self, connection: Connection, keys: Mapping[str, str], *, clock: SteadyClock = steady) -> None:
        self._connection = connection
        self._keys = keys
        self._clock = clock
        self._owner = this_owner()
        self._held: dict[str, Lease] = {}
        self._seen_alive = float("-inf")
        self._guard = threading.RLock()

    @property
    def renew_seconds(self) -> float | None:
        return RENEW_SECONDS

    def ensure(self) -> None:
        """Raises PermanentError when the login may not take application locks."""
        name = f"dstream/{self._owner}"
        with self._guard:
            self._take(name)
            self._free(name)

    def acquire(self, name: str) -> Lease | None:
        with self._guard:
            if name in self._held:
                return None
            sent = self._clock()
            if not self._take(resource(name)):
                return None
            try:
                epoch = self._raise_epoch(name)
            except PermanentError:
                self._free(resource(name))
                raise
            self._held[name] = lease = Lease(name, self._owner, epoch, SteadyTime(sent + LEASE_SECONDS))
            return lease

    def renew(self, lease: Lease) -> Lease:
        with self._guard:
            if not self._same(lease):
                raise LeaseLost(f"renewing the lock {lease.name}: it was released, or its session has ended")
            now = self._clock()
            if now - self._seen_alive >= RENEW_SECONDS / 3:
                self._look(lease, now)
            renewed = Lease(lease.name, lease.owner, lease.epoch, SteadyTime(self._seen_alive + LEASE_SECONDS))
            self._held[lease.name] = renewed
            return renewed

    def release(self, lease: Lease) -> None:
        with self._guard:
            if self._same(lease):
                del self._held[lease.name]
                self._free(resource(lease.name))

    def lost(self, lease: Lease) -> None:
        """The lock itself is still held: its next owner raises the epoch past the newer one."""
        self.release(lease)

    def held(self, names: Collection[str]) -> frozenset[str]:
        names, found = list(names), set[str]()
        with self._guard:
            for at in range(0, len(names), _ASKED_AT_ONCE):
                asked = names[at : at + _ASKED_AT_ONCE]
                sql, parameters = queries.free_for_us([resource(name) for name in asked])
                answers = self._ask(sql, parameters)
                found |= {asked[number] for number, free in answers if not free}
            return frozenset(found) | (self._held.keys() & frozenset(names))

    def close(self) -> None:
        with self._guard:
            self._end_session()

    def _take(self, wanted: str) -> bool:
        """Take `wanted`; whether it was free."""
        [(status,)] = self._ask(queries.TAKE, (wanted,))
        if status <= _REFUSED:
            raise PermanentError(f"taking the application lock {wanted}: sp_getapplock answered {status}")
        return bool(status >= 0)

    def _free(self, taken: str) -> None:
        self._ask(queries.RELEASE, (taken,))

    def _raise_epoch(self, name: str) -> int:
        """Run in the session that holds the lock: if that has ended, the new session holds no lock and raises
        nothing."""
        if (key := self._keys.get(name)) is None:
            return 0
        found = self._ask(queries.RAISE_EPOCH, (resource(name), key, key, key, key))
        if not found:
            self._end_session()
            raise TransientError(f"taking the lock {name}: the session ended before the epoch was raised")
        return int(found[0][0])

    def _look(self, lease: Lease, now: float) -> None:
        """One session holds all locks, and only its end frees a lock that was not released: one held lock proves
        all."""
        doing = f"renewing the lock {lease.name}: its session has ended"
        try:
            [(mode,)] = self._ask(queries.MODE, (resource(lease.name),))
        except DStreamError as error:
            self._end_session()
            raise LeaseLost(f"{doing}: {error.message}") from error
        if mode != "Exclusive":
            self._end_session()
            raise LeaseLost(f"{doing}; the new session holds no locks")
        self._seen_alive = now

    def _ask(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """The rows of the last result set. A connection that failed is already closed, and all locks are free."""
        try:
            return (self._connection.result_sets(sql, parameters) or [[]])[-1]
        except TransientError:
            self._end_session()
            raise

    def _end_session(self) -> None:
        """Release everything, here and at the server."""
        self._held.clear()
        self._seen_alive = float("-inf")
        self._connection.close()

    def _same(self, lease: Lease) -> bool:
        return lease.name in self._held and self._held[lease.name].epoch == lease.epoch


def resource(name: str) -> str:
    """The name of the application lock, within the procedure's limit: it truncates longer ones."""
    wanted = f"dstream/{name}"
    if len(wanted.encode("utf-16-le")) // 2 <= _RESOURCE_LIMIT:
        return wanted
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"dstream/{digest}"
