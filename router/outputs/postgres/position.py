"""Positions of messages, as they are stored beside rows: 25 bytes that compare as the order of a table's changes. Pure.

A change has its place: LSN, command, place in the log, operation. A row that a snapshot read holds everything up to its LSN, so it stands behind
all changes of that LSN; every change that it may lack has a higher one. What is swept after a gap stands before all changes of the gap's end.
"""

from __future__ import annotations

from typing import Final

DIGITS: Final = 50
_MOST_COMMANDS: Final = 0xFFFFFFFF
_BEHIND_LSN: Final = DIGITS - 20

Position = str
"""In hexadecimal digits, lower case, all of one length."""


def of_change(lsn: str, command_id: int, seqval: str, operation_id: int) -> Position:
    """Raises ValueError for numbers that no server has."""
    if not 0 <= command_id <= _MOST_COMMANDS or not 0 <= operation_id <= 0xFF:
        raise ValueError("metadata.CommandID or metadata.OperationID is out of range")
    return f"{lsn}{command_id:08x}{seqval}{operation_id:02x}"


def of_read(lsn: str) -> Position:
    return lsn + "f" * _BEHIND_LSN


def before(lsn: str) -> Position:
    """Before all changes of `lsn`."""
    return lsn + "0" * _BEHIND_LSN
