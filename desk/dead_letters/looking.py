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

PAGE: Final = 250
PATIENCE: Final = 120.0
"""Seconds for which a store may be unavailable before an operation ends with its error."""
MOST_NUMBERS: Final = 500_000
"""Sequence numbers that are remembered, of eight bytes each."""
_AGAIN: Final = Backoff(first=0.2, longest=5.0)

_T = TypeVar("_T")


@dataclass(slots=True)
class Seen:
    """`last`: the highest sequence number of those that are meant, by partition. `complete`: whether all were looked at. `numbers`: of those that
    are meant, while they rise and are not too many."""

    examined: int = 0
    matched: int = 0
    last: dict[int, int] = field(default_factory=dict)
    complete: bool = True
    numbers: array[int] | None = field(default_factory=lambda: array("q"))

    def met(self, sequence: int) -> None:
        """This one is meant."""
        self.matched += 1
        self.last[partition(sequence)] = sequence
        if self.numbers is not None:
            if len(self.numbers) >= MOST_NUMBERS or (self.numbers and self.numbers[-1] >= sequence):
                self.numbers = None
            else:
                self.numbers.append(sequence)

    def between(self, first: int, last: int) -> Sequence[int] | None:
        """The numbers of those that are meant, from `first` to `last`; None: not remembered."""
        if self.numbers is None:
            return None
        return self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]

    def has(self, sequence: int) -> bool:
        """Whether a dead letter may be one of those: later ones came after the look."""
        return sequence <= self.last.get(partition(sequence), -1)


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


def pages(
    browser: Browser, stop: threading.Event, *, first: int = 0, until: float | None = None
) -> Iterator[Sequence[Lying]]:
    """All, in pages, until `stop` or the steady clock shows `until`. The last page is empty when the end was reached."""
    while not stop.is_set() and (until is None or time.monotonic() < until):
        at = first
        page = patiently(lambda: browser.page(first=at, most=PAGE), stop)  # noqa: B023
        yield page
        if not page:
            return
        first = page[-1].sequence + 1


def look(
    browser: Browser,
    chosen: Chooses,
    stop: threading.Event,
    *,
    met: Callable[[Lying], None] = lambda lying: None,
    tell: Callable[[int], None] = lambda examined: None,
    until: float | None = None,
    first: int = 0,
    last: int | None = None,
) -> Seen:
    """`met` is called with each that is meant, in order. `first`, `last`: sequence numbers between which all of them are."""
    seen, ended = Seen(), False
    for page in pages(browser, stop, first=first, until=until):
        ended = not page or (last is not None and page[-1].sequence >= last)
        seen.examined += len(page)
        for lying in page:
            if chosen(lying):
                seen.met(lying.sequence)
                met(lying)
        tell(seen.examined)
        if ended:
            break
    seen.complete = ended
    return seen
