"""Port: where files are. `local/` is a directory, `blob/` a container of Azure Blob Storage; `output.py` chooses.

Lines of a folder go into its open file, whichever process or machine adds them: one open file a folder, and its lines are in the order in which
they were accepted. So a session that moves from one process to another keeps its order, which files of each process's own could not promise.
A file that is large or old enough is sealed: no line is added any more. A sealed file is made into a finished one under its final name, by any
process; doing it twice leaves one file. What a process left that was killed is continued by the others, or by its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import BinaryIO, Protocol

from common.bus.ports import Provision
from common.check import Finding
from router.outputs.file.names import Staged

Conversion = Callable[[BinaryIO, BinaryIO], None]
"""Reads lines and writes the finished file. Raises ValueError for lines that it cannot read."""


class Journal(Protocol):
    """Adds lines to the open file of a folder. One thread at a time uses it."""

    def append(self, data: bytes, *, lsn: str, seconds: float) -> None:
        """Return when all lines of `data` are stored, durably. `lsn`: of the first. Raises DStreamError: some of them may be stored.

        Gives up after about `seconds` where it waits for others; a file system that hangs holds it up for longer.
        """
        ...

    def close(self) -> None:
        """Closes files, and leaves what is open in the store open there. `append` opens it again."""
        ...


class Store(Protocol):
    """Callable from any thread. Every call raises DStreamError."""

    @property
    def where(self) -> str:
        """For a person."""
        ...

    def ready(self) -> None:
        """Raises EntityMissing or EntityUnavailable when nothing can be written, TransientError when that is not known."""
        ...

    def journal(self, folder: str) -> Journal: ...

    def staged(self) -> Sequence[Staged]:
        """The files that are not finished, each folder's in their order."""
        ...

    def seal(self, staged: Staged) -> None:
        """Nothing is added to an open file any more. Returns as well when another process was first, or when the file is in use."""
        ...

    def finish(self, staged: Staged, conversion: Conversion | None) -> bool:
        """Make a sealed file a finished one; False when another process does. `conversion` None: the lines are the file.

        Raises ValueError as the conversion does.
        """
        ...

    def provide(self, how: Provision) -> None:
        """Create the directory or the container, or see that it is there. Raises PermanentError or TransientError."""
        ...

    def findings(self, provision: Provision) -> Iterator[Finding]: ...

    def close(self) -> None: ...


def in_order(staged: Collection[Staged]) -> Sequence[Staged]:
    return sorted(staged, key=lambda each: (each.folder, each.name))
