"""`python -m ingester.spark.training [FOLDER]`: makes the archive of classes for Spark's JVM on this machine, as archive.py looks for it.

It starts Spark as the ingester does, runs a task, and Java writes what it has loaded. That takes some 15 seconds of a core, once for a Java and a
Spark. It is done beside an ingester that has run for a while (kept/beside.py), at the lowest priority, or by hand. A second
process that makes the same archive leaves it to the first. Whatever fails, the ingester runs without.
"""

from __future__ import annotations

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
from ingester.slices import Slice, SliceResult
from ingester.spark.driver_line import Driver
from ingester.spark.jvm import java_binary
from ingester.spark.kept import archive
from ingester.spark.kept.beside import BESIDE, MAKING
from ingester.spark.launched import Launched, name_interpreters

_DUMP_SECONDS = 120.0
"""For Java to write it."""
_started: list[Launched] = []
_made: list[Path] = []
"""What `_abandon` ends and removes, in another thread."""


def make(folder: Path) -> str:
    """Make it below `folder`, and return what came of it. Raises DStreamError and OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    if not archive.safe(folder):
        return f"others could exchange what lies in {folder}, so it would not be used"
    with _alone(folder) as alone:
        if not alone:
            return "another process makes it"
        for left in folder.glob(f"{MAKING}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            prefix=f"{MAKING}{os.getpid()}-", dir=folder, ignore_cleanup_errors=True
        ) as made:
            _made.append(at := Path(made))
            kind = _trained(at)
            if kind is None:
                return "Spark is started by its own launcher here, which takes no archive"
            if not (at / archive.CLASSES).exists():
                return "this Java has made none"
            for part in at.iterdir():
                part.chmod(0o444)
            at.chmod(0o755)
            shutil.rmtree(folder / kind, ignore_errors=True)  # a JVM that has it open keeps it
            at.rename(folder / kind)
            return f"made {folder / kind}"


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
    signal.signal(signal.SIGTERM, lambda number, frame: threading.Thread(target=_abandon).start())
    threading.Thread(target=watch, daemon=True).start()
    with suppress(OSError):  # where memory runs out in spite of all, this goes first, and its JVM
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> None:
    """Make the archive in the folder that is named, or where the ingester makes it. The exit status is 0 if it is there."""
    given = [argument for argument in sys.argv[1:] if argument != BESIDE]
    if len(given) < len(sys.argv[1:]):
        _end_with_the_ingester()
    places = [Path(given[0])] if given else archive.folders(os.environ)[-1:]
    if not places:
        sys.exit(f"{archive.VARIABLE} is {archive.OFF}, so no archive is made")
    try:
        print(make(places[0]))
    except (DStreamError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no archive was made: {error}")


if __name__ == "__main__":
    main()
