"""Decides which slot asks the queue for a session, and what the answers say about waiting sessions. Opens none itself."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

SLOW = 4
"""A wait is long when it takes this many times the usual time to open a session. If a request for a session takes that long, none is waiting; if the
next message of an open session does, opening the session again costs less."""


GIVEN_UP = 27.0
"""Seconds beyond its wait after which a request for a session without an answer no longer counts; its call ends after 20."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A request for a session: since when, whether on behalf of all slots, and for how many seconds it may stay open."""

    asked_at: float
    for_all: bool
    wait: float


class Gate:
    """Decides which slot asks for sessions. It keeps idle slots from all asking at once, and knows whether a session is waiting for a slot.

    While there is nothing to do, one slot asks for all, and leaves its request open for longer each time: each request is a connection, and eight of
    them every three seconds would be useless traffic and cost. A request without an answer means that no session is waiting. When no slot is free to
    ask, nobody knows.
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
        """The caller's request, to be passed to `leave`; None: not its turn, try again later.

        It may stay open for `first` seconds, and after requests without an answer for twice as long each time, up to `longest`.
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
        """Also when the asking slot has used up its time: its call has a deadline, but the others do not rely on it."""
        return self._asker is None or self._overdue(self._asker)

    def _overdue(self, question: Question) -> bool:
        return self._clock() - question.asked_at > question.wait + GIVEN_UP

    def leave(self, question: Question, *, found: bool, failed: bool = False) -> None:
        """The request was answered, by a session or by none; or it `failed`, and the next one must show soon whether the queue is there."""
        now = self._clock()
        with self._guard:
            self._open.remove(question)
            self._idle = not found
            self._in_vain = 0 if found or failed else self._in_vain + 1
            if found:
                # A long answer was mostly a wait for a session to come; several in a row mean a slow link.
                self._opening = min(2 * self._opening, now - question.asked_at)
            else:
                self._last_empty = now
            if self._asker is question:
                self._asker = None
                self._free.notify()

    @property
    def opening(self) -> float:
        """Seconds that it takes to open a waiting session; infinite before the first one."""
        return self._opening

    def nobody_waits(self, within: float) -> bool:
        """Whether a request has been open for longer than an answer takes, or one had no answer in the last `within` seconds."""
        now = self._clock()
        with self._guard:
            return now - self._last_empty <= within or any(
                now - question.asked_at > SLOW * self._opening and not self._overdue(question)
                for question in self._open
            )
