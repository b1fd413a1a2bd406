"""Processes that this one starts and stops: the stages of `dstream server`, the services of the demo, the emulators. Restarts nothing.

Each has a process group of its own, so that a terminal's Ctrl-C reaches this process alone, which passes it on once. A stage ends with this
process, however that ends: see `lifeline`. The router starts its workers itself (router/supervisor.py): they are asked to stop over a pipe that also
carries their settings, and report over another.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from dstream.signals import PARENT

Process = subprocess.Popen[bytes]


def stage_command(stage: str, arguments: Sequence[str]) -> list[str]:
    """`dstream STAGE ARGUMENTS`, on this Python."""
    return [sys.executable, "-m", "dstream", stage, *arguments]


def start_stage(command: Sequence[str], variables: Mapping[str, str], *, output: int | None = None) -> Process:
    """A stage, or a stand-in for one, with these variables besides this process's own. `output`: a descriptor for all that it prints."""
    return start(
        command,
        stdin=lifeline(),
        stdout=output,
        stderr=output,
        environment={**os.environ, **variables, PARENT: "1"},
    )


def start(
    command: Sequence[str],
    *,
    stdin: int,
    stdout: int | None,
    stderr: int | None,
    environment: Mapping[str, str] | None = None,
) -> Process:
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, process_group=0)


def stop_all(children: Iterable[Process], within: float, *, how: signal.Signals = signal.SIGTERM) -> None:
    """Ask all of them to stop, and wait. Those that still run after `within` seconds are killed."""
    running = [child for child in children if child.poll() is None]
    for child in running:
        child.send_signal(how)
    deadline = time.monotonic() + within
    for child in running:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@cache
def lifeline() -> int:
    """A standard input for stages, on which nothing ever comes. It ends when this process does, and then a stage stops; see `PARENT`."""
    reading, _ = os.pipe()  # the other end is kept open, and no child inherits it
    return reading
