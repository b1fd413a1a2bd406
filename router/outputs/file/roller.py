"""A thread that finishes files: it seals those that are complete, and makes finished files of those that are sealed.

It finds them by listing, and so also those that a process left which was killed, or that belong to a table which is no longer configured.
When it stops, it seals what its output has opened, unless another output of the process adds to the same files: after an edit of the
configuration the new one goes on with them, and seals them at its own end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import structlog

from common.errors import DStreamError, TransientError, unforeseen
from router.outputs.file.forms import Form
from router.outputs.file.names import Staged
from router.outputs.file.rolling import Limits
from router.outputs.file.store import Store

ENOUGH = 60.0
"""Seconds without a finished file after which nothing more is accepted: consumers get nothing, and open files grow in number."""

_AT_WORK: Final[list[Roller]] = []
"""Those of this process."""

_TURN: Final = threading.Lock()
"""Held while one joins or leaves them."""

_ALL = ""
"""Stands for every folder, where the files cannot even be listed."""

log = structlog.get_logger(__name__)


class Roller:
    """`start` begins the thread; `stop` ends it."""

    def __init__(
        self,
        store: Store,
        form: Form,
        limits: Limits,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
        ending: str = "",
    ) -> None:
        """`ending`: of the finished files. With another one, in the same place, a folder's open file is another file."""
        self._store, self._form, self._limits, self._now, self._clock = store, form, limits, now, clock
        self._place = store.where, ending
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing: dict[str, float] = {}
        """Since when the files of a folder cannot be finished."""
        self._unreadable: set[Staged] = set()
        self._mine: set[str] = set()
        self._has_heir = False

    def start(self, folder: str) -> None:
        """A file is open in `folder`."""
        with _TURN, self._guard:
            self._mine.add(folder)
            if self._thread is None and not self._over.is_set():
                _AT_WORK.append(self)
                self._thread = threading.Thread(target=self._run, name="files", daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Look soon: a file is complete."""
        self._wake.set()

    def check(self, folder: str) -> None:
        """Raises TransientError when files of `folder` have not been finished for so long that no more lines should be added to it."""
        failing = self._failing
        since = min((failing[each] for each in (folder, _ALL) if each in failing), default=None)
        if since is not None and self._clock() - since > ENOUGH:
            raise TransientError(
                f"adding to files of {folder} in {self._store.where}: for {self._clock() - since:.0f} s no file could be finished",
                hint='the line "files cannot be finished" in the log has the cause',
            )

    def stop(self, seconds: float) -> None:
        """Seal and finish what this process has opened, as far as `seconds` allow. What remains is finished by others, or by the next router."""
        with _TURN:
            if self in _AT_WORK:
                _AT_WORK.remove(self)
            heir = next((each for each in _AT_WORK if each._place == self._place), None)
            if heir is not None:
                heir._mine |= self._mine
                self._has_heir = True
            self._over.set()
        self._wake.set()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def look(self, *, last: bool = False) -> None:
        """Seal what is complete, and finish what is sealed, each by itself. `last`: no line comes from this process any more."""
        failed: dict[str, Exception] = {}
        try:
            for staged in self._store.staged():
                complete = (last and staged.folder in self._mine) or self._limits.reached(
                    staged.name, staged.size, now=self._now()
                )
                if staged.state == "open" and complete:
                    self._try(self._store.seal, staged, failed)
            for staged in self._store.staged():
                if staged.state == "sealed" and staged not in self._unreadable:
                    self._try(self._finish, staged, failed)
        except Exception as error:
            failed[_ALL] = error
        self._note(failed)

    @staticmethod
    def _try(step: Callable[[Staged], object], staged: Staged, failed: dict[str, Exception]) -> None:
        """One file that cannot be finished holds up no other folder."""
        try:
            step(staged)
        except Exception as error:
            failed.setdefault(staged.folder, error)

    def _note(self, failed: Mapping[str, Exception]) -> None:
        """Log what fails from now on, and what works again, once."""
        before, now = self._failing, self._clock()
        self._failing = {folder: before.get(folder, now) for folder in failed}
        for folder, error in failed.items():
            if folder in before:
                continue
            why = error.message if isinstance(error, DStreamError) else unforeseen(error)
            hint = error.hint if isinstance(error, DStreamError) else None
            log.warning("files cannot be finished", where=self._where(folder), error=why, hint=hint)
        for folder in before.keys() - failed.keys():
            log.info("files are finished again", where=self._where(folder))

    def _where(self, folder: str) -> str:
        return self._store.where if folder == _ALL else f"{self._store.where}: {folder}"

    def _finish(self, staged: Staged) -> None:
        try:
            self._store.finish(staged, self._form.conversion(staged.name.ending))
        except (ValueError, KeyError, OverflowError) as error:
            self._unreadable.add(staged)
            unknown = isinstance(error, KeyError)
            log.error(
                "file not finished",
                file=f"{staged.folder}/{staged.name}",
                where=self._store.where,
                reason="this output writes another format" if unknown else f"{type(error).__name__} in its lines",
                hint="start a router with the format that it was opened with"
                if unknown
                else "its lines are still there",
            )

    def _run(self) -> None:
        while not self._over.is_set():
            self.look()
            self._wake.wait(self._limits.look)
            if not self._over.is_set():
                self._wake.clear()
        if not self._has_heir:
            self.look(last=True)
