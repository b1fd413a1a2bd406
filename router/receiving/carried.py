"""What the slots of a process know of messages, sessions and topics, and what an edit of the configuration must not make them forget.

Otherwise each edit would give poison fresh attempts, read sessions again that were just read, and send again what an output has. Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from router.publishing.refusals import Refusals
from router.publishing.refusals import Told as Refused
from router.receiving.fan_out import progress
from router.receiving.fan_out.progress import Remembered, Rereads
from router.receiving.troubled import Failing, Troubled


@dataclass(frozen=True, slots=True)
class Knowledge:
    """For another process of the same machine, pickled."""

    refusals: Refused
    rereads: progress.Readings
    remembered: progress.Given
    troubled: Failing


@dataclass(frozen=True, slots=True)
class Carried:
    """The slots of each configuration of a process share one."""

    refusals: Refusals = field(default_factory=Refusals)
    rereads: Rereads = field(default_factory=Rereads)
    remembered: Remembered = field(default_factory=Remembered)
    troubled: Troubled = field(default_factory=Troubled)

    def told(self) -> Knowledge:
        return Knowledge(self.refusals.told(), self.rereads.told(), self.remembered.told(), self.troubled.told())

    def learn(self, known: Knowledge) -> None:
        """What another process knew at its end."""
        self.refusals.learn(known.refusals)
        self.rereads.learn(known.rereads)
        self.remembered.learn(known.remembered)
        self.troubled.learn(known.troubled)
