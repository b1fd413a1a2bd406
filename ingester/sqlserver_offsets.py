"""Offsets in the source database, table dbo.cdc_offsets: they fail over with it, and no second store has to be kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import DStreamError, LeaseLost, PermanentError
from common.names import TableName
from ingester import queries_of_offsets as queries
from ingester.lsn import Lsn, Position
from ingester.offsets import Claimed
from ingester.sqlserver_connection import Connection, is_error, lacks_rights

_TABLE_THERE, _COLUMN_THERE, _ROW_THERE = 2714, 2705, 2627
"""What the slower of two ingesters meets that start together."""

_TO_MAKE = "make dbo.cdc_offsets beforehand (docs/operations.md), or GRANT CREATE TABLE, and ALTER ON SCHEMA::dbo, to the login's user"
_TO_UPGRADE = (
    "GRANT ALTER ON OBJECT::dbo.cdc_offsets to the login's user: the table of an older installation lacks columns"
)
_TO_USE = "GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets to the login's user"


_ANY_EPOCH = 2**63 - 1


class SqlServerOffsets:
    """Reads both shapes that older installations have (without and with `last_seq`) and adds what they lack.

    `destination`: where the changes are sent, as `destination.py` spells it; None for whoever claims nothing.
    """

    def __init__(self, connection: Connection, destination: str | None = None) -> None:
        self._connection = connection
        self._destination = destination

    def ensure(self) -> None:
        if self._connection.rows(queries.TABLE_MISSING)[0][0]:
            with _needing(_TO_MAKE):
                self._execute_unless(_TABLE_THERE, queries.CREATE)
        for column in queries.COLUMNS:
            with _needing(_TO_UPGRADE):
                self._execute_unless(_COLUMN_THERE, queries.add_column(column))

    def claim(self, table: TableName, epoch: int, source: str | None = None) -> Claimed:
        key, to = table.key, self._destination
        with _needing(_TO_USE):
            self._execute_unless(_ROW_THERE, queries.INSERT, (key, epoch, key))
            taken = self._connection.execute(queries.CLAIM, (epoch, to, source, key, epoch, to))
            if taken and table.schema.lower() == "dbo" and "." not in table.table:  # a dot: another table's key
                self._connection.execute(queries.ADOPT, (table.table, key, epoch))
            return self._ours(table, epoch)

    def look(self, table: TableName) -> Claimed:
        """What `claim` would return, whoever owns the table, with nothing changed; the row must be there."""
        return self._ours(table, _ANY_EPOCH)

    def _ours(self, table: TableName, epoch: int) -> Claimed:
        position, stored, source = self._load(table, epoch)
        ours = self._destination
        if ours is not None and stored is not None and stored != ours:
            raise _sent_elsewhere(table.key, stored, ours)
        return Claimed(position, source)

    def _execute_unless(self, there: int, sql: str, parameters: tuple[object, ...] = ()) -> None:
        """Run a statement that has nothing to do if another ingester was first, which error `there` says."""
        try:
            self._connection.execute(sql, parameters)
        except DStreamError as error:
            if not is_error(error, there):
                raise

    def load(self, table: TableName, epoch: int) -> Position | None:
        return self._load(table, epoch)[0]

    def _load(self, table: TableName, epoch: int) -> tuple[Position | None, str | None, str | None]:
        """The position, the destination and the source table's identity as they are stored."""
        found = self._connection.rows(queries.LOAD, (table.key,))
        if not found:
            raise PermanentError(
                f"loading the offset of {table.key}: its row is gone from dbo.cdc_offsets",
                hint="restart the ingester; without the row the table is read from its low watermark again",
            )
        *place, stored_epoch, destination, source = found[0]
        if stored_epoch > epoch:
            raise LeaseLost(
                f"loading the offset of {table.key}: a newer owner (epoch {stored_epoch}) has taken the table"
            )
        return _stored_position(*place), destination, source

    def commit(self, table: TableName, epoch: int, *, seen: Position | None, position: Position) -> None:
        if seen is not None and position < seen:
            raise ValueError(f"the offset of {table.key} would move back from {seen} to {position}")
        parameters = (*_parts(position), epoch, table.key, epoch)
        if seen is None:
            moved = self._connection.execute(queries.SET_FIRST, parameters)
        else:
            moved = self._connection.execute(queries.MOVE, (*parameters, *_parts(seen)))
        if moved != 1:
            raise LeaseLost(
                f"committing the offset of {table.key}: a newer owner has taken the table or moved its offset"
            )

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _needing(grant: str) -> Iterator[None]:
    """Names the right that a statement was refused for want of."""
    try:
        yield
    except PermanentError as error:
        if lacks_rights(error):
            raise PermanentError(error.message, hint=grant) from error.__cause__
        raise


def _sent_elsewhere(key: str, stored: str, ours: str) -> PermanentError:
    """Two ingesters with queues of their own would each take changes from the other for good."""
    return PermanentError(
        f"claiming the offset of {key}: its changes are sent to {stored}, and this ingester sends to {ours}",
        hint="point the ingester at a database of its own; where the destination was moved on purpose, say so with "
        f"{queries.to_send_elsewhere(key, ours)} and start it again",
    )


def _stored_position(
    lsn: bytes | None, command_id: int | None, seqval: bytes | None, operation: int | None
) -> Position | None:
    """The parts of a row as a position; None for a first start."""
    if lsn is None or (not any(lsn) and command_id is None):  # all zeros: the original tool's "from the beginning"
        return None
    if command_id is None or seqval is None or operation is None:
        # an older installation's offset: it cannot say where in the transaction it stood, so all of it is read again
        return Position.before(Lsn(_padded(lsn)))
    return Position(Lsn(_padded(lsn)), command_id, bytes(seqval), operation)


def _parts(position: Position) -> tuple[object, ...]:
    return position.lsn.value, position.command_id, position.seqval, position.operation


def _padded(value: bytes) -> bytes:
    """VARBINARY(10) may have lost nothing at its end on the way in; a shorter one is an older tool's literal such as 0x00."""
    return bytes(value).ljust(10, b"\0")
