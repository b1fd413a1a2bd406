"""Where a change stands in the order of its table: the guard of an upsert compares it, so that an older change never overwrites a newer one."""

from __future__ import annotations

from typing import Final, NamedTuple

from router.envelopes.native import Native

_MOST_COMMANDS: Final = 0xFFFFFFFF
_BEHIND: Final = 0xF
"""In the place of an operation, behind all that there are."""


class Position(NamedTuple):
    """Compares as docs/messages.md says: commit, statement, change, operation.

    A row that a snapshot read is higher than any change of the commit that it names: it was read after that commit, so it holds all of it. What
    it may lack was committed later and comes as a change.
    """

    lsn: str
    command_id: int
    seqval: str
    operation_id: int

    @classmethod
    def of(cls, native: Native) -> Position:
        """Raises ValueError for numbers that no server has."""
        if native.operation == "Read":
            return cls(native.lsn, _MOST_COMMANDS, "f" * 20, _BEHIND)
        if not 0 <= native.command_id <= _MOST_COMMANDS or not 0 <= native.operation_id < _BEHIND:
            raise ValueError("metadata.CommandID or metadata.OperationID is out of range")
        return cls(native.lsn, native.command_id, native.seqval, native.operation_id)

    @property
    def of_read(self) -> bool:
        """Whether it is that of a row that a snapshot read. Two snapshots may have read the row at one position, and either may be the later."""
        return self.operation_id == _BEHIND

    @property
    def text(self) -> str:
        """52 characters of ASCII that compare as positions do."""
        return f"{self.lsn}-{self.command_id:08x}-{self.seqval}-{self.operation_id:x}"
