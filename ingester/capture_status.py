"""Port: what the source reports of its own capture: when changes were committed, why none come, how long they are kept.

Ages are in seconds and are the server's: both ends of a difference come from its clock. Where a server keeps local
times they are off by an hour while summer time begins or ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

LAG_SECONDS = 60.0
"""From commit to capture: shorter delays are not lag."""


@dataclass(frozen=True, slots=True)
class OffsetTimes:
    """About a stored offset. `age`: from its transaction's commit to the newest captured one's, which is what cleanup
    counts by.

    `waiting`: since the commit of the first captured transaction after it, of whatever table; None if there is none.
    """

    age: float
    waiting: float | None


@dataclass(frozen=True, slots=True)
class LogTimes:
    """`newest`: since the commit of the newest captured transaction; None before the first. `offsets`: by
    `TableName.key`."""

    newest: float | None
    offsets: Mapping[str, OffsetTimes]


@dataclass(frozen=True, slots=True)
class Retention:
    """How long changes are kept. `seconds`: None where nothing is removed, or where this login may not see it; then
    `unseen` is the hint.

    `longer`: how it is lengthened.
    """

    seconds: float | None
    longer: str
    unseen: str | None = None


class Silence(Enum):
    """FLOWING: there is no silence. The next three are the ones to tell apart."""

    FLOWING = "flowing"
    IDLE = "idle"
    STOPPED = "capture_stopped"
    LAGGING = "capture_lagging"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CaptureError:
    """An error that capture met lately."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why nothing comes. `text`: with the numbers. `hint`: what a person can do; None when there is nothing to do."""

    state: Silence
    text: str
    hint: str | None = None
    errors: tuple[CaptureError, ...] = ()


class CaptureView(Protocol):
    """Not thread-safe. Every method asks one question or two, and raises TransientError or PermanentError."""

    def times(self) -> LogTimes:
        """Those of every stored offset, whichever ingester owns its table."""
        ...

    def retention(self) -> Retention: ...

    def silence(self, newest: float | None) -> Explanation:
        """Why no changes arrive, or why they come late. `newest`: as in `LogTimes`."""
        ...

    def close(self) -> None: ...


class Scanned(Enum):
    """What became of a scan. BUSY: the source captures already, by itself or for somebody else."""

    CAPTURED = "captured"
    EMPTY = "empty"
    BUSY = "busy"


class LogScan(Protocol):
    """Has the source capture what is committed. Not thread-safe."""

    def scan(self) -> Scanned:
        """Returns once what was committed before the call is captured, unless another scan is under way or there is more than one scan takes.

        Raises TransientError, and PermanentError when this login may not, or this database cannot.
        """
        ...

    def close(self) -> None: ...
