"""The lock of a folder: a file that one process at a time has locked, and that remembers the name of the folder's last file.

The kernel gives the lock back when its process ends, however it ends. It is taken for one addition, and for sealing.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import TransientError
from router.outputs.file.names import FileName, parsed

_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.05
"""Seconds between two attempts to take it."""


class FolderLock:
    """Of the folder's room of open files. One thread at a time uses it; another FolderLock of the same room excludes it."""

    def __init__(self, room: Path) -> None:
        self._path = room / "lock"
        self._fd = -1

    @contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Raises TransientError when another has it for all of `seconds`; OSError."""
        self._take(time.monotonic() + seconds)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def last(self) -> FileName | None:
        """The name of the folder's last file; None where there was none, or where a crash of the machine left no name."""
        found = parsed(os.pread(self._fd, 200, 0).decode("ascii", "replace"))
        return None if found is None else found[0]

    def remember(self, name: FileName) -> None:
        text = str(name).encode("ascii")
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _take(self, until: float) -> None:
        wait = _FIRST_WAIT
        while True:
            self._open()
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise TransientError(f"adding to {self._path.parent}: another process holds its lock") from error
                time.sleep(wait)
                wait = min(_LONGEST_WAIT, 2 * wait)
                continue
            if same_file(self._path, self._fd):
                return
            self.close()  # the file was deleted before it was locked: others lock another one

    def _open(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def same_file(path: Path, fd: int) -> bool:
    """Whether `path` still names the file that `fd` has open."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(fd)
    return (named.st_ino, named.st_dev) == (held.st_ino, held.st_dev)
