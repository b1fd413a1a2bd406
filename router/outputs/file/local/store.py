"""Files in a directory. A finished file appears under its name at once, by a rename."""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from common.bus.ports import Provision
from common.check import Finding, by_shell, fail, ok
from common.errors import EntityMissing, EntityUnavailable, PermanentError
from router.outputs.file.local.durable import make_folders, sync, sync_folder
from router.outputs.file.local.errors import translating
from router.outputs.file.local.journal import LocalJournal, seal
from router.outputs.file.local.locking import FolderLock, same_file
from router.outputs.file.names import OPEN_ROOM, Staged, parsed
from router.outputs.file.rolling import Limits
from router.outputs.file.store import Conversion, in_order

_SEAL_SECONDS = 1.0
"""Seconds to wait for a folder's lock in order to seal its file. Otherwise the next look does it."""


class LocalStore:
    """A `router.outputs.file.store.Store`."""

    def __init__(
        self, root: Path, *, ending: str, limits: Limits, durably: bool, complete: Callable[[], None] = lambda: None
    ) -> None:
        """`ending`: of the finished files. `durably`: wait until the disk has what is written. `complete`: see LocalJournal."""
        self._root, self._ending, self._limits, self._durably, self._complete = root, ending, limits, durably, complete

    @property
    def where(self) -> str:
        return str(self._root)

    def ready(self) -> None:
        with translating(f"looking at {self._root}", self.where):
            self._root.stat()
        if not self._root.is_dir():
            raise EntityUnavailable(
                f"looking at {self._root}: it is not a directory", hint="set the output's root to a directory"
            )
        if not os.access(self._root, os.W_OK | os.X_OK):
            raise EntityUnavailable(
                f"looking at {self._root}: it cannot be written",
                hint="give the user that the router runs as the right to write there; a mounted volume may be read-only",
            )

    def journal(self, folder: str) -> LocalJournal:
        return LocalJournal(
            self._root, folder, self._ending, limits=self._limits, durably=self._durably, complete=self._complete
        )

    def staged(self) -> Sequence[Staged]:
        room = self._root / OPEN_ROOM
        with translating(f"listing {room}", self.where):
            return in_order(list(self._staged(room)))

    def _staged(self, room: Path) -> Iterator[Staged]:
        for path, _, files in os.walk(room):
            for each in files:
                found = parsed(each)
                if found is None or found[1] is None:
                    continue
                with suppress(FileNotFoundError):  # another process finished it
                    size = (Path(path) / each).stat().st_size
                    yield Staged(Path(path).relative_to(room).as_posix(), found[0], found[1], size)

    def seal(self, staged: Staged) -> None:
        room = self._room(staged)
        lock = FolderLock(room)
        try:
            with (
                translating(f"sealing a file in {room}", self.where),
                lock.held(_SEAL_SECONDS),
                suppress(FileNotFoundError),
            ):
                seal(room, staged.name, durably=self._durably)
        finally:
            lock.close()

    def finish(self, staged: Staged, conversion: Conversion | None) -> bool:
        path = self._room(staged) / staged.name.staged("sealed")
        folder = self._root / staged.folder / staged.name.day
        with translating(f"finishing {path}", self.where):
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not same_file(path, fd):
                    return False
                make_folders(folder, self._root, durably=self._durably)
                self._publish(path, fd, folder / str(staged.name), conversion)
            except BlockingIOError:
                return False
            finally:
                os.close(fd)
        return True

    def _publish(self, path: Path, fd: int, final: Path, conversion: Conversion | None) -> None:
        if conversion is None:
            path.rename(final)
        else:
            made = path.with_name(f"{final.name}.tmp")
            with os.fdopen(os.dup(fd), "rb") as lines, made.open("wb") as file:
                lines.seek(0)
                conversion(lines, file)
                file.flush()
                if self._durably:
                    sync(file.fileno())
            made.rename(final)
        if self._durably:
            sync_folder(final.parent)
        if conversion is not None:
            path.unlink()

    def provide(self, how: Provision) -> None:
        with translating(f"creating {self._root}", self.where):
            if how == "create":
                self._root.mkdir(parents=True, exist_ok=True)
        try:
            self.ready()
        except EntityMissing as error:
            raise PermanentError(error.message, hint=error.hint) from error

    def findings(self, provision: Provision) -> Iterator[Finding]:
        subject = f"directory {self._root}"
        if not self._root.exists():
            if provision == "create":
                yield ok(subject, "it does not exist yet and is created at the first start")
            else:
                making = by_shell(f"mkdir -p {shlex.quote(self.where)}")
                yield fail(subject, "it does not exist", "create it, or mount it", fix=making)
            return
        self.ready()
        yield ok(subject, "it can be written")

    def close(self) -> None:
        """Holds nothing open itself."""

    def _room(self, staged: Staged) -> Path:
        return self._root / OPEN_ROOM / staged.folder
