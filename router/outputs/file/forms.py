"""The form of files: how a message is a line of an open file, and how lines become a finished file. Imports pyarrow only for Parquet."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO

from common.message import Message
from router.outputs.file.settings import FileSettings
from router.outputs.file.store import Conversion
from router.outputs.lines import line, plain_lines

_PIECE = 1 << 20
_LEVEL = 6
"""Of gzip: what its tools use."""


class Form:
    """Of an output's files. Raises ModuleNotFoundError when the library for it is not installed."""

    def __init__(self, settings: FileSettings) -> None:
        self.ending = settings.ending
        self._conversions: dict[str, Conversion | None] = {"jsonl": None, "jsonl.gz": _zipped}
        self._line: Callable[[Message], bytes] = lambda message: line(message, settings.line)
        self._bodies = settings.format == "jsonl" and settings.line == "body"
        if settings.format == "parquet":
            from router.outputs.file.parquet import conversion, staged_line

            self._line, self._conversions["parquet"] = staged_line, conversion(settings.compressed)

    def lines(self, messages: Sequence[Message]) -> Iterable[bytes]:
        """The line of each. Raises NotALine at the first message that cannot be one."""
        plain = plain_lines(messages) if self._bodies else None
        return map(self._line, messages) if plain is None else plain

    def conversion(self, ending: str) -> Conversion | None:
        """Of files with this ending, which another configuration may have left. Raises KeyError for a form that this one does not know."""
        return self._conversions[ending]


def _zipped(lines: BinaryIO, file: BinaryIO) -> None:
    """The same lines always make the same bytes."""
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as zipped:
        shutil.copyfileobj(lines, zipped, _PIECE)
