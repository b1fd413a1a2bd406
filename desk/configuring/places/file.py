"""A configuration file: replaced as a whole, or not at all, with the mode and the owner that it had.

A file that is mounted by itself cannot be replaced: it is written in place, and put back if that fails. Refuses to write what another console has
changed since, and waits for another console's write a few seconds only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from common.errors import PermanentError, TransientError
from desk.configuring.places.port import Content
from desk.desk import Conflict

_LOCK_SECONDS = 5.0
_GLANCE = 0.05
_NOT_REPLACED = frozenset({errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS})
"""What the file system answers where the file can be written and its folder cannot, or the file is mounted by itself."""


class FilePlace:
    """`path`: may be a symbolic link; then the file behind it is written, and the link stays."""

    delay = ""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    def read(self) -> Content:
        try:
            return Content(self._path.read_bytes())
        except OSError as error:
            raise self._failed("reading", error) from error

    def why_not(self) -> str | None:
        real = self._real()
        if not real.exists():
            return f"{self._path} does not exist"
        if not real.is_file():
            return f"{self._path} is not a file"
        if _mounted_read_only(real):
            of_cluster = " (for a mounted ConfigMap start the console with --configmap)"
            return f"the file system of {real} is read-only{of_cluster}"
        if not os.access(real, os.W_OK):
            return f"this process may not write {real}"
        return None

    def write(self, data: bytes, instead_of: Content) -> None:
        real = self._real()
        try:
            with self._alone(real):
                if Content(real.read_bytes()).revision != instead_of.revision:
                    raise Conflict(
                        f"writing {self._path}: somebody else has changed it meanwhile", hint="look at it again"
                    )
                if not self._replaced(real, data):
                    self._written_in_place(real, data, instead_of.data)
        except OSError as error:
            raise self._failed("writing", error) from error

    def _real(self) -> Path:
        try:
            return self._path.resolve()
        except (OSError, RuntimeError):
            return self._path

    @contextmanager
    def _alone(self, real: Path) -> Iterator[None]:
        """The folder is locked, not the file: that is another one after each write."""
        handle = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            until = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise Conflict(
                            f"writing {self._path}: another process writes in its folder", hint="try again"
                        ) from None
                    time.sleep(_GLANCE)
            yield
        finally:
            os.close(handle)

    def _replaced(self, real: Path, data: bytes) -> bool:
        """Whether another file could take its place."""
        status = real.stat()
        beside = real.with_name(f".{real.name}.{os.getpid()}.new")
        for left in real.parent.glob(
            f".{escape(real.name)}.*.new"
        ):  # by processes that were killed: nobody else writes now
            if left.name.removeprefix(f".{real.name}.").removesuffix(".new").isdecimal():
                with suppress(OSError):
                    left.unlink()
        try:
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            if error.errno in _NOT_REPLACED:
                return False
            raise
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    try:
                        os.fchown(file.fileno(), status.st_uid, status.st_gid)
                    except PermissionError:
                        return False  # in place it keeps its owner
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(real)
        except OSError as error:
            if error.errno in _NOT_REPLACED:
                return False
            raise
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()
        _kept(real.parent)
        return True

    def _written_in_place(self, real: Path, data: bytes, old: bytes) -> None:
        """The stages take a file over when two readings agree, so that they do not see half of it."""
        try:
            _overwrite(real, data)
        except OSError:
            with suppress(OSError):
                _overwrite(real, old)
            raise

    def _failed(self, doing: str, error: OSError) -> PermanentError | TransientError:
        text = f"{doing} {self._path}: {error.strerror or type(error).__name__}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.ESTALE):
            return TransientError(text)
        return PermanentError(text)


def _overwrite(real: Path, data: bytes) -> None:
    handle = os.open(real, os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _mounted_read_only(real: Path) -> bool:
    return bool(os.statvfs(real).f_flag & os.ST_RDONLY)


def _kept(folder: Path) -> None:
    """A rename is on the disk when its folder is. Some file systems cannot say so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
