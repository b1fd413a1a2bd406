"""Both stages on one machine, each in its own process. Neither is restarted: that is the job of whatever started this process.

One exception: in the first minute a stage that ends because of a passing trouble (a name that does not resolve while the machine
boots) is started again. Ending both would help nobody.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog

from common.retry import Backoff
from dstream.children import Process, stage_command, start_stage, stop_all

POLL = 0.1
"""Seconds between two checks of the children."""

GRACE = 30.0
"""Seconds from asking the stages to stop until they are killed; a stage promises to need 20."""

TELLS_PASSING = "DSTREAM_TELLS_PASSING"
"""Set in the environment of a stage that must end with `PASSING`, not 1, where waiting may cure what ended it."""
PASSING = 75
"""EX_TEMPFAIL of sysexits.h: a temporary failure; try again later."""

PATIENCE = 60.0
"""Seconds from the start during which a stage that ends with `PASSING` is started again."""

AGAIN = Backoff(first=1.0, longest=10.0)

log = structlog.get_logger(__name__)


def stage_commands(arguments: Sequence[str]) -> dict[str, list[str]]:
    """The command of each stage, all with these arguments."""
    return {stage: stage_command(stage, arguments) for stage in ("ingester", "router")}


class Server:
    """Runs the commands until asked to stop, or until one of them ends; then it stops the others."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        *,
        grace: float = GRACE,
        patience: float = PATIENCE,
        again: Backoff = AGAIN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`commands`: by name of the stage. `again`: the pauses before a stage is started again."""
        self._commands = commands
        self._grace = grace
        self._patience = patience
        self._again = again
        self._clock = clock
        self._children: dict[str, Process] = {}
        self._failures = Counter[str]()
        self._due: dict[str, float] = {}
        """When a stage that ended is started again."""

    def run(self, stop: threading.Event) -> int:
        """0 when all stopped cleanly because `stop` was set, else 1."""
        try:
            for name in self._commands:
                self._start(name)
            return self._watch(stop, impatient=self._clock() + self._patience)
        finally:
            self.kill()
            for child in self._children.values():
                child.wait()

    def kill(self) -> None:
        """Kill what still runs. Does not wait: a signal handler calls this, and may have interrupted a wait for the same child."""
        for child in self._children.values():
            child.kill()

    def _start(self, name: str) -> None:
        self._children[name] = start_stage(self._commands[name], {TELLS_PASSING: "1"})

    def _watch(self, stop: threading.Event, *, impatient: float) -> int:
        while not stop.wait(POLL):
            self._start_due()
            ended = self._ended(patient=self._clock() < impatient)
            if ended:
                for name, status in ended.items():
                    log.error("stage ended by itself; stopping the other", stage=name, status=status)
                stop_all(self._children.values(), self._grace)
                return 1
        stop_all(self._children.values(), self._grace)
        failed = {name: child.returncode for name, child in self._children.items() if child.returncode != 0}
        for name, status in failed.items():
            log.error("stage did not stop cleanly", stage=name, status=status)
        return 1 if failed else 0

    def _start_due(self) -> None:
        for name in [name for name, at in self._due.items() if at <= self._clock()]:
            del self._due[name]
            self._start(name)

    def _ended(self, *, patient: bool) -> dict[str, int]:
        """The status of each stage that ended by itself. While `patient`, without those that are to be started again."""
        ended = {name: status for name, child in self._children.items() if (status := child.poll()) is not None}
        passing = [name for name, status in ended.items() if patient and status == PASSING]
        for name in passing:
            del ended[name]
            self._start_later(name)
        return ended

    def _start_later(self, name: str) -> None:
        del self._children[name]
        self._failures[name] += 1
        pause = self._again.delay(self._failures[name])
        self._due[name] = self._clock() + pause
        log.warning("stage could not start; starting it again", stage=name, seconds=round(pause, 1))
