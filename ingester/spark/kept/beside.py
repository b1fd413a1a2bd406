"""Has the archive of classes made beside a running ingester, in a process of the lowest priority, once (training.py is that process).

Makes nothing where an archive is there already or memory is scarce, and ends the process with the ingester. No failure of it concerns anybody.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import structlog

from ingester.spark.kept import archive

log = structlog.get_logger("spark")

_AFTER_SECONDS = 30.0
"""How long an ingester runs before it makes an archive beside it: one that is only tried out, or ends at once, makes none."""
_PATIENCE = 600.0
"""For all of it, at the lowest priority."""
BESIDE = "--beside"
"""The argument of a process that ends with its standard input."""
_ROOM = 1 << 30
"""Bytes of memory that must be free: a second JVM must not be what ends the first."""


def beside(kind: str | None, closing: threading.Event) -> None:
    """Make the archive `kind` beside this process, if there is none, and once this process has run for a while. Ends with `closing`."""
    if kind is None or not archive.folders(os.environ) or archive.found(kind, os.environ) is not None:
        return
    threading.Thread(target=_make_beside, args=(closing,), name="spark-archive", daemon=True).start()


def _make_beside(closing: threading.Event) -> None:
    if closing.wait(_AFTER_SECONDS) or _free() < _ROOM:
        return
    with suppress(OSError):
        process = subprocess.Popen(
            ["nice", "-n", "19", sys.executable, "-m", "ingester.spark.training", BESIDE],
            stdin=subprocess.PIPE,  # it ends with this process, however that ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        with process:
            waited = 0.0
            while process.poll() is None and waited < _PATIENCE and not closing.wait(1.0):
                waited += 1.0
            assert process.stdin is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            if process.poll() is None:
                process.kill()
        log.debug("an archive of classes was made for the next start", status=process.returncode)


def _free() -> int:
    """Bytes of memory that this machine, and the group that limits this process, still have; many where that is unknown."""
    rest = [sys.maxsize]
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                rest.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        rest.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(rest)
