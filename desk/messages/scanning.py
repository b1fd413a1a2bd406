"""Looking through a shelf from one sequence number to another, within a time. Takes nothing; the browser only goes forward.

The newest first: the end is found by asking for single messages at numbers that double and then halve, about 40 requests at most; then windows of
numbers are read forward, each before the one that was read last. Numbers have gaps, so after a window that held little a larger one follows.
In a partitioned entity the highest bits of a number are its partition's, so the order there is each partition's own.
https://learn.microsoft.com/azure/service-bus-messaging/message-sequencing
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from common.bus.browsing import Browser, Lying
from common.errors import ConfigurationError, TransientError
from desk.messages.choosing import Chooses
from desk.messages.peeking import peeked

AT_ONCE = 250
"""Messages in one request."""
SECONDS = 2.0
FIRST = 1
_LAST = 2**63 - 1
_CURSOR = re.compile(r"([<>])(\d{1,19})")
_PARTITIONED = 1 << 48

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to go on: with messages whose number is `at` or higher, or with `back` those below it."""

    at: int
    back: bool = False

    def __str__(self) -> str:
        return f"{'<' if self.back else '>'}{self.at}"

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Raises ConfigurationError."""
        found = _CURSOR.fullmatch(text)
        if found is None or int(found[2]) > _LAST:
            raise ConfigurationError([f"after: {text[:40]!r} was not given out as `next` by this list"])
        return cls(int(found[2]), found[1] == "<")


@dataclass(slots=True)
class Scan:
    """What was found. `at`: where to go on; None: nothing is left. `trouble`: why it ended early."""

    found: list[Lying] = field(default_factory=list)
    examined: int = 0
    at: Cursor | None = None
    trouble: TransientError | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """`most` messages that `fits`; no message from `until` on is looked at where the numbers rise with time."""

    fits: Chooses
    most: int
    ends: float
    clock: Clock
    until: datetime | None = None


def forward(browser: Browser, look: Look, first: int) -> Scan:
    """From `first` on. Raises what the browser raises if nothing was examined yet."""
    scan = Scan(at=Cursor(first))
    for page in peeked(partial(_page, browser, scan), first, min(AT_ONCE, max(look.most, 50))):
        if not page:
            if scan.trouble is None:
                scan.at = None
            break
        for lying in page:
            if look.until is not None and _beyond(lying, look.until):
                scan.at = None
                return scan
            scan.examined += 1
            if look.fits(lying):
                scan.found.append(lying)
                if len(scan.found) >= look.most:
                    scan.at = Cursor(lying.sequence + 1)
                    return scan
        scan.at = Cursor(page[-1].sequence + 1)
        if look.clock() >= look.ends:
            break
    return scan


def backward(browser: Browser, look: Look, upper: int | None) -> Scan:
    """Messages below `upper`, the highest first; None: from the end."""
    scan = Scan()
    lowest = next(iter(browser.page(first=FIRST, most=1)), None)
    if lowest is None:
        return scan
    upper = _end(browser, lowest.sequence) if upper is None else upper
    width = AT_ONCE
    while upper > lowest.sequence:
        scan.at = Cursor(upper, back=True)
        lower = max(lowest.sequence, upper - width)
        window = _window(browser, scan, lower, upper)
        if window is None:
            return scan
        for lying in reversed(window):
            scan.examined += 1
            upper = lying.sequence
            scan.at = Cursor(upper, back=True)
            if look.fits(lying):
                scan.found.append(lying)
                if len(scan.found) >= look.most:
                    return scan
        upper, width = lower, width * 2 if len(window) < AT_ONCE // 4 else AT_ONCE
        scan.at = Cursor(upper, back=True)
        if look.clock() >= look.ends and upper > lowest.sequence:
            return scan
    scan.at = None
    return scan


def first_since(browser: Browser, since: datetime) -> int:
    """A number from which on messages were put in at `since` or later: by halving. Only where numbers rise with time, so not for dead letters."""
    low = next(iter(browser.page(first=FIRST, most=1)), None)
    if low is None or low.sequence >= _PARTITIONED or _at_or_after(low, since):
        return FIRST
    least, above = low.sequence, _end(browser, low.sequence)
    while above - least > AT_ONCE:
        middle = (least + above) // 2
        found = next(iter(browser.page(first=middle, most=1)), None)
        if found is None or found.sequence >= above or _at_or_after(found, since):
            above = middle
        else:
            least = found.sequence
    return least


def _end(browser: Browser, low: int) -> int:
    """A number above the last message's: by doubling the distance, then by halving it."""
    least, step = low, AT_ONCE
    while least + step < _LAST:
        found = next(iter(browser.page(first=least + step, most=1)), None)
        if found is None:
            break
        least, step = found.sequence, step * 2
    above = min(least + step, _LAST)
    while above - least > AT_ONCE:
        middle = (least + above) // 2
        found = next(iter(browser.page(first=middle, most=1)), None)
        if found is None:
            above = middle
        else:
            least = max(found.sequence, middle)
    return above


def _window(browser: Browser, scan: Scan, lower: int, upper: int) -> Sequence[Lying] | None:
    """All with numbers from `lower` to below `upper`; None if it failed after something was examined."""
    held: list[Lying] = []
    for page in peeked(partial(_page, browser, scan), lower, AT_ONCE):
        if scan.trouble is not None:
            return None
        held += [lying for lying in page if lying.sequence < upper]
        if not page or page[-1].sequence >= upper - 1:
            break
    return held


def _page(browser: Browser, scan: Scan, first: int, most: int) -> Sequence[Lying]:
    """A page; empty with `scan.trouble` set if it fails after others did not."""
    try:
        return browser.page(first=first, most=most)
    except TransientError as error:
        if not scan.examined:
            raise
        scan.trouble = error
        return ()


def _at_or_after(lying: Lying, moment: datetime) -> bool:
    return lying.enqueued is None or lying.enqueued >= moment


def _beyond(lying: Lying, moment: datetime) -> bool:
    """A scheduled or deferred message may have another time than its neighbours."""
    return lying.state == "active" and lying.enqueued is not None and lying.enqueued >= moment
