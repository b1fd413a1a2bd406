"""Looks through dead letters without taking them: how many are meant, and up to where. The same for a plan, a count and a replay's beginning."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from common.bus.browsing import Browser, Lying
from common.errors import TransientError
from common.retry import Backoff
from desk.dead_letters.choosing import Chooses
from desk.messages.peeking import peeked

PAGE: Final = 250
PATIENCE: Final = 120.0
FIRST_PATIENCE: Final = 30.0
"""Seconds after which a place that has not answered at all is not asked again. An attempt ends by itself, after ten at most."""
"""Seconds for which a store may be unavailable before an operation ends with its error."""
MOST_NUMBERS: Final = 2_000_000
"""Dead letters of one operation, of nine bytes each; those behind them are for the next one."""
_AGAIN: Final = Backoff(first=0.2, longest=5.0)

_T = TypeVar("_T")


_SETTLED, _TOLD = 1, 2


@dataclass(slots=True)
class Seen:
    """The dead letters that are meant, by number: one that dies later keeps the number that it had, which may be lower, and is none of these.
    `complete`: whether all were looked at. `open`: how many are neither settled nor left. `before`: how many others lie before the first."""

    examined: int = 0
    before: int = 0
    matched: int = 0
    open: int = 0
    complete: bool = True
    _numbers: array[int] = field(default_factory=lambda: array("q"))
    _marks: bytearray = field(default_factory=bytearray)

    def met(self, sequence: int) -> None:
        """This one is meant. Numbers rise."""
        if self._numbers and sequence <= self._numbers[-1]:
            return
        self._numbers.append(sequence)
        self._marks.append(0)
        self.matched += 1
        self.open += 1

    def between(self, first: int, last: int) -> Sequence[int]:
        """The numbers of those that are meant, from `first` to `last`."""
        return self._numbers[bisect_left(self._numbers, first) : bisect_right(self._numbers, last)]

    def has(self, sequence: int) -> bool:
        return self._at(sequence) is not None

    def reaches(self, sequence: int) -> bool:
        """Whether one of its partition that is meant has this number or a higher one."""
        at = bisect_left(self._numbers, sequence)
        return at < len(self._numbers) and (partition(self._numbers[at]) == partition(sequence))

    def settle(self, sequence: int) -> bool:
        """It is sent, removed or left for good. Whether that is new."""
        fresh = self._marked(sequence, _SETTLED)
        self.open -= fresh
        return fresh

    def settled(self, sequence: int) -> bool:
        at = self._at(sequence)
        return at is not None and bool(self._marks[at] & _SETTLED)

    def told(self, sequence: int) -> bool:
        """A person will read about it. Whether that is new."""
        return self._marked(sequence, _TOLD)

    def _at(self, sequence: int) -> int | None:
        at = bisect_left(self._numbers, sequence)
        return at if at < len(self._numbers) and self._numbers[at] == sequence else None

    def _marked(self, sequence: int, mark: int) -> bool:
        at = self._at(sequence)
        if at is None or self._marks[at] & mark:
            return False
        self._marks[at] |= mark
        return True


def partition(sequence: int) -> int:
    """Of a partitioned entity the topmost 16 bits are the partition's
    (https://learn.microsoft.com/azure/service-bus-messaging/message-sequencing)."""
    return sequence >> 48


def patiently(call: Callable[[], _T], stop: threading.Event, *, patience: float = PATIENCE) -> _T:
    """Its result, tried again after a TransientError."""
    began, attempt = time.monotonic(), 0
    while True:
        try:
            return call()
        except TransientError:
            attempt += 1
            if time.monotonic() - began > patience or stop.wait(_AGAIN.delay(attempt)):
                raise


def reached(browser: Browser, stop: threading.Event, *, patience: float) -> None:
    """Once the place has answered. Raises TransientError with the time that all attempts took together."""
    began, attempts = time.monotonic(), 0

    def ask() -> None:
        nonlocal attempts
        attempts += 1
        browser.page(first=0, most=1)

    try:
        patiently(ask, stop, patience=patience)
    except TransientError as error:
        if attempts == 1:
            raise
        told = f"{error.message}; it was asked {attempts} times in {time.monotonic() - began:.0f} s"
        raise TransientError(told, hint=error.hint) from error


def pages(
    browser: Browser, stop: threading.Event, *, first: int = 0, until: float | None = None
) -> Iterator[Sequence[Lying]]:
    """All, in pages, until `stop` or the steady clock shows `until`. The last page is empty when the end was reached."""

    def patient(at: int, most: int) -> Sequence[Lying]:
        left = PATIENCE if until is None else max(0.0, until - time.monotonic())
        return patiently(lambda: browser.page(first=at, most=most), stop, patience=left)

    def over() -> bool:
        return stop.is_set() or (until is not None and time.monotonic() >= until)

    if over():
        return
    for page in peeked(patient, first, PAGE):
        yield page
        if over():
            return


def look(
    browser: Browser,
    chosen: Chooses,
    stop: threading.Event,
    *,
    met: Callable[[Lying], None] = lambda lying: None,
    deferred: Callable[[Lying], None] = lambda lying: None,
    tell: Callable[[int], None] = lambda examined: None,
    until: float | None = None,
    first: int = 0,
    last: int | None = None,
) -> Seen:
    """`met` is called with each that is meant, in order; `deferred` instead with one that nobody can take.
    `first`, `last`: sequence numbers between which all of them are."""
    seen, ended = Seen(), False
    for page in pages(browser, stop, first=first, until=until):
        ended = not page or (last is not None and page[-1].sequence >= last)
        seen.examined += len(page)
        for lying in page:
            if not chosen(lying):
                seen.before += not seen.matched
            elif lying.state == "deferred":
                deferred(lying)
            else:
                seen.met(lying.sequence)
                met(lying)
        tell(seen.examined)
        if ended or seen.matched >= MOST_NUMBERS:
            break
    seen.complete = ended
    return seen
