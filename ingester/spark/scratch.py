"""The folder that Spark works in, and what processes that were killed have left of theirs.

A folder is its owner's for as long as that holds a lock on a file in it, which the kernel takes away however the owner ends. A process id
would not do: /tmp may be shared by containers that number their processes each for itself. Touches no folder of another user's.
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
"""Seconds: between the file and the lock on it there is a moment."""


class Scratch:
    """A new folder, this user's alone, in `parent` or where temporary files go; removed with `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        sweep(parent or Path(tempfile.gettempdir()))
        self._made = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
        self._lock = (self.path / _OWNER).open("wb")
        with suppress(OSError):  # a file system without locks; nothing is ever removed there
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def path(self) -> Path:
        return Path(self._made.name)

    def close(self) -> None:
        self._made.cleanup()
        self._lock.close()


def sweep(parent: Path) -> None:
    """Remove the folders there that nobody owns any more. Raises nothing."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _ownerless(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _ownerless(folder: Path) -> bool:
    """Raises OSError, where it is held among others."""
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return False
    with (folder / _OWNER).open("rb") as owner:
        if time.time() - os.fstat(owner.fileno()).st_mtime < _YOUNG:
            return False
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True
