"""Has the archive of classes made beside a running ingester, in a process of the lowest priority, once (training.py is that process).

Makes nothing where an archive serves already, where others could exchange it, where memory is scarce, or after a few attempts that came to
nothing, which are forgotten after a day. Ends the process and all that it has started with the ingester. No failure of it concerns anybody: one
line at level info has the outcome.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import structlog

from ingester.spark.kept import archive
from ingester.spark.kept.causes import Cause, told
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
_FORGOTTEN_SECONDS = 86400.0
"""Since the last of them: the disk may have room again."""
_END_SECONDS = 0.5


def beside(kind: str | None, given: Path | None, serves: bool, closing: threading.Event) -> threading.Thread | None:
    """Make the archive `kind` beside this process unless the one that was `given` to the JVM serves, once this process has run for a while.

    Ends with `closing`. Returns the thread that ends the process, within a second.
    """
    places = archive.folders(os.environ)
    if (why := archive.refused(os.environ)) is not None:
        _tell_none(why)
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
    if hindrance(place, kind) is not None:
        return False
    if useless is not None:
        shutil.rmtree(useless, ignore_errors=True)
        return not useless.exists()
    return True


def hindrance(place: Path, kind: str) -> Cause | None:
    """Why none is to be made in `place`; None: nothing hinders it."""
    if place.exists() and not archive.safe(place):
        return Cause.UNSAFE
    return Cause.ATTEMPTS if _attempts(place, kind) >= _MOST else None


def _attempts(place: Path, kind: str) -> int:
    kept = place / f"{kind}.attempts"
    with suppress(OSError):
        status = kept.stat()
        if time.time() - status.st_mtime < _FORGOTTEN_SECONDS:
            return status.st_size
        kept.unlink()
    return 0


def _tell_none(cause: str) -> None:
    log.info("no archive of Spark's classes was made; the next start takes as long as this one", cause=cause)


def _make_beside(place: Path, kind: str, useless: Path | None, closing: threading.Event) -> None:
    if closing.wait(_AFTER_SECONDS):
        return
    hindered = hindrance(place, kind) or (Cause.LITTLE_MEMORY if room() < _ROOM else None)
    if hindered is not None:
        _tell_none(told(hindered, place))
        return
    if not wanted(place, kind, useless):
        _tell_none(f"{useless} is of no use and cannot be removed")
        return
    try:
        _made(place, kind, closing)
    except OSError as error:
        _tell_none(str(error))


def _made(place: Path, kind: str, closing: threading.Event) -> None:
    process = subprocess.Popen(
        command(),
        stdin=subprocess.PIPE,  # it ends with this process, however that ends
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    with process:
        by_itself = _waited(process, closing)
    if process.returncode == 0:
        log.info("an archive of Spark's classes was made for the next start", folder=str(place))
    elif process.returncode == Cause.ANOTHER:
        log.info("another process makes the archive of Spark's classes; a later start uses it", folder=str(place))
    elif not closing.is_set():
        _tell_none(told(process.returncode, place))
    for left in place.glob(f"{MAKING}{process.pid}-*"):
        shutil.rmtree(left, ignore_errors=True)
    if by_itself:
        with suppress(OSError), (place / f"{kind}.attempts").open("ab") as attempts:  # a full disk, no folder
            attempts.write(b".")


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
