"""Both stages on one machine, each in its own process. Restarts neither: that is the work of whoever started this process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import structlog

from dstream.signals import PARENT

POLL = 0.1  # seconds between two looks at the children

log = structlog.get_logger(__name__)


def stage_commands(arguments: Sequence[str]) -> dict[str, list[str]]:
    """The command of each stage, with the same arguments as this one."""
    return {stage: [sys.executable, "-m", "dstream", stage, *arguments] for stage in ("ingester", "router")}


class Server:
    """Runs named commands until told to stop, or until one of them ends; then all are asked to drain."""

    def __init__(self, commands: Mapping[str, Sequence[str]], *, grace: float = 30.0) -> None:
        """`grace`: seconds from asking the children to stop until they are killed; a stage promises to need 20."""
        self._commands = commands
        self._grace = grace
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, stop: threading.Event) -> int:
        """0 when all stopped cleanly because `stop` was set, else 1."""
        try:
            for name, command in self._commands.items():
                # In a group of its own: a terminal's Ctrl-C reaches this process alone and is passed on once. Nothing is written
                # to the pipe: it closes when this process is killed, and then a stage stops as well.
                self._children[name] = subprocess.Popen(
                    command, process_group=0, stdin=subprocess.PIPE, env={**os.environ, PARENT: "1"}
                )
            return self._watch(stop)
        finally:
            self.kill()
            for child in self._children.values():
                child.wait()
                if child.stdin is not None:
                    child.stdin.close()

    def kill(self) -> None:
        """End what still runs, at once. Waits for nothing: a signal's handler calls it, and what it interrupted may be a wait for the same child."""
        for child in self._children.values():
            child.kill()

    def _watch(self, stop: threading.Event) -> int:
        while not stop.wait(POLL):
            if ended := {name: child.poll() for name, child in self._children.items() if child.poll() is not None}:
                for name, status in ended.items():
                    log.error("stage ended by itself; stopping the other", stage=name, status=status)
                self._drain()
                return 1
        self._drain()
        failed = {name: child.returncode for name, child in self._children.items() if child.returncode != 0}
        for name, status in failed.items():
            log.error("stage did not stop cleanly", stage=name, status=status)
        return 1 if failed else 0

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
