"""One part of what is looked at, in a thread of its own: a store that is slow or mute leaves the last answer, which grows old, and holds up nothing.

No second question goes out while the first has no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from common.clock import SteadyClock
from common.errors import DStreamError
from common.in_time import begun
from common.unread import Unread

log = structlog.get_logger("console")

T = TypeVar("T")

_SHARE = 40.0
"""A part that takes a tenth of a second is asked again after 40 tenths at the earliest: looking must cost the stores little."""
_LONG_REST_SECONDS = 20.0
"""No longer rest for that reason: what is shown would be too old to act on."""
_LEAST_SHARE = 8.0
"""But a part that takes a minute rests for eight, however old that makes what is shown."""
_OLD_SECONDS = 10.0
"""An answer is never old before, however often it is asked for."""
_LATE_SECONDS = 15.0
"""After so long without an answer it is reported that there is none."""

Question = Callable[[list[Unread]], T]
"""Returns the answer, and adds what it could not read. It may raise DStreamError."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """`value`: the last one. `age`: of it, in seconds; None if there is none yet. `unread`: what it lacks, or why there is no newer one.

    `old`: two questions should have been answered since."""

    value: T
    age: float | None
    unread: tuple[Unread, ...] = ()
    old: bool = False


class Part(Generic[T]):
    """`what`: a few words. `every`: seconds between two questions. `nothing`: the value before the first answer. For one thread."""

    def __init__(self, what: str, every: float, ask: Question[T], nothing: T, *, clock: SteadyClock) -> None:
        self.what = what
        self._every = every
        self._ask = ask
        self._clock = clock
        self._value = nothing
        self._unread: tuple[Unread, ...] = ()
        self._answered: float | None = None
        self._asked = 0.0
        self._took = 0.0
        self._due: float = clock()
        self._pending: tuple[Future[T], list[Unread]] | None = None

    def turn(self) -> bool:
        """Take in an answer, or ask if it is time. Returns whether something is new. Waits for nothing."""
        new = self._taken()
        if self._pending is None and self._clock() >= self._due:
            unread = list[Unread]()
            self._asked = self._clock()
            self._pending = begun(lambda: self._ask(unread), name=f"look at {self.what}"), unread
        return new

    def soon(self) -> None:
        """Ask at the next turn: something was changed."""
        self._due = self._clock()

    def answer(self) -> Answer[T]:
        age = None if self._answered is None else self._clock() - self._answered
        waits = self._clock() - self._asked
        if self._pending is None or waits < _LATE_SECONDS:
            return Answer(self._value, age, self._unread, self._is_old(age))
        last = "nothing is known yet" if age is None else f"what is shown is {age:.0f} s old"
        unread = (*self._unread, Unread(self.what, f"no answer for {waits:.0f} s; {last}"))
        return Answer(self._value, age, unread, self._is_old(age))

    def _is_old(self, age: float | None) -> bool:
        return age is not None and age > max(_OLD_SECONDS, 2 * (self._rest(self._took) + self._took))

    def _rest(self, took: float) -> float:
        """Seconds between an answer that took so many seconds and the next question."""
        return max(self._every, min(_SHARE * took, _LONG_REST_SECONDS), _LEAST_SHARE * took)

    def _taken(self) -> bool:
        if self._pending is None or not self._pending[0].done():
            return False
        (future, unread), self._pending = self._pending, None
        now = self._clock()
        self._due = now + self._rest(now - self._asked)
        try:
            self._value = future.result()
            self._unread, self._answered, self._took = tuple(unread), now, now - self._asked
        except DStreamError as error:
            self._unread = (*unread, Unread(self.what, error.message, error.hint))
        except Exception as error:  # a defect of one part hides nothing of the others
            log.exception("a look failed", of=self.what, hint="this is a defect of DStream: report this line")
            self._unread = (Unread(self.what, f"unexpected {type(error).__name__}; the log has it"),)
        return True
