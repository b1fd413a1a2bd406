"""What must be done so that a crash of the machine leaves what was written, and what may be left of it if it was not done."""

from __future__ import annotations

import os
from pathlib import Path

_PIECE = 1 << 20

sync = getattr(os, "fdatasync", os.fsync)
"""Of a file: its bytes and its size."""


def sync_folder(path: Path) -> None:
    """The names in it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(path: Path, root: Path, *, durably: bool) -> None:
    """`path` and what is missing between it and `root`, which exists. Raises OSError; FileNotFoundError without `root`."""
    if path.is_dir():
        return
    if path != root:
        make_folders(path.parent, root, durably=durably)
        path.mkdir(exist_ok=True)
        if durably:
            sync_folder(path.parent)
        return
    raise FileNotFoundError(2, os.strerror(2), str(root))


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sound_end(fd: int) -> int:
    """Where the whole lines of a file end that a process or a machine may have left in the middle of an addition.

    A machine that crashed may leave bytes that were never written, which read as zeros, before bytes that were. No JSON has a zero, and nothing
    behind the first was ever accepted.
    """
    size = os.fstat(fd).st_size
    at, line_end = 0, 0
    while at < size:
        piece = os.pread(fd, _PIECE, at)
        if not piece:
            break
        zero = piece.find(b"\0")
        newline = piece.rfind(b"\n", 0, zero if zero >= 0 else len(piece))
        if newline >= 0:
            line_end = at + newline + 1
        if zero >= 0:
            break
        at += len(piece)
    return line_end


def last_line_end(fd: int, size: int) -> int:
    """Where the last whole line of a file of `size` bytes ends. Reads from its end."""
    end = size
    while end > 0:
        begin = max(0, end - _PIECE)
        newline = os.pread(fd, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0
