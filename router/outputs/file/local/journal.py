"""Adds lines to the open file of a folder, under the folder's lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from common.errors import TransientError
from router.outputs.file.local.durable import last_line_end, make_folders, sound_end, sync, sync_folder, write_all
from router.outputs.file.local.errors import translating
from router.outputs.file.local.locking import FolderLock, same_file
from router.outputs.file.names import OPEN_ROOM, FileName, following, parsed
from router.outputs.file.rolling import Limits


def utc_now() -> datetime:
    return datetime.now(UTC)


class LocalJournal:
    """A `router.outputs.file.store.Journal`. Holds two files open, from the first addition until `close`."""

    def __init__(
        self,
        root: Path,
        folder: str,
        ending: str,
        *,
        limits: Limits,
        durably: bool = True,
        complete: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`complete` is called when a file has reached its size. `durably`: accepted means that a crash of the machine leaves it."""
        self._root = root
        self._room = root / OPEN_ROOM / folder
        self._ending, self._limits, self._durably, self._complete, self._now = ending, limits, durably, complete, now
        self._lock = FolderLock(self._room)
        self._fd = -1
        self._name: FileName | None = None
        self._end = 0

    def append(self, data: bytes, *, lsn: str, seconds: float) -> None:
        """See the port. The lock is given back before the file is flushed, so that others add meanwhile: their lines are behind these."""
        with translating(f"writing to {self._room}", str(self._root)):
            until = time.monotonic() + seconds
            make_folders(self._room, self._root, durably=self._durably)
            with self._lock.held(seconds):
                self._open(lsn)
                if time.monotonic() >= until:  # nobody waits any longer, and another process may have added newer lines
                    raise TransientError(f"writing to {self._room}: the file system took more than {seconds:.0f} s")
                self._add(data)
            if self._durably:
                self._sync(seconds)
        if self._end >= self._limits.size:
            self._complete()

    def close(self) -> None:
        self._release()
        self._lock.close()

    def _open(self, lsn: str) -> None:
        """The folder's open file is at hand, and ends with a whole line."""
        if self._fd >= 0 and self._name is not None and same_file(self._path(self._name), self._fd):
            if (size := os.fstat(self._fd).st_size) != self._end:  # another process added, or was killed while it did
                self._cut(last_line_end(self._fd, size))
        else:
            self._release()
            self._find()
        if self._name is not None and self._limits.reached(self._name, self._end, now=self._now()):
            seal(self._room, self._name, durably=self._durably)
            self._release()
        if self._name is None:
            self._make(lsn)

    def _find(self) -> None:
        """Take over the folder's open file. There is one; those of another format, or that somebody copied here, are complete."""
        names = sorted(found[0] for each in self._room.iterdir() if (found := parsed(each.name)) and found[1] == "open")
        for name in names[:-1] + [name for name in names[-1:] if name.ending != self._ending]:
            seal(self._room, name, durably=self._durably)
            names.remove(name)
        if names:
            self._name = names[0]
            self._fd = os.open(self._path(self._name), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            self._cut(sound_end(self._fd))

    def _make(self, lsn: str) -> None:
        name = following(self._last(), now=self._now(), lsn=lsn, ending=self._ending)
        self._lock.remember(name)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd, self._name, self._end = os.open(self._path(name), flags, 0o666), name, 0
        if self._durably:
            sync_folder(self._room)

    def _last(self) -> FileName | None:
        names = [found[0] for each in self._room.iterdir() if (found := parsed(each.name))]
        return max(filter(None, [self._lock.last(), *names]), default=None)

    def _sync(self, seconds: float) -> None:
        """A file that could not be flushed is not added to: a later flush would succeed without what this one did not write."""
        try:
            sync(self._fd)
        except OSError:
            with suppress(OSError, TransientError), self._lock.held(seconds):
                if self._name is not None and same_file(self._path(self._name), self._fd):
                    seal(self._room, self._name, durably=False)
            self._release()
            raise

    def _add(self, data: bytes) -> None:
        """All of it or, as far as the file system lets it be taken back, nothing."""
        try:
            write_all(self._fd, data)
        except OSError:
            with suppress(OSError):  # otherwise the next addition cuts it
                os.ftruncate(self._fd, self._end)
            raise
        self._end += len(data)

    def _cut(self, end: int) -> None:
        if os.fstat(self._fd).st_size != end:
            os.ftruncate(self._fd, end)
        self._end = end

    def _path(self, name: FileName) -> Path:
        return self._room / name.staged("open")

    def _release(self) -> None:
        self._name, self._end = None, 0
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def seal(room: Path, name: FileName, *, durably: bool = True) -> None:
    """Under the lock of the room: nothing is added to the file any more, and it ends with a whole line. An empty one is removed."""
    path = room / name.staged("open")
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        end = sound_end(fd)
        if os.fstat(fd).st_size != end:
            os.ftruncate(fd, end)
        if durably:
            sync(fd)
    finally:
        os.close(fd)
    if end:
        path.rename(room / name.staged("sealed"))
    else:
        path.unlink()
