"""Results on standard output, with secrets masked. A reader that has gone, or a full disk, is one clear error."""

from __future__ import annotations

import codecs
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from common.errors import PermanentError

SLOW_SECONDS: Final = 2.0
"""After which a person is shown that a command still works."""


class NotPrinted(PermanentError):
    """Standard output takes nothing more."""

    def reader_gone(self) -> bool:
        """Whether nobody reads any more (`dstream check | head`). From then on what is printed is thrown away, also what
        Python flushes at its end."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return isinstance(self.__cause__, BrokenPipeError)


def printed(text: str) -> None:
    """Raises NotPrinted."""
    from common.observability.logs import masked

    try:
        print(_encodable(masked(text)), flush=True)
    except OSError as error:
        raise NotPrinted(
            f"writing the result to standard output: {error.strerror or error}",
            hint="make room there, or send the output elsewhere",
        ) from error


def _encodable(text: str) -> str:
    """With what standard output cannot write (a table's name in a POSIX locale) as escapes."""
    return text.encode(_encoding(), "backslashreplace").decode(_encoding())


def _encoding() -> str:
    """Of standard output; it is None where that is closed."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        printed(" ".join(line.split("\n")))


def print_document(document: Any, *, on_one_line: bool = False) -> None:
    ascii_alone = codecs.lookup(_encoding()).name != "utf-8"
    printed(json.dumps(document, indent=None if on_one_line else 2, ensure_ascii=ascii_alone))


def printed_or_unread(show: Callable[[], None], status: int) -> int:
    """`status` once `show` has printed; 1 where nobody reads any more. Raises NotPrinted."""
    try:
        show()
    except NotPrinted as error:
        if error.reader_gone():
            return 1
        raise
    return status


@contextmanager
def told_when_slow(doing: str, *, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """One line on standard error if what is done here takes long. `doing`: a participle ("looking at orders"). `unless`: it is seen otherwise."""
    line = f"dstream: still {doing}; Ctrl-C ends it"
    timer = threading.Timer(SLOW_SECONDS, lambda: None if unless() else _tell(line))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(line: str) -> None:
    from common.observability.logs import masked

    with suppress(OSError, ValueError):
        print(masked(line), file=sys.stderr, flush=True)
