"""The folder that Spark works in. Also removes the folders of processes that were killed.

A folder has an owner as long as a process holds a lock on a file in it; the kernel releases the lock however the process ends. A process id
would not do: containers that share /tmp number their processes independently. Never touches another user's folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from common.errors import PermanentError

PREFIX = "dstream-spark-"
_OWNER = "owner"
_LOST_SECONDS = 5.0
_YOUNG = 60.0
"""Seconds. The owner locks the file a moment after it creates it."""


class Scratch:
    """A new folder that only this user can read, in `parent` or among the temporary files. `close` removes it."""

    def __init__(self, parent: Path | None = None) -> None:
        """Raises PermanentError where no folder can be made."""
        parent = parent or temporary()
        sweep(parent)
        try:
            self._made = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
        except OSError as error:
            raise _unwritable(parent, error) from error
        self._lock = (self.path / _OWNER).open("wb")
        with suppress(OSError):  # a file system without locks, where nothing is ever removed
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._watched = [self.path]
        self._lost_at: float | None = None

    @property
    def path(self) -> Path:
        return Path(self._made.name)

    def watch(self, folders: Iterable[Path]) -> None:
        """What Spark needs beside this one, or in it: they must last as well."""
        self._watched += folders

    def refuse_loss(self) -> None:
        """Raises PermanentError when a folder is gone or cannot be written, and stays so: a cleaner of /tmp takes what has been there for
        weeks. Spark itself removes one when its context stops, a moment before that is known here."""
        lost = next((folder for folder in self._watched if not os.access(folder, os.W_OK | os.X_OK)), None)
        if lost is None:
            self._lost_at = None
            return
        now = time.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at >= _LOST_SECONDS:
            raise _lost(lost, self.path if lost.is_relative_to(self.path) else lost)

    def close(self) -> None:
        self._made.cleanup()
        self._lock.close()


def sweep(parent: Path) -> None:
    """Remove the folders there that have no owner any more. Raises nothing."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _ownerless(folder):
                shutil.rmtree(folder, ignore_errors=True)


def temporary() -> Path:
    """The folder for temporary files, of Java as of Python. Raises PermanentError where there is none that can be written."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise _unwritable(Path(os.environ.get("TMPDIR") or "/tmp"), error) from error


def writable(folders: Sequence[Path]) -> list[Path]:
    """Those that Spark can write to; it makes those that are missing. Raises PermanentError where it can write to none of them."""
    found: list[Path] = []
    refused: list[PermanentError] = []
    for folder in folders:
        there = next((each for each in (folder, *folder.parents) if os.path.exists(each)), folder)  # noqa: PTH110 - raises nothing
        try:
            tempfile.TemporaryFile(dir=there).close()
        except OSError as error:
            refused.append(_unwritable(folder, error))
        else:
            found.append(folder)
    if refused and not found:
        raise refused[0]
    return found


def _unwritable(folder: Path, error: OSError) -> PermanentError:
    return PermanentError(
        f"Spark cannot write to {folder}: {error.strerror or error}",
        hint="make it writable, or set TMPDIR and spark.local.dir to a folder that is",
    )


def _lost(folder: Path, whole: Path) -> PermanentError:
    """`whole`: what a cleaner must leave alone."""
    names = f"{PREFIX}*" if whole.name.startswith(PREFIX) else whole.name
    return PermanentError(
        f"Spark's folder {folder} is gone, or cannot be written",
        hint=f"restart the ingester, and keep cleaners of {whole.parent} away from {names}, "
        f"with systemd by the line `x {whole.parent}/{names}` in tmpfiles.d",
    )


def _ownerless(folder: Path) -> bool:
    """Raises OSError, for example when its owner holds the lock."""
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return False
    with (folder / _OWNER).open("rb") as owner:
        if time.time() - os.fstat(owner.fileno()).st_mtime < _YOUNG:
            return False
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True
