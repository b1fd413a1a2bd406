"""The end of a program and of all that it has started: emulators, ingesters, JVMs. They hold its pipes, and would be in the next figures.

For programs that were started in a session of their own, which groups of processes do not leave. Linux only.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def end(session: int) -> None:
    """Kill every process of it. `session`: the id of the process that it was made for."""
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError, PermissionError):
            if os.getsid(number := int(entry.name)) == session:
                os.kill(number, signal.SIGKILL)
