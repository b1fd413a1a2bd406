"""Has the archive of classes made beside a running ingester, in a process of the lowest priority, once (training.py is that process).

Makes nothing where an archive serves already, where others could exchange it, where memory is scarce, or after a few attempts that came to
nothing. Ends the process and all that it has started with the ingester. No failure of it concerns anybody.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import structlog

from ingester.spark.kept import archive
from ingester.spark.kept.room import room

log = structlog.get_logger("spark")

_AFTER_SECONDS = 30.0
"""How long an ingester runs before it makes an archive beside it: one that is only tried out, or ends at once, makes none."""
_PATIENCE = 600.0
"""For all of it, at the lowest priority."""
BESIDE = "--beside"
"""The argument of a process that ends with its standard input."""
MAKING = "making-"
"""How the folder begins that an archive is made in; the number of the process follows."""
_ROOM, _LITTLE = 1 << 30, 128 << 20
"""Bytes of memory that must be free before, and while it is made: a second JVM must not be what ends the first."""
_MOST = 3
"""Attempts that came to their end. Those that this ingester's stop has ended do not count."""
_END_SECONDS = 0.5


def beside(kind: str | None, given: Path | None, serves: bool, closing: threading.Event) -> threading.Thread | None:
    """Make the archive `kind` beside this process unless the one that was `given` to the JVM serves, once this process has run for a while.

    Ends with `closing`. Returns the thread that ends the process, within a second.
    """
    places = archive.folders(os.environ)
    if kind is None or not places or (given is not None and serves):
        return None
    thread = threading.Thread(
        target=_make_beside, args=(places[-1], kind, given, closing), name="spark-archive", daemon=True
    )
    thread.start()
    return thread


def command() -> list[str]:
    """`-P`: it takes no module from the folder where the ingester was started."""
    return ["nice", "-n", "19", sys.executable, "-P", "-m", "ingester.spark.training", BESIDE]


def wanted(place: Path, kind: str, useless: Path | None) -> bool:
    """Whether one is to be made in `place`. One that is there and of no use is removed."""
    if (place.exists() and not archive.safe(place)) or _attempts(place, kind) >= _MOST:
        return False
    if useless is not None:
        shutil.rmtree(useless, ignore_errors=True)
        return not useless.exists()
    return True


def _attempts(place: Path, kind: str) -> int:
    with suppress(OSError):
        return (place / f"{kind}.attempts").stat().st_size
    return 0


def _make_beside(place: Path, kind: str, useless: Path | None, closing: threading.Event) -> None:
    if closing.wait(_AFTER_SECONDS) or room() < _ROOM or not wanted(place, kind, useless):
        return
    with suppress(OSError):
        process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,  # it ends with this process, however that ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        with process:
            by_itself = _waited(process, closing)
        if by_itself:
            with (place / f"{kind}.attempts").open("ab") as attempts:
                attempts.write(b".")
        log.debug("an archive of classes was made for the next start", status=process.returncode, by_itself=by_itself)
        for left in place.glob(f"{MAKING}{process.pid}-*"):
            shutil.rmtree(left, ignore_errors=True)


def _waited(process: subprocess.Popen[bytes], closing: threading.Event) -> bool:
    """Whether it has ended by itself. Otherwise it is killed, with its JVM, which is in its group."""
    waited = 0.0
    while process.poll() is None and waited < _PATIENCE and room() > _LITTLE and not closing.wait(1.0):
        waited += 1.0
    if process.poll() is not None:
        return True
    assert process.stdin is not None
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return not closing.is_set()
