"""Offsets in the source database, table dbo.cdc_offsets: they fail over with it, and no second store is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from common.errors import ConnectionLost, DStreamError, LeaseLost, PermanentError
from common.names import TableName
from ingester.locks import this_owner
from ingester.offsets import Claim, Claimed, Move
from ingester.position import Position
from ingester.sqlserver.connection import Connection, is_error, needing
from ingester.sqlserver.hints import OFFSETS_UNSEEN, SEE_OFFSETS, UPGRADE_OFFSETS, USE_OFFSETS
from ingester.sqlserver.literals import in_its_scope
from ingester.sqlserver.position import LogPosition, Lsn, in_the_log
from ingester.sqlserver.sql import offsets as queries
from ingester.sqlserver.sql.changes import SHORT_WAIT, Parameters

_TABLE_THERE, _COLUMN_THERE, _ROW_THERE = 2714, 2705, 2627
"""Errors that the slower of two ingesters gets when they start together."""

_ANY_EPOCH = 2**63 - 1

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")


class SqlServerOffsets:
    """Reads both shapes of older installations (without and with `last_seq`) and adds the missing columns.

    `destination`: where the changes are sent, as `destination.py` spells it; None where nothing is claimed.
    """

    def __init__(self, connection: Connection, destination: str | None = None) -> None:
        self._connection = connection
        self._destination = destination
        self._owner: str | None = None
        """This process, for the column that names the owner; None where there is none, or before `ensure`."""

    def ensure(self) -> None:
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            with needing(f"{OFFSETS_UNSEEN}: {SEE_OFFSETS}"):
                self._execute_unless(_TABLE_THERE, queries.CREATE)
        for column in queries.COLUMNS:
            with needing(UPGRADE_OFFSETS):
                self._execute_unless(_COLUMN_THERE, queries.add_column(column))
        self._owner = this_owner() if self._has_owner() else None

    def _has_owner(self) -> bool:
        """Whether owners can be named. Adds the column if this login may, and if nobody holds the table: it is of use to people alone, and
        while a change of the table waits, the commits of other ingesters wait behind it."""
        if not self._connection.rows(queries.OWNER_MISSING)[0][0]:
            return True
        try:
            self._execute_unless(_COLUMN_THERE, in_its_scope(f"{SHORT_WAIT};\n{queries.add_column(queries.OWNER)}"))
        except ConnectionLost:
            raise
        except DStreamError:
            return False
        return True

    def claim(self, table: TableName, epoch: int, source: str | None = None) -> Claimed:
        key, to = table.key, self._destination
        with needing(USE_OFFSETS):
            self._execute_unless(_ROW_THERE, queries.INSERT, (key, epoch, key))
            taken = self._connection.execute(queries.CLAIM, (epoch, to, source, key, epoch, to))
            if taken and self._owner is not None:
                self._connection.execute(queries.NAME_OWNER, (self._owner, key, epoch))
            if taken and (bare_name := _bare_name(table)) is not None:
                self._connection.execute(queries.ADOPT, (bare_name, key, epoch))
            return self._ours(table, epoch)

    def look(self, table: TableName) -> Claimed:
        """The result of `claim`, without claiming: nothing changes, and the owner does not matter. The row must
        exist."""
        return self._ours(table, _ANY_EPOCH)

    def claim_many(self, claims: Sequence[Claim]) -> Sequence[Claimed | DStreamError]:
        def together(some: Sequence[Claim]) -> Iterator[Callable[[], Claimed]]:
            rows = [(one.table.key, _bare_name(one.table), one.epoch, one.source) for one in some]
            for one, row in zip(some, self._stored(queries.claims(rows, self._destination, self._owner)), strict=True):
                yield partial(self._claimed, one.table, one.epoch, row)

        def alone(one: Claim) -> Claimed:
            return self.claim(one.table, one.epoch, one.source)

        return _in_batches(claims, together, alone)

    def move_many(self, moves: Sequence[Move]) -> Sequence[Position | DStreamError]:
        def together(some: Sequence[Move]) -> Iterator[Callable[[], Position]]:
            rows = [
                (one.table.key, one.epoch, parts_of(one.position), None if one.seen is None else parts_of(one.seen))
                for one in some
            ]
            for one, row in zip(some, self._stored(queries.moves(rows)), strict=True):
                yield partial(_stands, one, row)

        def alone(one: Move) -> Position:
            try:
                self.commit(one.table, one.epoch, seen=one.seen, position=one.position)
            except LeaseLost:
                return _stands(one, self._row(one.table))
            return one.position

        for one in moves:
            _refuse_backwards(one.table, one.seen, one.position)
        return _in_batches(moves, together, alone)

    def _stored(self, statement: tuple[str, Parameters]) -> list[_Row | None]:
        """The rows of the last result set of a batch for many tables."""
        return [row[:-1] if row[-1] is not None else None for row in self._connection.result_sets(*statement)[-1]]

    def _ours(self, table: TableName, epoch: int) -> Claimed:
        return self._claimed(table, epoch, self._row(table))

    def _claimed(self, table: TableName, epoch: int, row: _Row | None) -> Claimed:
        position, stored, source = _read(table, epoch, row)
        ours = self._destination
        if ours is not None and stored is not None and stored != ours:
            raise _sent_elsewhere(table.key, stored, ours)
        return Claimed(position, source)

    def _execute_unless(self, there: int, sql: str, parameters: tuple[object, ...] = ()) -> None:
        """Run a statement. Error `there` means that another ingester was first, and there is nothing left to do."""
        try:
            self._connection.execute(sql, parameters)
        except DStreamError as error:
            if not is_error(error, there):
                raise

    def load(self, table: TableName, epoch: int, source: str | None = None) -> Position | None:
        position, _, stored = _read(table, epoch, self._row(table))
        if source is not None and stored is not None and stored != source:
            raise LeaseLost(f"loading the offset of {table.key}: it now counts the changes of another table")
        return position

    def _row(self, table: TableName) -> _Row | None:
        found = self._connection.rows(queries.LOAD, (table.key,))
        return found[0] if found else None

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        _refuse_backwards(table, seen, position)
        parameters = (*parts_of(position), epoch, table.key, epoch)
        if seen is None:
            moved = self._connection.execute(queries.SET_FIRST, parameters)
        else:
            moved = self._connection.execute(queries.MOVE, (*parameters, *parts_of(seen)))
        if moved != 1:
            raise LeaseLost(
                f"committing the offset of {table.key}: a newer owner has claimed the table or moved its offset"
            )

    def go_over(
        self, table: TableName, epoch: int, *, seen: Position | None, left: str, source: str, start: Position
    ) -> Position:
        key, kept = table.key, queries.key_of_former(table.key, left)
        self._execute_unless(_ROW_THERE, queries.INSERT, (kept, 0, kept))
        self._connection.execute(queries.KEEP, (key, kept, left, epoch))
        found = self._connection.rows(queries.KEPT, (queries.key_of_former(key, source),))
        again = stored_position(*found[0]) if found else None
        begin = start if again is None else again
        parameters = (*parts_of(begin), source, epoch, key, epoch, left)
        if seen is None:
            moved = self._connection.execute(queries.GO_OVER_FIRST, parameters)
        else:
            moved = self._connection.execute(queries.GO_OVER, (*parameters, *parts_of(seen)))
        if moved != 1:
            raise LeaseLost(f"going over to another table as {key}: a newer owner has claimed it or moved its offset")
        return begin

    def close(self) -> None:
        self._connection.close()


def _in_batches(
    asked: Sequence[_Asked],
    together: Callable[[Sequence[_Asked]], Iterator[Callable[[], _Found]]],
    alone: Callable[[_Asked], _Found],
) -> list[_Found | DStreamError]:
    """The result of each. A batch that is refused as a whole is repeated one by one, so that one table's error does not
    affect the others.

    Raises ConnectionLost.
    """
    found: list[_Found | DStreamError] = []
    for first in range(0, len(asked), queries.A_STATEMENT):
        some = asked[first : first + queries.A_STATEMENT]
        try:
            outcomes = list(together(some))
        except ConnectionLost:
            raise
        except DStreamError:
            outcomes = [partial(alone, one) for one in some]
        found += [_outcome(outcome) for outcome in outcomes]
    return found


def _outcome(asked: Callable[[], _Found]) -> _Found | DStreamError:
    try:
        return asked()
    except ConnectionLost:
        raise
    except DStreamError as error:
        return error


_Row = tuple[Any, ...]
"""A row of LOAD."""


def _read(table: TableName, epoch: int, row: _Row | None) -> tuple[Position | None, str | None, str | None]:
    """The stored position, destination and identity of the source table. `row`: None if there is none."""
    if row is None:
        raise PermanentError(
            f"loading the offset of {table.key}: its row in dbo.cdc_offsets has been deleted",
            hint="restart the ingester; without the row the table is read from its low watermark again",
        )
    *place, stored_epoch, destination, source = row
    if stored_epoch > epoch:
        raise LeaseLost(
            f"loading the offset of {table.key}: a newer owner (epoch {stored_epoch}) has claimed the table"
        )
    return stored_position(*place), destination, source


def _stands(move: Move, row: _Row | None) -> Position:
    """Where an offset is after an attempt to `move` it."""
    position, _, _ = _read(move.table, move.epoch, row)
    if position is None:
        raise LeaseLost(f"moving the offset of {move.table.key}: somebody has reset it")
    return position


def _refuse_backwards(table: TableName, seen: Position | None, position: Position) -> None:
    if seen is not None and position < seen:
        raise ValueError(f"the offset of {table.key} would move back from {seen} to {position}")


def _bare_name(table: TableName) -> str | None:
    """The original tool's key of the offset, if it had one; with a dot it would be another table's key."""
    return table.table if table.schema.lower() == "dbo" and "." not in table.table else None


def _sent_elsewhere(key: str, stored: str, ours: str) -> PermanentError:
    """Two ingesters with different queues would permanently take changes from each other."""
    return PermanentError(
        f"claiming the offset of {key}: its changes are sent to {stored}, but this ingester sends to {ours}",
        hint="give the ingester a database of its own; if the destination was changed on purpose, run "
        f"{queries.to_send_elsewhere(key, ours)} and start it again",
    )


def stored_position(
    lsn: bytes | None, command_id: int | None, seqval: bytes | None, operation: int | None
) -> Position | None:
    """The parts of a row as a position; None for a first start."""
    if lsn is None or (not any(lsn) and command_id is None):  # all zeros: the original tool's "from the beginning"
        return None
    if command_id is None or seqval is None or operation is None:
        # an older installation's offset does not say where in the transaction it is, so the whole transaction is read again
        return LogPosition.before(Lsn(_padded(lsn)))
    return LogPosition(Lsn(_padded(lsn)), command_id, bytes(seqval), operation)


def parts_of(position: Position) -> tuple[object, ...]:
    parts = in_the_log(position)
    return parts.lsn.value, parts.command_id, parts.seqval, parts.operation


def _padded(value: bytes) -> bytes:
    """VARBINARY(10) keeps trailing zeros; a shorter value is an older tool's literal such as 0x00."""
    return bytes(value).ljust(10, b"\0")
