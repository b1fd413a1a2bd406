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
from contextlib import suppress
from pathlib import Path

PREFIX = "dstream-spark-"
_OWNER = "owner"
_YOUNG = 60.0
"""Seconds. The owner locks the file a moment after it creates it."""


class Scratch:
    """A new folder that only this user can read, in `parent` or among the temporary files. `close` removes it."""

    def __init__(self, parent: Path | None = None) -> None:
        sweep(parent or Path(tempfile.gettempdir()))
        self._made = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
        self._lock = (self.path / _OWNER).open("wb")
        with suppress(OSError):  # a file system without locks, where nothing is ever removed
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def path(self) -> Path:
        return Path(self._made.name)

    def close(self) -> None:
        self._made.cleanup()
        self._lock.close()


def sweep(parent: Path) -> None:
    """Remove the folders there that have no owner any more. Raises nothing."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _ownerless(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _ownerless(folder: Path) -> bool:
    """Raises OSError, for example when its owner holds the lock."""
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return False
    with (folder / _OWNER).open("rb") as owner:
        if time.time() - os.fstat(owner.fileno()).st_mtime < _YOUNG:
            return False
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True
