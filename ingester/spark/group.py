"""A group of processes that ends with this one, however this one ends: it is led by a shell that waits for that.

Spark's JVM ends with its standard input, but only once it has told where it listens. One that cannot tell (its folder is gone, the disk is
full), or hangs before, never reads it, and a thread of its own keeps it alive for ever. The kernel's signal for the death of a parent
(PR_SET_PDEATHSIG) would come with the end of the thread that has started the JVM, not to what Spark's scripts start, and on Linux alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

_GRACE = "5"
"""Seconds that the others have after the end of this process: a JVM that sees it takes its leave of Spark's cluster, and removes its files."""
_SCRIPT = 'trap "" HUP INT TERM; read -r nothing; sleep "$1"; kill -9 0'
"""It waits for the end of its standard input, whose other end is this process's. A terminal's or a service manager's signals are no end of it."""
_SHELL = "/bin/sh"
_PROGRAM = """\
import os, signal, sys, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.buffer.read()
time.sleep(float(sys.argv[1]))
os.kill(0, signal.SIGKILL)
"""
"""The same where there is no shell, as in some images; it takes 8 MB more."""
_KILLED_SECONDS = 5.0
"""For a killed process to end. One that waits for a dead disk does not, and nobody can help that."""


class Group:
    """Begins with its leader alone. Raises OSError. Thread-safe."""

    def __init__(self) -> None:
        self._leader = Popen(
            [_SHELL, "-c", _SCRIPT, "ends-spark", _GRACE]
            if os.access(_SHELL, os.X_OK)
            else [sys.executable, "-S", "-E", "-c", _PROGRAM, _GRACE],
            stdin=PIPE,
            stdout=DEVNULL,  # whoever reads what this process prints waits for its end alone
            stderr=DEVNULL,
            process_group=0,
            env={"PATH": os.environ.get("PATH", os.defpath)},  # the rest has secrets
        )
        self._guard = threading.Lock()
        self._over = False

    @property
    def number(self) -> int:
        """One that is started into it while this process ends is killed as well: until it runs, it holds the other end of the leader's input."""
        return self._leader.pid

    def kill(self) -> None:
        """Kill all that is in it. A second call does nothing."""
        with self._guard:
            if self._over:  # the number may belong to another group
                return
            with suppress(ProcessLookupError):
                os.killpg(self._leader.pid, signal.SIGKILL)
            self._over = True
            ended(self._leader)
        assert self._leader.stdin is not None
        self._leader.stdin.close()


def ended(killed: Popen[bytes]) -> None:
    """Wait for its end, not for ever."""
    with suppress(TimeoutExpired):
        killed.wait(_KILLED_SECONDS)
