"""Where a change stands in the order of its table: the guard of an upsert compares it, so that an older change never overwrites a newer one."""

from __future__ import annotations

from typing import NamedTuple

from router.envelopes.native import Native


class Position(NamedTuple):
    """Compares as docs/messages.md says: commit, statement, change, operation.

    A row that a snapshot read is lower than any change of the commit that it names. So it never replaces a change that it may not
    hold: what was committed after its position comes after it, and what it shows of that comes as a change as well.
    """

    lsn: str
    command_id: int
    seqval: str
    operation_id: int

    @classmethod
    def of(cls, native: Native) -> Position:
        return cls(native.lsn, native.command_id, native.seqval, native.operation_id)

    @property
    def text(self) -> str:
        """52 characters of ASCII that compare as positions do."""
        return f"{self.lsn}-{self.command_id:08x}-{self.seqval}-{self.operation_id:x}"
