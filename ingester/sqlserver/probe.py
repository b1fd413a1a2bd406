"""How far capture has come, and which tables have new changes: the question before each pass.

One round trip if nothing has happened since, for any number of tables. Otherwise a second one, with a statement for
each table that must be checked, and further ones for thousands of tables. Each statement's text depends on its table
alone, so SQL Server reuses its plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import PermanentError
from ingester.source import Probe, ProbeAnswer, ProbeRequest
from ingester.sqlserver.change_table import change_table
from ingester.sqlserver.connection import Connection, is_error
from ingester.sqlserver.hints import READ_SOURCE, READ_TIMES
from ingester.sqlserver.literals import WAITED, unless_locked
from ingester.sqlserver.login.opening import QUICK_SECONDS
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.sql import changes as queries
from ingester.sqlserver.sql.changes import Statement

UNKNOWN_OBJECT = 208
_NO_RIGHT, _LOCKED = -1, -2
_A_BATCH = 1000
"""Looks in one round trip: each has its deadline, and a server that has no plan for them yet makes one for each."""
_BEFORE_ALL = Lsn(bytes(10))
_STAMP: Statement = (queries.CATALOG_STAMP, ())
Stamp = tuple[Any, ...]


class Prober:
    """Not thread-safe, as its connection is not.

    The max LSN is read before the rows: in one SELECT a capture scan could commit between the two, and a table would
    count as idle up to an LSN whose rows were never checked. The low watermarks are read after the rows, since cleanup
    raises one before it deletes: so rows that were already deleted are noticed. The catalog's stamp is read after the
    max LSN: an instance that is created later starts after that LSN. Where all tables are known to be empty up to the
    max LSN, no low watermark is read: cleanup can have removed nothing that is still to be read.

    While capture's own transaction holds the newest row of the log's times, the last known max LSN is used.
    """

    def __init__(self, connection: Connection, *, by_function: bool) -> None:
        self._connection = connection
        self._by_function = by_function
        self._stamp: Stamp | None = None
        self._last: Lsn | None = None
        self._locked: dict[str, str] = {}
        self._capture_holds = False
        self._empty: dict[str, tuple[ProbeRequest, ProbeAnswer]] = {}
        """The request for each capture instance that was empty up to the LSN `_last`, and the answer. The log only
        grows at its end, so that stays true, also when cleanup passes the window meanwhile: it had nothing to remove."""

    def catalog_read(self, stamp: Stamp | None) -> None:
        """The capture instances in requests are those of this stamp of the catalog; None while CDC is off."""
        if stamp != self._stamp:
            self._stamp, self._empty = stamp, {}

    def probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        """See the port. Raises PermanentError where this login may not see the answer."""
        if not requests:
            return Probe(None, {})
        try:
            return self._probe(requests)
        except PermanentError as error:
            if is_error(error, UNKNOWN_OBJECT) and self._catalog_changed():
                return Probe(None, {}, stale=True)
            raise

    def _probe(self, requests: Sequence[ProbeRequest]) -> Probe:
        asking = unless_locked((queries.MAX_LSN, ()), (queries.MAX_LSN_HELD, ()), held=self._capture_holds)
        quiet = all(self._known_empty(request) for request in requests)
        (((last, held),), *stamp) = self._connection.batch(
            [WAITED, asking, *([_STAMP] if quiet else ())], within=QUICK_SECONDS
        )
        self._capture_holds = bool(held)
        if not held:
            self._came_to(None if last is None else Lsn(bytes(last)))
        elif self._last is None:
            return Probe(None, {}, capture_holds=True)
        asked = [at for at, request in enumerate(requests) if not self._known_empty(request)]
        if stamp and not asked:
            return self._as_before(requests, stamp[0])
        lows = queries.low_watermarks([name for r in requests for name in change_table(r.instance).kept])
        looks = self._looks(requests, asked)
        sets = list[list[tuple[int, int]]]()
        while len(looks) > _A_BATCH:
            sets += self._connection.batch([WAITED, *looks[:_A_BATCH]])
            del looks[:_A_BATCH]
        *last_sets, found, stamps = self._connection.batch([*([WAITED] if looks else ()), *looks, lows, _STAMP])
        sets += last_sets
        pending = {number: answer for rows in sets for number, answer in rows}
        return self._answered(requests, asked, pending, dict(found), stamps)

    def _as_before(self, requests: Sequence[ProbeRequest], stamps: Sequence[Stamp]) -> Probe:
        """Nothing has happened since all of `requests` were found empty."""
        assert self._last is not None
        upto = LogPosition.end_of(self._last)
        if self._stamp is not None and stamps[0] != self._stamp:
            return Probe(upto, {}, stale=True, capture_holds=self._capture_holds)
        answers = {request.instance.name: self._empty[request.instance.name][1] for request in requests}
        self._empty |= {request.instance.name: (request, answers[request.instance.name]) for request in requests}
        return Probe(upto, answers, capture_holds=self._capture_holds)

    def _came_to(self, last: Lsn | None) -> None:
        if last != self._last:
            self._last, self._empty = last, {}

    def _known_empty(self, request: ProbeRequest) -> bool:
        """Whether the window, or one that begins no later and ends at the same border, was empty and the log has not
        grown since."""
        known = self._empty.get(request.instance.name)
        if known is None:
            return False
        same = known[0]
        return same is request or (same.before == request.before and _start(same) <= _start(request))

    def _looks(self, requests: Sequence[ProbeRequest], asked: Sequence[int]) -> list[Statement]:
        """Before the first capture there is nothing to check, but the published functions reveal a missing right.

        Without row versions the capture of a large transaction locks its change table until it commits. The probe waits
        a second for the first such table, and asks about tables that were locked the last time at the end.
        """
        if self._last is None and not self._by_function:
            return []
        last = self._last or _BEFORE_ALL
        held = {at for at in asked if requests[at].instance.name in self._locked}
        return [
            unless_locked(self._look(at, requests[at], last), queries.locked(at, _LOCKED), held=at in held)
            for at in sorted(asked, key=held.__contains__)
        ]

    def _look(self, number: int, request: ProbeRequest, last: Lsn) -> Statement:
        instance, start = change_table(request.instance), _start(request)
        before = None if request.before is None else in_the_log(request.before).lsn
        if self._by_function:
            start = start_of(start)
            rows = queries.window(start, before, has_command_id=False)
            return queries.function_pending(number, instance.name, None if request.after is None else start, rows, last)
        rows = queries.window(start, before, instance.has_command_id)
        return queries.pending(number, instance, rows, last)

    def _answered(
        self,
        requests: Sequence[ProbeRequest],
        asked: Sequence[int],
        pending: Mapping[int, int],
        lows: Mapping[str, bytes | None],
        stamps: Sequence[Stamp],
    ) -> Probe:
        stale = self._stamp is not None and stamps[0] != self._stamp
        locked = [change_table(requests[at].instance) for at, answer in pending.items() if answer == _LOCKED]
        self._locked = {one.name: f"cdc.{one.change_table}" for one in locked}
        answers: dict[str, ProbeAnswer] = {}
        for at, request in enumerate(requests):
            name = request.instance.name
            kept = [found for one in change_table(request.instance).kept if (found := lows.get(one)) is not None]
            low = min((Lsn(bytes(one)) for one in kept), default=None)
            if name in self._locked:
                continue
            if low is not None and not low.unknown and pending.get(at) != _NO_RIGHT:
                answers[name] = ProbeAnswer(LogPosition.before(low), at in pending)
            elif not stale:
                raise no_watermark(name)
        if self._last is None and not stale:
            self._check_rights()
        if self._last is not None and not stale:
            for at in asked:
                if at not in pending:
                    name = requests[at].instance.name
                    self._empty[name] = requests[at], answers[name]
        upto = None if self._last is None else LogPosition.end_of(self._last)
        return Probe(upto, answers, stale, self._locked, self._capture_holds)

    def _catalog_changed(self) -> bool:
        try:
            return self._stamp is not None and self._connection.rows(queries.CATALOG_STAMP)[0] != self._stamp
        except PermanentError as error:
            if is_error(error, UNKNOWN_OBJECT):  # CDC was disabled for the whole database
                return True
            raise

    def _check_rights(self) -> None:
        """Raises PermanentError if a missing right is why the server does not return how far capture has come."""
        if self._connection.rows(queries.MAY_READ_THE_LOGS_TIMES)[0][0] != 1:
            raise PermanentError(
                "asking how far capture has come: this login may not see it",
                hint=READ_TIMES,
            )


def _start(request: ProbeRequest) -> LogPosition:
    return in_the_log(request.after or request.instance.start)


def start_of(after: LogPosition) -> LogPosition:
    """Where a reader without command ids begins: a position with a command id belongs to another order, so its
    transaction is read again."""
    return after if after.command_id <= 0 or after == LogPosition.end_of(after.lsn) else LogPosition.before(after.lsn)


def no_watermark(capture_instance: str) -> PermanentError:
    """https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-min-lsn-transact-sql (Remarks)"""
    return PermanentError(
        f"asking for the low watermark of {capture_instance}: this login may not see it",
        hint=READ_SOURCE,
    )
