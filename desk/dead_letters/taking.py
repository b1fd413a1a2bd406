"""Goes through dead letters under their locks, to reach those that are meant behind others. Decides nothing about them, and sends nothing.

What is not meant is put aside: it stays locked, so that the next ones come. Locks end, and then it comes again, with a lower number than was seen
before. What another consumer has locked (often the run before, which was killed) comes when that lock ends; where order matters, those
behind it wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from common.bus.browsing import Browser, Taken, Taker
from common.errors import TransientError
from common.retry import Backoff
from desk.dead_letters.looking import PATIENCE, Seen, pages, partition

BATCH: Final = 500
_AGAIN: Final = Backoff(first=0.2, longest=5.0)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. `wait`: without a dead letter, after which all that is free was seen. `stuck`: in which only those come that were seen before, and
    nothing is done: the rest is out of reach. `longest_lock`: after which a lock of another consumer must have ended, unless it was renewed.
    `patience`: for which the bus may be unavailable."""

    wait: float = 2.0
    stuck: float = 60.0
    longest_lock: float = 330.0
    look_again: float = 1.0
    patience: float = PATIENCE


@dataclass(frozen=True, slots=True)
class Visit:
    """`first`: it did not come before in this operation."""

    taken: Taken
    first: bool


class Walk:
    """Through the dead letters of one entity that `seen` holds. `browser`: None where order does not matter."""

    def __init__(
        self,
        make: Callable[[], Taker],
        browser: Browser,
        seen: Seen,
        stop: threading.Event,
        *,
        ordered: bool,
        pace: Pace | None = None,
        waiting: Callable[[int], None] = lambda held: None,
    ) -> None:
        """`ordered`: those of a session wait for one before them that is locked elsewhere. `waiting` is called with how many are."""
        self._make, self._browser, self._seen, self._stop = make, browser, seen, stop
        self._ordered, self._pace, self._waiting = ordered, pace or Pace(), waiting
        self._taker: Taker | None = None
        self._visited: dict[int, int] = {}
        self._held_since: float | None = None
        self._last_held: frozenset[int] = frozenset()

    def run(
        self, handle: Callable[[Taker, Sequence[Visit]], None], accounted: Callable[[], int], ended: Callable[[], bool]
    ) -> str | None:
        """Hand over those that are meant until `ended`; why it ended before, or None. Raises what `handle` raises, except that a TransientError only
        gives all back and begins again, until it has lasted too long."""
        try:
            return self._run(handle, accounted, ended)
        finally:
            self._give_all_back()

    def _run(
        self, handle: Callable[[Taker, Sequence[Visit]], None], accounted: Callable[[], int], ended: Callable[[], bool]
    ) -> str | None:
        failing: float | None = None
        attempt, moved, count = 0, time.monotonic(), accounted()
        while not self._stop.is_set() and not ended():
            try:
                page = self._opened().take(most=BATCH, wait=self._pace.wait)
                if not page:
                    if not self._is_held(self._beyond()):
                        return "another consumer holds them, or has removed them"
                    self._stop.wait(self._pace.look_again)
                    continue
                fresh, over = self._hand_over(page, handle)
                failing, attempt = None, 0
            except TransientError:
                now, attempt = time.monotonic(), attempt + 1
                failing = now if failing is None else failing
                self._give_all_back()
                if now - failing > self._pace.patience:
                    raise
                self._stop.wait(_AGAIN.delay(attempt))
                moved = time.monotonic()
                continue
            if fresh or accounted() > count or self._held_since is not None:
                moved, count = time.monotonic(), accounted()
            elif over:
                if not self._is_held(self._beyond()):
                    return "another consumer has removed them, or holds them"
                self._stop.wait(self._pace.look_again)
            elif time.monotonic() - moved > self._pace.stuck:
                return "they lie behind so many others that the locks of the first end before the last are reached: replay or purge those first"
        return None

    def _opened(self) -> Taker:
        if self._taker is None:
            self._taker = self._make()
        return self._taker

    def _give_all_back(self) -> None:
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.close()

    def _hand_over(self, page: Sequence[Taken], handle: Callable[[Taker, Sequence[Visit]], None]) -> tuple[bool, bool]:
        """Whether any came for the first time; and whether there was none among them that may be meant."""
        taker = self._opened()
        within = [each for each in page if self._seen.reaches(each.lying.sequence)]
        if page and self._must_wait(within):
            # Not a moment less than a lock lasts: what this link has fetched ahead may stay locked as long, and would be waited for in turn.
            lasts = max(each.lock_left() for each in page)
            taker.give_back(page)
            self._give_all_back()
            self._stop.wait(min(max(lasts, 0) + self._pace.look_again, self._pace.longest_lock))
            return False, False
        visits = [
            Visit(each, self._first(each.lying.sequence)) for each in within if self._seen.has(each.lying.sequence)
        ]
        meant = {id(visit.taken) for visit in visits}
        taker.put_aside([each for each in page if id(each) not in meant])
        if visits:
            handle(taker, visits)
        fresh = False
        for each in within:
            fresh = self._first(each.lying.sequence) or fresh
            part = partition(each.lying.sequence)
            self._visited[part] = max(self._visited.get(part, -1), each.lying.sequence)
        return fresh, not within

    def _first(self, sequence: int) -> bool:
        return sequence > self._visited.get(partition(sequence), -1)

    def _must_wait(self, page: Sequence[Taken]) -> bool:
        """Whether one that is meant, and lies before one of these in its session, is locked elsewhere. Waits no longer than a lock may last."""
        if not self._ordered or not any(self._first(each.lying.sequence) for each in page):
            return False
        parts = dict[int, dict[int, str | None]]()
        for each in page:  # a session lies in one partition, and in order there
            parts.setdefault(partition(each.lying.sequence), {})[each.lying.sequence] = each.lying.message.session_id
        return self._is_held(frozenset().union(*(self._held(part, mine) for part, mine in parts.items())))

    def _is_held(self, held: frozenset[int]) -> bool:
        """Whether to wait for these. The time begins again when one of them has come."""
        if not held or self._stop.is_set():
            self._held_since = None
            return False
        now = time.monotonic()
        if self._held_since is None or not held >= self._last_held:
            self._held_since = now
        self._last_held = held
        self._waiting(len(held))
        if now - self._held_since >= self._pace.longest_lock:
            self._held_since = None
            return False
        return True

    def _held(self, part: int, mine: dict[int, str | None]) -> frozenset[int]:
        """Those of a partition that are meant between what was visited and the last of `mine`, and lie before one of them in its session."""
        first, last = max(self._visited.get(part, -1) + 1, part << 48), max(mine)
        found = dict[int, str | None]()
        meant = self._seen.between(first, last)
        if all(sequence in mine for sequence in meant):
            return frozenset()  # none is missing, so there is nothing to look for
        for page in pages(self._browser, self._stop, first=first):
            for lying in page:
                if lying.sequence not in mine and self._seen.has(lying.sequence):
                    found[lying.sequence] = lying.message.session_id
            if page and page[-1].sequence >= last:
                break
        return frozenset(
            sequence
            for sequence, session in found.items()
            if any(each > sequence and mine[each] == session for each in mine)
        )

    def _beyond(self) -> frozenset[int]:
        """Of those that are meant and not settled, the first."""
        for page in pages(self._browser, self._stop, first=self._visited.get(0, -1) + 1):
            found = [each.sequence for each in page if self._seen.has(each.sequence) and self._first(each.sequence)]
            if found:
                return frozenset(found)
        return frozenset()
