"""The port to where a configuration is kept, and what there is to know about a stored text. Opens nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from common.errors import PermanentError

_DIGITS = 32


def revision_of(data: bytes) -> str:
    """What a person's page names when it asks for an edit: the same for the same content alone."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class Content:
    """`version`: as the place itself counts, if it does."""

    data: bytes
    version: str | None = None

    @property
    def revision(self) -> str:
        return revision_of(self.data)

    @property
    def text(self) -> str:
        """With its line ends and its byte order mark. Raises PermanentError if it is not UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise PermanentError(f"reading the configuration: line {line} is not UTF-8") from None


class Place(Protocol):
    """A file or a ConfigMap. Every method takes seconds at most."""

    @property
    def name(self) -> str:
        """For a person."""
        ...

    @property
    def delay(self) -> str:
        """How long after a write the stages can read it, for a person; empty: at once."""
        ...

    def read(self) -> Content:
        """Raises TransientError or PermanentError."""
        ...

    def why_not(self) -> str | None:
        """Why nothing can be written; None if it can, as far as that shows without a write."""
        ...

    def write(self, data: bytes, instead_of: Content) -> None:
        """Raises Conflict if it is not `instead_of` any longer; then nothing is written."""
        ...
