"""Asks every few seconds which tables a person has paused, in a thread and on a connection of its own: one small question for all tables.

The loop never waits for it. Where there is no answer, what was known before holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from common.errors import DStreamError, PermanentError
from common.periodic import repeat
from ingester.operating.pauses import Pause, Pauses, PausesHidden

log = structlog.get_logger("ingester")

LOOK_SECONDS = 3.0
"""Between two questions: a pause is noticed within five seconds, also by a server that is slow."""

_GONE = (
    "the pauses that were known hold. `dstream pause` makes the table again: pause there what must stay paused, and all else "
    "is resumed; `dstream resume` of a table ends its new pause"
)


@dataclass(frozen=True, slots=True)
class Heard:
    """`paused`: by `TableName.key` in lower case. `resumed`: who ended the pauses that are over since the last look, as far as known."""

    paused: Mapping[str, Pause] = field(default_factory=dict)
    resumed: Mapping[str, Pause] = field(default_factory=dict)


class PauseLook:
    """`pauses` belongs to this object, and to one thread at a time."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._known: Mapping[str, Pause] = {}
        self._refused = False

    def first(self) -> Heard:
        """Before anything is read: an ingester that starts must not read a table that is paused.

        Raises TransientError and PermanentError. Only the missing right is no reason not to start: installations have worked without it.
        """
        try:
            self._look(lambda heard: None)
        except PausesHidden as error:
            self._cannot(error, effect="every table is read, paused or not")
        return Heard(self._known)

    @contextmanager
    def running(self, tell: Callable[[Heard], None]) -> Iterator[None]:
        """While its context is open, `tell` hears of each change."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(tell, stop), name="pauses", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()  # nobody waits for a question that has no answer: the thread ends with the process
            thread.join(1.0)

    def _run(self, tell: Callable[[Heard], None], stop: threading.Event) -> None:
        repeat(lambda: self._tried(tell), "pauses", stop, every=LOOK_SECONDS)
        self._pauses.close()

    def _tried(self, tell: Callable[[Heard], None]) -> None:
        try:
            self._look(tell)
        except PermanentError as error:
            self._cannot(error, effect="what was known of pauses holds")
        except DStreamError as error:  # the loop logs that the server is away
            log.debug("pauses not asked, retrying", error=error.message)

    def _look(self, tell: Callable[[Heard], None]) -> None:
        answer = self._pauses.paused()
        if answer is None and self._known:
            raise PermanentError("reading pauses: the table that kept them is gone", hint=_GONE)
        found = answer or {}
        over = {key: last for key in self._known.keys() - found.keys() if (last := self._pauses.ended(key))}
        if self._refused:
            self._refused = False
            log.info("pauses of tables can be read again")
        if found != self._known:
            self._known = found
            tell(Heard(found, over))

    def _cannot(self, error: PermanentError, *, effect: str) -> None:
        if not self._refused:
            self._refused = True
            log.warning("pauses of tables cannot be read", error=error.message, effect=effect, hint=error.hint)
