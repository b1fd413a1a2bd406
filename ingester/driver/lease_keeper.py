"""Takes wanted locks and renews held ones, in a thread of its own, so that a slow lock service does not delay the loop.

The loop asks which locks are held, and decides what happens when a lease has ended. Nothing here waits for the loop.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

import structlog

from common.clock import SteadyClock, seconds_left, steady
from common.errors import DStreamError, LeaseLost, PermanentError, TransientError
from common.retry import jittered
from ingester.driver.fair_share import FairShare
from ingester.locks import Lease, Locks

log = structlog.get_logger("ingester")

_NOT_ASKED: Final = TransientError("the lock service was not asked")
_TURN_SECONDS = 1.0
"""How often the thread looks for work, and so how soon it repeats a failed renewal."""
_SEEK_SECONDS = 5.0
"""How often to look at locks that others hold. A standby takes over within this time after a lease has run out."""
_COUNT_SECONDS = 15.0
"""How often to count other ingesters while no table is missing."""
_JITTER = 0.5
"""The fraction of a pause that chance may take off, so that ingesters do not return to the lock service together."""
_THREADS = 8
"""Requests at once. A thousand leases are renewed within a few seconds."""
_AT_A_TIME = 64
"""Locks to take before the next renewals."""


@dataclass(slots=True)
class _Held:
    """`ended`: why the lease can no longer be used. `failed`: the error of its last renewal, until one succeeds."""

    lease: Lease
    ended: DStreamError | None = None
    failed: TransientError | None = None


class LeaseKeeper:
    """`places`: locks of which each ingester takes one, so that ingesters can be counted. None: tables are not shared.

    `clock`: the steady clock that leases are counted by. `shuffle`: puts a list into an order of this ingester's own.
    `chance`: a random number in [0, 1). `tells`: whether the log says when the lock service is unavailable; a second keeper of the same locks
    need not.
    """

    def __init__(
        self,
        locks: Locks,
        *,
        clock: SteadyClock,
        places: Sequence[str] = (),
        share: FairShare | None = None,
        shuffle: Callable[[list[str]], None] = random.shuffle,
        chance: Callable[[], float] = random.random,
        tells: bool = True,
    ) -> None:
        self._locks = locks
        self._clock = clock
        self._places = tuple(places)
        self._share = share or FairShare()
        self._shuffle = shuffle
        self._chance = chance
        self._tells = tells
        self._guard = threading.Lock()
        self._wanted: set[str] = set()
        self._held: dict[str, _Held] = {}
        self._mine = 0
        """How many of the wanted locks are held. Counted along, because each pass asks for each table."""
        self._refused: dict[str, PermanentError] = {}
        self._news: list[str] = []
        self._live = 1
        self._seek_at = self._renew_at = float("-inf")
        self._chosen: list[str] = []
        """Free locks of the last look that are still to be taken: thousands are taken after one question."""
        self._unavailable = False
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="lease")
        self._releases: list[Future[None]] = []
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    # called by the loop; never waits for the lock service

    def start(self) -> None:
        """Begin to take and renew locks."""
        self._thread.start()

    def want(self, names: Collection[str]) -> None:
        """The locks to take from now on, besides the held ones. Empty while tables could not be read anyway."""
        with self._guard:
            wanted = set(names)
            if not wanted <= self._wanted:
                self._seek_at = float("-inf")
                self._wake.set()
            self._wanted = wanted
            self._mine = len(self._held.keys() & wanted)

    def unwant(self, name: str) -> None:
        """Leave one lock to others, whether it is held, is being taken, or was never held."""
        with self._guard:
            held = self._held.get(name)
            if name in self._wanted:
                self._wanted.remove(name)
                self._mine -= held is not None
        if held is not None:
            self.give_back(held.lease)

    def count_by(self, places: Sequence[str]) -> None:
        """Use these places from now on. They include all earlier ones: an ingester keeps the place that it has."""
        with self._guard:
            self._places = tuple(places)

    def news(self) -> list[str]:
        """The locks that were taken or refused since the last call."""
        with self._guard:
            news, self._news = self._news + list(self._refused), []
            return news

    def lease(self, name: str) -> Lease | None:
        """The lease on a wanted lock; None while it is not held. Raises PermanentError if the service refused it."""
        with self._guard:
            if (error := self._refused.pop(name, None)) is not None:
                raise error
            held = self._held.get(name)
        if held is None or self._usable(held):
            return None if held is None else held.lease
        self.give_back(held.lease)
        return None

    def seconds_left(self, lease: Lease) -> float | None:
        """How long `lease` can still be used; None if it does not run out. Raises LeaseLost, or PermanentError."""
        with self._guard:
            held = self._held.get(lease.name)
            if held is None or held.lease.epoch != lease.epoch:
                raise LeaseLost(f"holding the lock {lease.name}: it was given up")
            if held.ended is not None:
                raise held.ended
            if held.lease.ends_at is None:
                return None
            left = seconds_left(held.lease.ends_at, now=self._clock())
            if left <= 0:
                why = f": {held.failed.message}" if held.failed is not None else ""
                raise LeaseLost(f"holding the lock {lease.name}: it was not renewed in time{why}")
            return left

    def surplus(self) -> int:
        """How many tables to give back, so that the other ingesters get their share."""
        with self._guard:
            return self._share.surplus(mine=self._mine, tables=len(self._wanted), live=self._live)

    def give_back(self, lease: Lease) -> None:
        """Release `lease`, which has ended or is not needed here."""
        self._let_go(lease, self._locks.release)

    def give_back_all(self, *, besides: Collection[str] = ()) -> None:
        """Release all locks and the place, so that others do not count this ingester. Wanted locks are taken again."""
        with self._guard:
            leases = [held.lease for name, held in self._held.items() if name not in besides]
        for lease in leases:
            self.give_back(lease)

    def lost(self, lease: Lease) -> None:
        """Drop `lease`, because its lock has a newer owner."""
        self._let_go(lease, self._locks.lost)

    def close(self, seconds: float = 3.0, *, besides: Collection[str] = ()) -> None:
        """Release all locks, but for `besides`. Those that take longer than `seconds` in all run out by themselves."""
        deadline = steady() + seconds
        self.want(())  # what is being taken is given back at once
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(seconds / 2)
        self.give_back_all(besides=besides)
        wait(self._releases, timeout=max(0.0, deadline - steady()))
        self._pool.shutdown(wait=False, cancel_futures=True)

    # the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                self.turn()
            except Exception as error:  # a defect; without this thread every lease would run out
                if self._stop.is_set():
                    return  # what it waited for was cancelled
                log.error("taking and renewing locks failed, retrying", error=f"{type(error).__name__}: {error}")
            self._wake.wait(self.pause())

    def pause(self) -> float:
        """Seconds until the next turn."""
        if self._chosen:
            return 0.0
        return jittered(_TURN_SECONDS, _JITTER, self._chance)

    def turn(self) -> None:
        """Renew the leases that are due, take the locks that are free."""
        outcomes = [*self._renew(), *self._seek()]
        failures = [failure for failure in outcomes if failure is not None]
        if not outcomes:
            return  # nothing was due, so nothing is known
        if failures and not self._unavailable and self._tells:
            log.warning("lock service unavailable, retrying", error=failures[0].message, hint=failures[0].hint)
        if self._unavailable and not failures and self._tells:
            log.info("lock service available again")
        self._unavailable = bool(failures)

    def _renew(self) -> Iterable[TransientError | None]:
        """Renew all leases at once, so that those of a dead ingester run out together. Repeat failed ones each turn."""
        every, now = self._locks.renew_seconds, self._clock()
        if every is None:
            return ()
        with self._guard:
            due = [held for held in self._held.values() if now >= self._renew_at or held.failed is not None]
        if now >= self._renew_at:
            self._renew_at = now + every
        return _of_those_asked(self._pool.map(self._renew_one, filter(self._usable, due)))

    def _renew_one(self, held: _Held) -> TransientError | None:
        if self._stop.is_set():
            return _NOT_ASKED  # it is given back next, or is to run out
        try:
            held.lease, held.failed = self._locks.renew(held.lease), None
        except TransientError as error:
            held.failed = error
        except DStreamError as error:
            held.ended = error
        return held.failed

    def _seek(self) -> Iterable[TransientError | None]:
        """Find the free locks and take this ingester's share of them. Empty if the service was not asked."""
        now = self._clock()
        if now < self._seek_at:
            return self._take_chosen()
        with self._guard:
            if not self._wanted:
                return ()
            missing, tables = self._wanted - self._held.keys(), len(self._wanted)
            if not (missing or self._places):
                return ()
            self._seek_at = now + jittered(_SEEK_SECONDS if missing else _COUNT_SECONDS, _JITTER, self._chance)
        try:
            held = self._locks.held(missing | frozenset(self._places))
        except TransientError as error:
            return (error,)
        except PermanentError as error:
            with self._guard:
                self._refused.update(dict.fromkeys(missing, error))
            return (None,)
        self._count(held)
        free = sorted(missing - held)
        self._shuffle(free)
        self._chosen = self._share.pick(free, mine=tables - len(missing), tables=tables, live=self._live, now=now)
        return [None, *self._take_chosen()]

    def _take_chosen(self) -> Sequence[TransientError | None]:
        """Take the next locks of the last look. After a failure the others wait for the next look."""
        with self._guard:
            chosen = [name for name in self._chosen if name in self._wanted and name not in self._held]
        some, self._chosen = chosen[:_AT_A_TIME], chosen[_AT_A_TIME:]
        outcomes = _of_those_asked(self._pool.map(self._take, some))
        if any(outcomes):
            self._chosen = []
        return outcomes

    def _count(self, held: Collection[str]) -> None:
        """Count the ingesters, this one included once it has its place."""
        with self._guard:
            placed = [mine for place in self._places if (mine := self._held.get(place)) is not None]
        for place in placed:
            if not self._usable(place):
                self.give_back(place.lease)
        live = sum(place in held for place in self._places)
        if not placed:
            free = next((place for place in self._places if place not in held), None)
            if free is not None and self._take(free) is None:
                live += free in self._held
        self._live = max(1, live)

    def _take(self, name: str) -> TransientError | None:
        """Nothing is asked for a lock that has ceased to be wanted in the queue: what is given back at a stop would wait behind it."""
        with self._guard:
            if not self._needed(name):
                return _NOT_ASKED
        try:
            lease = self._locks.acquire(name)
        except TransientError as error:
            return error
        except PermanentError as error:
            with self._guard:
                self._refused[name] = error
            return None
        if lease is not None and not self._kept(lease):
            self._notify(lease, self._locks.release)
        return None

    def _kept(self, lease: Lease) -> bool:
        """Keep a lock that was taken, unless it is no longer wanted."""
        with self._guard:
            if not self._needed(lease.name):
                return False
            self._held[lease.name] = _Held(lease)
            self._mine += lease.name in self._wanted
            self._news.append(lease.name)
            return True

    def _needed(self, name: str) -> bool:
        """Whether a lock is to be taken, now that the guard is held. A place is of use only beside locks."""
        return name in self._wanted or (bool(self._wanted) and name in self._places)

    def _usable(self, held: _Held) -> bool:
        ends_at = held.lease.ends_at
        return held.ended is None and (ends_at is None or seconds_left(ends_at, now=self._clock()) > 0)

    def _let_go(self, lease: Lease, notify: Callable[[Lease], None]) -> None:
        with self._guard:
            held = self._held.get(lease.name)
            if held is None or held.lease.epoch != lease.epoch:
                return
            del self._held[lease.name]
            self._mine -= lease.name in self._wanted
            self._releases = [release for release in self._releases if not release.done()]
            self._releases.append(self._pool.submit(self._notify, lease, notify))

    def _notify(self, lease: Lease, notify: Callable[[Lease], None]) -> None:
        try:
            notify(lease)
        except DStreamError as error:
            log.debug("lock not given back, its lease will run out", lock=lease.name, error=error.message)


def _of_those_asked(outcomes: Iterable[TransientError | None]) -> list[TransientError | None]:
    return [each for each in outcomes if each is not _NOT_ASKED]
