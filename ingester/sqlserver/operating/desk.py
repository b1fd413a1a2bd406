"""The offsets of SQL Server as a person reads and moves them: dbo.cdc_offsets and dbo.cdc_offset_moves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from common.errors import ConfigurationError, ConnectionLost, DStreamError, PermanentError, TransientError
from common.names import TableName
from ingester.operating.offset_desk import Count, Lag, LagRequest, Move, MoveOrder, StoredOffset
from ingester.position import Position
from ingester.source import CaptureInstance
from ingester.sqlserver.change_table import change_table
from ingester.sqlserver.connection import Connection, is_error, needing
from ingester.sqlserver.hints import HINTS, MAKE_MOVES, READ_OFFSETS, READ_TIMES, SET_OFFSETS, USE_MOVES
from ingester.sqlserver.literals import WAITED, in_its_scope, unless_locked
from ingester.sqlserver.offsets import SqlServerOffsets, parts_of, stored_position
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log, in_words
from ingester.sqlserver.sql import changes as queries_of_changes
from ingester.sqlserver.sql import offsets as queries_of_offsets
from ingester.sqlserver.sql import operating as queries
from ingester.sqlserver.times import CommitTimes

_AT_ONCE = 100
"""Tables whose lag one batch asks for."""
_LSN = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{20})")
_REASON = 1000
_LOCK_TIMEOUT = 1222
_FIRST_MOMENT, _LAST_MOMENT = datetime(1753, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
"""The range of the log's times, which are of type datetime and in any zone. No commit is outside of it."""


class _AnyCase(Mapping[str, StoredOffset]):
    """Offsets by name as the server compares names: the configuration may spell a table otherwise than when it was first read."""

    def __init__(self, found: Mapping[str, StoredOffset]) -> None:
        self._found = {key.casefold(): offset for key, offset in found.items()}

    def __getitem__(self, key: str) -> StoredOffset:
        return self._found[key.casefold()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class SqlServerDesk:
    """Everything but `move` needs SELECT alone, on schema cdc and on dbo.cdc_offsets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._times = CommitTimes(connection)

    def stored(self) -> Mapping[str, StoredOffset]:
        if self._missing(queries_of_offsets.TABLE_MISSING, "dbo.cdc_offsets", READ_OFFSETS):
            return {}
        rows = self._rows(owners=self.owners_named())
        utc = self._times.utc(time for row in rows for time in row[-2:])
        found = {
            key: StoredOffset(
                position=stored_position(*place),
                epoch=epoch,
                owner=queries_of_offsets.owner_of(named, epoch),
                committed=None if committed is None else utc[committed],
                updated=None if updated is None else utc[updated],
                source=source,
            )
            for key, *place, epoch, source, named, committed, updated in rows
        }
        return _AnyCase(found) if self._connection.rows(queries.IGNORES_CASE)[0][0] else found

    def _missing(self, asked: str, name: str, grant: str) -> bool:
        """Whether there is no such table. Raises PermanentError if that cannot be known: the table may be hidden."""
        if not self._connection.rows(asked)[0][0]:
            return False
        if self._connection.rows(queries.SEES_ALL_TABLES)[0][0]:
            return True
        raise PermanentError(f"{name} does not exist yet, or this login may not see it", hint=grant)

    def _rows(self, *, owners: bool) -> list[tuple[Any, ...]]:
        """Without times while capture's own transaction holds the log's times."""
        try:
            return self._connection.rows(_soon(queries.stored(owners=owners, times=True)))
        except DStreamError as error:
            if not is_error(error, _LOCK_TIMEOUT):
                raise
        return self._connection.rows(_soon(queries.stored(owners=owners, times=False)))

    def owners_named(self) -> bool:
        return not self._connection.rows(queries_of_offsets.OWNER_MISSING)[0][0]

    def captured(self) -> Position | None:
        if self._connection.rows(queries_of_changes.MAY_READ_THE_LOGS_TIMES)[0][0] != 1:
            raise PermanentError("looking how far capture has come: this login may not see it", hint=READ_TIMES)
        asking = unless_locked((queries_of_changes.MAX_LSN, ()), (queries_of_changes.MAX_LSN_HELD, ()))
        last, held = self._connection.batch([WAITED, asking])[-1][0]
        if held:
            raise TransientError(
                "looking how far capture has come: capture holds cdc.lsn_time_mapping", hint=HINTS.capture_holds
            )
        return None if last is None else LogPosition.end_of(Lsn(bytes(last)))

    def lags(self, requests: Sequence[LagRequest], most: int) -> Mapping[TableName, Lag | DStreamError]:
        found: dict[TableName, Lag | DStreamError] = {}
        for first in range(0, len(requests), _AT_ONCE):
            found |= self._lags(requests[first : first + _AT_ONCE], most)
        return found

    def _lags(self, requests: Sequence[LagRequest], most: int) -> dict[TableName, Lag | DStreamError]:
        """Those of a batch. One that is refused as a whole is halved, until the table at fault is alone."""
        try:
            return self._together(requests, most)
        except ConnectionLost:
            raise
        except DStreamError as error:
            if len(requests) == 1:
                return {requests[0].table: error}
            half = len(requests) // 2
            return self._lags(requests[:half], most) | self._lags(requests[half:], most)

    def _together(self, requests: Sequence[LagRequest], most: int) -> dict[TableName, Lag | DStreamError]:
        looks = [
            unless_locked(
                queries.lag(
                    number,
                    change_table(one.instance),
                    in_the_log(one.after),
                    None if one.before is None else in_the_log(one.before),
                    most + 1,
                ),
                queries.locked(number),
            )
            for number, one in enumerate(requests)
        ]
        rows = [row for rows in self._connection.batch([WAITED, *looks]) for row in rows]
        return {requests[number].table: _lag(changes, seconds, most) for number, changes, seconds in rows}

    def count(self, instance: CaptureInstance, after: Position, upto: Position, most: int) -> Count:
        table = change_table(instance)
        found = self._connection.rows(*queries.count(table, in_the_log(after), in_the_log(upto), most + 1))[0][0]
        return Count(min(found, most), found > most)

    def words(self, position: Position) -> str:
        return in_words(position)

    def position_of(self, lsn: str) -> Position:
        return LogPosition.before(lsn_of(lsn))

    def position_at(self, moment: datetime) -> Position | None:
        found = self._mapped(queries.FIRST_FROM, moment)
        return None if found is None else LogPosition.before(found)

    def end_of(self, lsn: str) -> Position:
        return LogPosition.end_of(lsn_of(lsn))

    def end_at(self, moment: datetime) -> Position | None:
        found = self._mapped(queries.LAST_UNTIL, moment)
        return None if found is None else LogPosition.end_of(found)

    def reaches_back(self, moment: datetime) -> bool:
        return self._mapped(queries.LAST_BEFORE, moment) is not None

    def _mapped(self, question: str, moment: datetime) -> Lsn | None:
        within = min(max(moment, _FIRST_MOMENT), _LAST_MOMENT)
        utc = within.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
        found = self._connection.rows(question, (self._local(utc),))[0][0]
        return None if found is None else Lsn(bytes(found))

    def _local(self, utc: str) -> str:
        zone = self._times.zone()
        if zone is None:
            minutes = self._connection.rows(queries_of_changes.OFFSET_NOW)[0][0]
            return (datetime.fromisoformat(utc) + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")
        return str(self._connection.rows(queries.LOCAL_IN_ZONE, (utc, zone))[0][0])

    def move(self, order: MoveOrder) -> bool:
        SqlServerOffsets(self._connection).ensure()
        if self._connection.rows(queries.MOVES_MISSING)[0][0]:
            self._allowed(MAKE_MOVES, queries.CREATE_MOVES)
        reason = None if order.reason is None else order.reason[:_REASON]
        sql, values = queries.move(order.table.key, order.epoch, parts_of(order.to), order.source, reason)
        return bool(self._allowed(SET_OFFSETS, sql, values)[-1:] not in ([], [[]]))

    def _allowed(self, grant: str, sql: str, values: Sequence[object] = ()) -> list[list[tuple[object, ...]]]:
        """The result sets of a statement that changes something; a refusal names the right that is missing."""
        with needing(grant):
            return self._connection.result_sets(sql, values)

    def moves(self, table: TableName | None, most: int) -> Sequence[Move]:
        if self._missing(queries.MOVES_MISSING, "dbo.cdc_offset_moves", USE_MOVES):
            return ()
        rows = self._allowed(USE_MOVES, *queries.moves(None if table is None else table.key, most))[0]
        return [_move(row) for row in rows]

    def close(self) -> None:
        self._connection.close()


def lsn_of(text: str) -> Lsn:
    """Raises ConfigurationError."""
    digits = _LSN.fullmatch(text.strip())
    if digits is None:
        raise ConfigurationError([f"{text}: not an LSN: one has 20 hexadecimal digits, such as 0x0000003600000B200003"])
    return Lsn(bytes.fromhex(digits[1]))


def _soon(sql: str) -> str:
    return in_its_scope(f"{queries_of_changes.SHORT_WAIT};\n{sql}")


def _lag(changes: int | None, seconds: int | None, most: int) -> Lag | DStreamError:
    if changes is None:
        return TransientError("counting changes: another session holds the change table")
    waited = 0.0 if not changes else max(0.0, float(seconds or 0))
    return Lag(Count(min(changes, most), changes > most), waited)


def _move(row: Sequence[object]) -> Move:
    key, at, login, host = row[:4]
    begun, to = stored_position(*row[4:8]), stored_position(*row[8:12])  # type: ignore[arg-type]
    assert to is not None
    return Move(
        table=str(key),
        at=f"{at}Z",
        login=str(login),
        host=None if host is None else str(host),
        begun=None if begun is None else in_words(begun),
        to=in_words(to),
        reason=None if row[12] is None else str(row[12]),
    )
