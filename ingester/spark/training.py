"""`python -m ingester.spark.training [FOLDER]`: makes the archive of classes for Spark's JVM on this machine, as archive.py looks for it.

It starts Spark as the ingester does, runs a task, and Java writes what it has loaded. That takes some 15 seconds of a core, once for a Java and a
Spark. It is done beside an ingester that has run for a while (kept/beside.py), at the lowest priority, or by hand. A second
process that makes the same archive leaves it to the first. Whatever fails, the ingester runs without.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import DStreamError
from common.observability.interrupts import aside
from ingester.slices import Slice, SliceResult
from ingester.spark.driver_line import Driver
from ingester.spark.jvm import java_binary
from ingester.spark.kept import archive
from ingester.spark.kept.beside import BESIDE, MAKING
from ingester.spark.kept.causes import Cause, NotMade, refusal, unfit
from ingester.spark.launched import Launched, name_interpreters

_DUMP_SECONDS = 120.0
"""For Java to write it."""
_started: list[Launched] = []
_made: list[Path] = []
"""What `_abandon` ends and removes, in another thread."""


def make(folder: Path) -> Path:
    """Make it below `folder`, and return its own folder. Raises NotMade, another DStreamError, and OSError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise NotMade(refusal(error), folder) from error
    if not archive.safe(folder):
        raise NotMade(Cause.UNSAFE, folder)
    if (cause := unfit(folder)) is not None:
        raise NotMade(cause, folder)
    with _alone(folder) as alone:
        if not alone:
            raise NotMade(Cause.ANOTHER, folder)
        for left in folder.glob(f"{MAKING}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            prefix=f"{MAKING}{os.getpid()}-", dir=folder, ignore_cleanup_errors=True
        ) as made:
            _made.append(at := Path(made))
            kind = _trained(at)
            if kind is None:
                raise NotMade(Cause.LAUNCHER, folder)
            if not (at / archive.CLASSES).exists():
                raise NotMade(unfit(folder) or Cause.JAVA, folder)
            for part in at.iterdir():
                part.chmod(0o444)
            at.chmod(0o755)
            shutil.rmtree(folder / kind, ignore_errors=True)  # a JVM that has it open keeps it
            at.rename(folder / kind)
            return folder / kind


def _trained(at: Path) -> str | None:
    """Run Spark, which leaves its archive in `at`. Returns its name."""
    from ingester.spark.executor import SparkExecutor  # slow to import

    name_interpreters({})
    _base(at)
    launched = Launched(master="local[2]", conf={}, training=at)
    _started.append(launched)
    if launched.jvm.kind is None:
        launched.close()
        return None
    executor = SparkExecutor(_nothing, launched)
    try:
        executor.begin(_answer, threading.Event())
    finally:
        executor.close(seconds=_DUMP_SECONDS)
    return launched.jvm.kind


def _answer() -> str:
    return "trained"


def _nothing(bundle: Sequence[Slice], stopping: Path, driver: Driver | None) -> Sequence[SliceResult]:
    return []


def _base(at: Path) -> None:
    """An archive of Java's own classes, where this Java comes without one."""
    java = str(java_binary())
    flags = ["-XX:+UseSerialGC", "-Xmx512m"]
    has = subprocess.run([java, *flags, "-Xshare:on", "-version"], capture_output=True, timeout=60, check=False)
    if has.returncode != 0:
        target = f"-XX:SharedArchiveFile={at / archive.BASE}"
        subprocess.run([java, *flags, "-Xshare:dump", target], capture_output=True, timeout=_DUMP_SECONDS, check=False)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _abandon() -> None:
    """Leave at once, without the JVM, which would write the archive first, and without what it has written."""
    for launched in _started:
        launched.jvm.kill()
        launched.scratch.close()
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with a JVM that is just being started
    os._exit(1)


def _end_with_the_ingester() -> None:
    """It has the other end of the standard input. A service manager's signal reaches this process as well."""

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        _abandon()

    # Not in the handler: it interrupts the thread that may be waiting for the JVM.
    signal.signal(signal.SIGTERM, lambda number, frame: aside(_abandon))
    threading.Thread(target=watch, daemon=True).start()
    with suppress(OSError):  # where memory runs out in spite of all, this goes first, and its JVM
        Path("/proc/self/oom_score_adj").write_text("1000")


def _absolute(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise argparse.ArgumentTypeError(f"must be an absolute path, not {text!r}")
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ingester.spark.training",
        description="Makes the archive of classes for Spark's JVM, with which an ingester starts sooner. Takes some 15 seconds of a core, "
        "400 MB of memory and 70 MB of disk, once for a Java and a Spark. The exit status is 0 only if it was made.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=_absolute,
        metavar="FOLDER",
        help=f"where it is made (default: {archive.VARIABLE}, or dstream/jvm in the user's cache)",
    )
    parser.add_argument(BESIDE, action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Make the archive in the folder that is named, or where the ingester makes it. The exit status is 0 only if it was made."""
    given = _arguments()
    if given.beside:
        _end_with_the_ingester()
    if given.folder is None and (why := archive.refused(os.environ)) is not None:
        sys.exit(f"no archive was made: {why}")
    places = [given.folder] if given.folder is not None else archive.folders(os.environ)[-1:]
    if not places:
        sys.exit(f"{archive.VARIABLE} is {archive.OFF}, so no archive is made")
    try:
        print(f"made {make(places[0])}")
    except (DStreamError, OSError, subprocess.SubprocessError) as error:
        print(f"no archive was made: {error}", file=sys.stderr)
        sys.exit(error.cause if isinstance(error, NotMade) else Cause.FAILED)


if __name__ == "__main__":
    main()
