"""Port: whether a newer change of the same row has been sent. For someone who is about to send an old change again. Answers are values; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ChangeRef:
    """A change as its message names it (`metadata`). `schema` and `table`: of the source table; LSNs are hexadecimal, with or without 0x."""

    schema: str
    table: str
    lsn: str
    seqval: str
    operation_id: int
    capture_instance: str | None = None
    command_id: int | None = None
    """None where it is not known: then each change that has the other parts of the position is meant."""

    @property
    def source(self) -> str:
        return f"{self.schema}.{self.table}"


class Sent(StrEnum):
    """Whether a newer change of the row was sent, or may have been."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Newer:
    """`lsn`: of the newest of them that is known. `why`: in words, without a value of the row; of UNKNOWN always given.

    `changes`: of YES, all newer ones that were sent, or None where there are too many to name: someone who sends all of them again, in their order,
    may send the older one before them.
    """

    sent: Sent
    lsn: str | None = None
    why: str | None = None
    changes: tuple[ChangeRef, ...] | None = None


class NewerChanges(Protocol):
    """Asks the change tables and the stored offsets. Not thread-safe."""

    def newer_sent(self, changes: Sequence[ChangeRef]) -> Mapping[ChangeRef, Newer]:
        """An answer for each. A change that is gone from its change table (cleanup), without a key, or whose table is unknown is UNKNOWN: only a
        server that cannot be asked at all raises TransientError or PermanentError."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...
