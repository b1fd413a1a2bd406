"""Both stages on one machine, each in its own process. Restarts neither: that is the work of whoever started this process.

With one exception: in the first minute a stage that ends by a passing trouble (a name that does not resolve while a machine boots) is
started again, since nobody would be served better by ending both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog

from common.retry import Backoff
from dstream.signals import PARENT, lifeline

POLL = 0.1  # seconds between two looks at the children

TELLS_PASSING = "DSTREAM_TELLS_PASSING"
"""Set in the environment of a stage that is to end with the status `PASSING` where time may heal what ended it, and not with 1."""
PASSING = 75
"""EX_TEMPFAIL of sysexits.h: a failure that is not really an error, and the user is invited to try again."""

PATIENCE = 60.0
"""Seconds from the start in which passing troubles are tried again."""

AGAIN = Backoff(first=1.0, longest=10.0)

log = structlog.get_logger(__name__)


def stage_commands(arguments: Sequence[str]) -> dict[str, list[str]]:
    """The command of each stage, with the same arguments as this one."""
    return {stage: [sys.executable, "-m", "dstream", stage, *arguments] for stage in ("ingester", "router")}


class Server:
    """Runs named commands until told to stop, or until one of them ends; then all are asked to drain."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        *,
        grace: float = 30.0,
        patience: float = PATIENCE,
        again: Backoff = AGAIN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`grace`: seconds from asking the children to stop until they are killed; a stage promises to need 20.

        `patience`: seconds from the start in which a child that ends with `PASSING` is started again, after pauses as `again` says.
        """
        self._commands = commands
        self._grace = grace
        self._patience = patience
        self._again = again
        self._clock = clock
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._failures = Counter[str]()
        self._due: dict[str, float] = {}
        """When those that are to be started again are."""

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

    def _start(self, name: str) -> None:
        # In a group of its own: a terminal's Ctrl-C reaches this process alone and is passed on once.
        self._children[name] = subprocess.Popen(
            self._commands[name],
            process_group=0,
            stdin=lifeline(),
            env={**os.environ, PARENT: "1", TELLS_PASSING: "1"},
        )

    def kill(self) -> None:
        """End what still runs, at once. Waits for nothing: a signal's handler calls it, and what it interrupted may be a wait for the same child."""
        for child in self._children.values():
            child.kill()

    def _watch(self, stop: threading.Event, *, impatient: float) -> int:
        while not stop.wait(POLL):
            for name in [name for name, at in self._due.items() if at <= self._clock()]:
                del self._due[name]
                self._start(name)
            ended = {name: child.poll() for name, child in self._children.items() if child.poll() is not None}
            for name in [name for name, status in ended.items() if status == PASSING and self._clock() < impatient]:
                del ended[name]
                self._start_later(name)
            if ended:
                for name, status in ended.items():
                    log.error("stage ended by itself; stopping the other", stage=name, status=status)
                self._drain()
                return 1
        self._drain()
        failed = {name: child.returncode for name, child in self._children.items() if child.returncode != 0}
        for name, status in failed.items():
            log.error("stage did not stop cleanly", stage=name, status=status)
        return 1 if failed else 0

    def _start_later(self, name: str) -> None:
        del self._children[name]
        self._failures[name] += 1
        pause = self._again.delay(self._failures[name])
        self._due[name] = self._clock() + pause
        log.warning("stage could not start; starting it again", stage=name, seconds=round(pause, 1))

    def _drain(self) -> None:
        """Ask the children to stop and wait; what takes longer than the grace is killed and so counts as failed."""
        for child in self._children.values():
            if child.poll() is None:
                child.terminate()
        deadline = time.monotonic() + self._grace
        for child in self._children.values():
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
