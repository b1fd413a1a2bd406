"""The place of a change table's row in the log, and its update mask: one value of the driver, laid out here. Pure.

The driver takes as long for each value of a row, however short, and the four parts of a position are never missing. So the server joins their
bytes: LSN, command id, seqval, operation, the columns of a fixed length that are read (joined.py), and the update mask, whose length depends
on the table, behind all of them. Numbers have their highest byte first. Refuses a row without a
position: one NULL makes all of it NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, error
from typing import Any, Final

from common.errors import PermanentError
from ingester.sqlserver.hints import READ_SOURCE
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.values import another_layout

_PARTS: Final = Struct(">10si10sI")
_LAST_OPERATION: Final = 5
"""Of __$operation; an after image of a merge, which only net changes have."""
BEGINS_WITH: Final = _PARTS.size
"""Bytes of the position; behind them are the columns beside it, if there are any, and the update mask."""


def positions(rows: Iterable[Sequence[Any]]) -> list[LogPosition]:
    """Of rows that begin with their place.

    Raises PermanentError if the server leaves out a part of one: such a row has no place in the order, and is never
    skipped. So it does for a server whose numbers have another order of bytes, which each operation shows.
    """
    found: list[LogPosition] = []
    known: bytes | None = None
    lsn: Lsn | None = None
    parts = _PARTS.unpack_from
    for row in rows:
        if row[0] is None:
            raise _unknown()
        try:
            start_lsn, command_id, seqval, operation = parts(row[0])
        except error:
            raise another_layout("position in the log") from None
        if operation > _LAST_OPERATION:
            raise another_layout("position in the log")
        if lsn is None or start_lsn != known:
            known, lsn = start_lsn, Lsn(start_lsn)
        found.append(LogPosition(lsn, command_id, seqval, operation))
    return found


def position_of(start_lsn: Any, command_id: Any, seqval: Any, operation: Any) -> LogPosition:
    """Of values that were read apart from each other. Raises PermanentError if one is missing."""
    if start_lsn is None or command_id is None or seqval is None or operation is None:
        raise _unknown()
    return LogPosition(Lsn(bytes(start_lsn)), command_id, seqval, operation)


def operation_of(place: bytes) -> int:
    return place[BEGINS_WITH - 1]


def mask_of(place: bytes, beside: int = 0) -> bytes:
    """`beside`: how many bytes of columns are in front of it."""
    return place[BEGINS_WITH + beside :]


def _unknown() -> PermanentError:
    return PermanentError(
        "reading a change table: the server returns rows without their position in the log",
        hint=READ_SOURCE,
    )
