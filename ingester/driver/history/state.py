"""What the driver keeps of a table's snapshot between two looks at it. Values; they decide nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.clock import SteadyTime
from ingester.driver.history.pace import Pace
from ingester.driver.history.preparing import Prepared
from ingester.driver.history.rounds import RoundOver
from ingester.history.snapshot import Chunk, Snapshot
from ingester.slices import SliceResult

NEVER = SteadyTime(float("-inf"))


@dataclass(slots=True)
class RoundOut:
    """A round whose chunks are out. `ends_at`: when to end it before they are back; None: not."""

    snapshot: Snapshot
    epoch: int
    chunks: list[Chunk]
    begun: SteadyTime
    results: list[SliceResult] = field(default_factory=list)
    ends_at: SteadyTime | None = None


@dataclass(slots=True)
class Unrecorded:
    """A round that is over and must be recorded before anything else happens with its table."""

    snapshot: Snapshot
    epoch: int
    over: RoundOver


@dataclass(slots=True)
class Known:
    """What is known of a table under one ownership. `snapshot`: the one to go on with. `fenced`: the stream stands until then."""

    epoch: int
    pace: Pace
    snapshot: Snapshot | None = None
    fenced: SteadyTime = NEVER
    owes_until: SteadyTime = NEVER
    """Until then the stream waits for a chunk to be sent again that may still be on its way."""
    streams: bool = True
    """Whether the stream comes first."""
    round: RoundOut | None = None
    unrecorded: Unrecorded | None = None
    row_bytes: float | None = None
    prepared: Prepared | None = None
    """What the next round begins with."""
    plain: bool = False
    """Whether the next round has one chunk, because it failed to find where several end."""
    deaths: int = 0
    """How many workers in a row died that had a chunk of it."""
    hurried: bool = False
    """Whether it was made due, and no pass has looked at it since: to hurry it again would only delay it."""
    announced: str | None = None
    """The snapshot whose beginning was logged."""

    @property
    def at_rest(self) -> bool:
        """Whether there is nothing to do and nothing to wait for, as with almost every table at almost every moment."""
        return self.snapshot is None and self.round is None and self.unrecorded is None and self.fenced == NEVER
