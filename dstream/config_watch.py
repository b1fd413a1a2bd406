"""Watches the configuration file while a service runs: when it has changed it is loaded again. Knows nothing of its content.

Compares content, not times: Kubernetes swaps a symbolic link, and editors replace the file. New content counts once two checks in a row have
found it, so that a file which is half written, or missing for a moment, is ignored.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import structlog

from common.errors import ConfigurationError, TransientError
from common.periodic import repeat

LOOK_SECONDS = 2.0
"""Between two checks, so an edit takes effect within twice that. Reading a small file costs nothing."""

USABLE_AGAIN = "configuration can be used again"

_CORRECT = "correct the file; it is read again when it has changed"

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Watched(Generic[T]):
    """`load` reads `path`, or raises ConfigurationError with every problem. Create this before the first load: content counts as new from here.

    In `with watched(take):` a thread calls `take` with each valid configuration that follows. `with watched(take, refused):` it also calls `refused`
    with the problems of each that is not.
    """

    def __init__(self, path: Path, load: Callable[[], T], *, seconds: float = LOOK_SECONDS) -> None:
        self._path = path
        self.load = load
        self._taken = self._seen = _content(self._path)
        self._take: Callable[[T], None] = lambda settings: None
        self._refused: Callable[[ConfigurationError], None] = lambda error: None
        self._usable = True
        self._stop = threading.Event()
        watch = partial(repeat, self.look, "configuration", self._stop, every=seconds)
        self._thread = threading.Thread(target=watch, name="configuration", daemon=True)

    def __call__(
        self, take: Callable[[T], None], refused: Callable[[ConfigurationError], None] = lambda error: None
    ) -> Self:
        self._take, self._refused = take, refused
        return self

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Check once."""
        before, self._seen = self._seen, _content(self._path)
        if self._seen == self._taken or self._seen != before:
            return
        self._taken = self._seen
        try:
            settings = self.load()
        except ConfigurationError as error:
            log.error(
                "the changed configuration cannot be used; the previous one stays in force",
                problems=list(error.problems),
                hint=error.hint or _CORRECT,
            )
            self._usable = False
            self._refused(error)
            return
        if not self._usable:
            log.info(USABLE_AGAIN, file=str(self._path))
        self._usable = True
        self._take(settings)


class Latest(Generic[T]):
    """The present configuration, for any thread: `Latest(path, load)()` returns `load()`, and calls it again only when the content has changed.

    It reads the file only when called, and not within `seconds` of the last time.
    It can be pickled if `load` can; the other process then reads the file itself. `tells`: False where a `Watched` of the same file logs what
    cannot be used.
    """

    def __init__(
        self,
        path: Path,
        load: Callable[[], T],
        *,
        seconds: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        tells: bool = True,
    ) -> None:
        self._tells = tells
        self._path, self._load, self._seconds, self._clock = path, load, seconds, clock
        self._guard = threading.Lock()
        self._seen, self._looked_at = _content(path), clock()
        self._taken: tuple[bytes | None, T | ConfigurationError] | None = None
        self._settled = True

    def __call__(self) -> T:
        """Raises ConfigurationError if the content cannot be used, logged once if it `tells`; TransientError while it is being changed."""
        with self._guard:
            now = self._clock()
            if now - self._looked_at >= self._seconds:
                before, self._seen, self._looked_at = self._seen, _content(self._path), now
                self._settled = self._seen == before
            if not self._settled:
                raise TransientError("the configuration is being changed")
            if self._taken is None or self._taken[0] != self._seen:
                self._taken = self._seen, self._loaded()
            outcome = self._taken[1]
        if isinstance(outcome, ConfigurationError):
            raise outcome
        return outcome

    def _loaded(self) -> T | ConfigurationError:
        unusable = self._taken is not None and isinstance(self._taken[1], ConfigurationError)
        try:
            loaded = self._load()
        except ConfigurationError as error:
            if self._tells:
                log.error(
                    "the configuration cannot be used", problems=list(error.problems), hint=error.hint or _CORRECT
                )
            return error
        if unusable and self._tells:
            log.info(USABLE_AGAIN, file=str(self._path))
        return loaded

    def __reduce__(self) -> tuple[Callable[..., Latest[T]], tuple[Path, Callable[[], T]]]:
        return partial(Latest, tells=self._tells), (self._path, self._load)


def _content(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None  # if this lasts, `load` says why
