"""Translates the operating system's errors into DStream's."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import DStreamError, EntityMissing, EntityUnavailable, TransientError

_HINTS = {
    errno.ENOSPC: "free space; what was not written waits in the queue",
    errno.EDQUOT: "raise the quota or free space; what was not written waits in the queue",
    errno.EMFILE: "raise the limit of open files (ulimit -n, LimitNOFILE)",
    errno.ENFILE: "raise the machine's limit of open files (fs.file-max)",
    errno.ENOLCK: "the file system needs locks (flock): mount it with them",
    errno.EOPNOTSUPP: "the file system needs locks (flock): mount it with them, or use another",
}
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOSYS, errno.EOPNOTSUPP}


def translated(error: OSError, doing: str, root: str) -> DStreamError:
    """What is full, slow or broken may be well later; a missing right or directory needs a person."""
    text = f"{doing}: {error.strerror or type(error).__name__}"
    hint = _HINTS.get(error.errno or 0)
    if error.errno in _MISSING:
        return EntityMissing(text, hint=f"create {root}, or mount it")
    if error.errno in _REFUSED:
        return EntityUnavailable(
            text, hint=hint or f"give the user that the router runs as the right to write below {root}"
        )
    return TransientError(text, hint=hint)


@contextmanager
def translating(doing: str, root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translated(error, doing, root) from error
