"""Who of the slots asks the queue for a session, and what their questions say of the sessions that wait. Opens none itself."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

SLOW = 4
"""What takes this many times as long as opening a session does usually is slow: an answer to the question for one (there is none then that
waits), and the next message of an open one (to wait longer loses more than opening it again)."""


GIVEN_UP = 27.0
"""Seconds beyond its wait after which a question for a session that has no answer is as good as none; its call ends after 20."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """For a session: since when, whether on behalf of all slots, and for how long it may stand open, in seconds."""

    asked_at: float
    for_all: bool
    wait: float


class Gate:
    """Who asks for sessions. It keeps idle slots from all asking at once, and knows whether a session is waiting for a slot.

    While there is nothing to do, one slot asks for all, and lets its question stand for longer each time: each question is a connection; eight of
    them every three seconds for nothing would be noise on the wire and in the bill. A question that is not answered says that no session waits.
    Where no slot is free to ask, nobody knows.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._in_vain = 0
        self._guard = threading.Lock()
        self._free = threading.Condition(self._guard)
        self._idle = False
        self._open: list[Question] = []
        self._asker: Question | None = None
        self._last_empty = -math.inf
        self._opening = math.inf

    def enter(
        self, stop: threading.Event, patience: float, *, first: float = 3.0, longest: float = 30.0
    ) -> Question | None:
        """The caller's question, to be handed back to `leave`; None: not its turn, ask again later.

        It may stand open for `first` seconds, and after others without an answer for twice as long each time, up to `longest`.
        """
        with self._guard:
            for_all = self._idle
            if for_all and (not self._free.wait_for(self._nobody_asks, patience) or stop.is_set()):
                return None
            wait = min(longest, first * 2 ** min(self._in_vain, 20))
            question = Question(self._clock(), for_all, wait)
            self._open.append(question)
            if for_all:
                self._asker = question
        return question

    def _nobody_asks(self) -> bool:
        """Also when the one who does has had more than its time: the call has a bound, and the others do not depend on that it holds."""
        return self._asker is None or self._overdue(self._asker)

    def _overdue(self, question: Question) -> bool:
        return self._clock() - question.asked_at > question.wait + GIVEN_UP

    def leave(self, question: Question, *, found: bool, failed: bool = False) -> None:
        """It is answered, by a session or by none; or it `failed`, and the next is to show soon whether the queue is there."""
        now = self._clock()
        with self._guard:
            self._open.remove(question)
            self._idle = not found
            self._in_vain = 0 if found or failed else self._in_vain + 1
            if found:
                # Most of a long answer was waiting for a session to come; a few of them in a row are a slow link.
                self._opening = min(2 * self._opening, now - question.asked_at)
            else:
                self._last_empty = now
            if self._asker is question:
                self._asker = None
                self._free.notify()

    @property
    def opening(self) -> float:
        """Seconds that it takes to open a session which waits; infinite while none was."""
        return self._opening

    def nobody_waits(self, within: float) -> bool:
        """Whether a question has been open for longer than an answer takes, or had none in the last `within` seconds."""
        now = self._clock()
        with self._guard:
            return now - self._last_empty <= within or any(
                now - question.asked_at > SLOW * self._opening and not self._overdue(question)
                for question in self._open
            )
