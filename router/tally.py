"""What the router did, in numbers; metrics and the line at the end read them. Decides nothing.

Every process counts for itself (`Tally`). What it tells of that at a moment (`Figures`) can be pickled, and adds up.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from common.metrics import MESSAGES, SECONDS, Distribution, resident_bytes
from router.awake import Awake

UNKNOWN = "unknown"
"""The label of all topics that no table has: their names come with the messages, and each would be a time series for good."""

STUCK_SECONDS = 240.0
"""After so long without a turn a slot counts as stuck. The most that it does in between, each call with a bound of its own, is to have a topic
made that was deleted (three calls of 60 s with their repetitions, 15 s for one that another makes too), to open the link to it (20 s) and to
send a batch (15 s): 230 s."""

START_STUCK_SECONDS = 120.0
"""The same for a start, between one link that was opened or refused and the next: looking for the queue takes 20 s, and a link 20 s."""

HUNG_SECONDS = 300.0
"""After so long the whole router is to be started again: whoever replaces what is stuck has had its time."""

BLINK = 30.0
"""Seconds that count for stillness between two looks at most: three of those that a router takes (10 s; a worker takes one every 5 s)."""

AWAY_SECONDS = 10.0
"""After so long without a send that succeeds a topic counts as away. Shorter outages heal by the first repetitions."""
_FORGOTTEN_SECONDS = 120.0
"""After so long without a further failure it does no more: another worker, or nobody, has something to send to it."""


@dataclass(slots=True)
class _Outage:
    since: float
    last: float
    why: str


@dataclass(frozen=True, slots=True)
class Stillness:
    """What has stood still for longest, in words ("slot-3 has not turned"), for how many seconds, and after how many it is stuck."""

    seconds: float = 0.0
    limit: float = math.inf
    what: str = ""

    @property
    def stuck(self) -> bool:
        return self.seconds > self.limit

    def __str__(self) -> str:
        return f"{self.what} for {self.seconds:.0f} s"


def stillest(found: Iterable[Stillness]) -> Stillness:
    """The one that is nearest to its limit, or farthest past it."""
    return max(found, key=lambda still: still.seconds / still.limit, default=Stillness())


@dataclass(frozen=True, slots=True)
class Held:
    """Sessions that are held without a slot: until their destination takes something, and because of `on_poison = "stop"`. And those that
    fail again and again."""

    parked: int = 0
    stopped: int = 0
    failing: int = 0


_NAMED = 20
"""Topics that readiness names."""

STARTING = "not all links are open yet; wait for `router started` in the log, which also has what fails"
STUCK_HINT = 'what hangs is killed and started again by itself; if it lasts, restart and see "When a process hangs" in docs/operations.md'
_AT_POISON = "sessions stand at a poisoned message: `session stopped at a poisoned message` in the log names each with its remedy"
_FAILING = "sessions fail again and again: `session fails again and again` in the log names them with the cause"


@dataclass(frozen=True, slots=True)
class Figures:
    """A tally at a moment. `still`: the slot whose last turn is longest ago; `away`: why the queue is not to be had, None while it is.

    `receiving`: its links were opened, and a slot has asked for messages. `topics_away`: why nothing can be sent to them, by topic.
    `sessions_lost`: given up, by reason. `replaced`: workers, by reason. `destinations`: topics that are sent to. `memory`: resident octets, by
    worker.
    """

    routed: Counter[str]
    dead_lettered: Counter[str]
    retries: Counter[str]
    lost_locks: int
    batches: Distribution
    seconds: Distribution
    receiving: bool
    still: Stillness
    away: str | None
    topics_away: Mapping[str, str] = field(default_factory=dict)
    sessions_lost: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=Counter)
    destinations: frozenset[str] = frozenset()
    parked: int = 0
    stopped: int = 0
    failing: int = 0
    memory: Mapping[int, int] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    """Used shares of the quotas of queue and topics, as far as they are looked at."""

    def ended(self) -> Figures:
        """What is left of them when their process is gone: what it did stays done, what it was is no more."""
        return replace(
            self,
            receiving=False,
            still=Stillness(),
            away=None,
            topics_away={},
            parked=0,
            stopped=0,
            failing=0,
            memory={},
        )

    def __add__(self, other: Figures) -> Figures:
        """Two processes as one: it is as well as the one that fares worse, and receives if one of them does."""
        return Figures(
            self.routed + other.routed,
            self.dead_lettered + other.dead_lettered,
            self.retries + other.retries,
            self.lost_locks + other.lost_locks,
            self.batches + other.batches,
            self.seconds + other.seconds,
            self.receiving or other.receiving,
            stillest((self.still, other.still)),
            self.away or other.away,
            {**self.topics_away, **other.topics_away},
            self.sessions_lost + other.sessions_lost,
            self.replaced + other.replaced,
            self.destinations | other.destinations,
            self.parked + other.parked,
            self.stopped + other.stopped,
            self.failing + other.failing,
            {**self.memory, **other.memory},
            {**self.fills, **other.fills},
        )

    def alive(self) -> str | None:
        """Why the router should be started again."""
        return str(self.still) if self.still.seconds > HUNG_SECONDS else None

    def ready(self) -> str | None:
        """Why it is not at work."""
        if not self.receiving:
            return f"starting: {self.still}; {STUCK_HINT}" if self.still.stuck else f"starting: {STARTING}"
        if self.still.stuck:
            return f"{self.still}; {STUCK_HINT}"
        if self.away is not None:
            return f"the ingest queue is away: {self.away}"
        return "\n".join(self._away_or_stopped()) or None

    def _away_or_stopped(self) -> Iterator[str]:
        """A line each: topics that tables have first, then others, then sessions."""
        away = sorted(self.topics_away.items(), key=lambda each: (each[0] not in self.destinations, each[0]))
        for topic, why in away[:_NAMED]:
            yield f"topic {topic} is unavailable: {why}"
        if len(away) > _NAMED:
            yield f"and {len(away) - _NAMED} more topics"
        if self.stopped:
            yield f"{self.stopped} {_AT_POISON}"
        if self.failing:
            yield f"{self.failing} {_FAILING}"

    @property
    def receives(self) -> bool:
        """Whether the queue is received from."""
        return self.receiving and self.away is None


@dataclass(slots=True)
class Tally:
    """Counts since the start; every change under one lock, since the slots are threads."""

    routed: Counter[str] = field(default_factory=Counter)
    """Messages accepted by a topic and completed, by topic."""
    dead_lettered: Counter[str] = field(default_factory=Counter)
    """Messages moved to the dead-letter queue, by reason."""
    lost_locks: int = 0
    """Messages sent whose lock was gone before they were completed: they come again."""
    retries: Counter[str] = field(default_factory=Counter)
    """Failed sends, by topic."""
    sessions_lost: Counter[str] = field(default_factory=Counter)
    """Sessions given up, or batches of a queue without, by what was lost: `lock_lost`, or `unanswered`."""
    destinations: frozenset[str] = frozenset()
    """Topics that are sent to."""
    held: Callable[[], Held] = Held
    """Asked for the sessions that are held without a slot, or fail, from any thread."""
    interrupted: Callable[[], str | None] = lambda: None
    """Asked why nothing can be received, from any thread."""
    worker: int = 1
    """The number of this process."""
    clock: Callable[[], float] = time.monotonic
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _batches: Distribution = field(default_factory=lambda: Distribution(MESSAGES))
    _seconds: Distribution = field(default_factory=lambda: Distribution(SECONDS))
    _receiving: bool = False
    _awake: Awake = field(init=False)
    _turns: dict[str, float] = field(default_factory=dict)
    """When each slot last turned, by the clock above; and so the start's last link."""
    _opening: float | None = None
    _away: str | None = None
    _outages: dict[str, _Outage] = field(default_factory=dict)
    _fills: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._awake = Awake(self.clock, BLINK)

    def filled(self, shares: Mapping[str, float]) -> None:
        """Of their quotas, queue and topics have used these."""
        self._fills = dict(shares)

    def topic_failed(self, topic: str, why: str) -> None:
        """A send to it failed; by `why` a person knows what to do."""
        now = self.clock()
        with self._guard:
            known = self._outages.get(topic)
            since = now if known is None or now - known.last > _FORGOTTEN_SECONDS else known.since
            self._outages[topic] = _Outage(since, now, why)

    def destination_added(self, topic: str) -> None:
        """It is sent to from now on."""
        with self._guard:
            self.destinations |= {topic}

    def topic_works(self, topic: str) -> None:
        """It took what was sent to it."""
        with self._guard:
            self._outages.pop(topic, None)

    def count_routed(self, topic: str, messages: int, *, lost: int) -> None:
        with self._guard:
            self.routed[topic] += messages - lost
            self.lost_locks += lost

    def count_lost(self, reason: Literal["lock_lost", "unanswered"]) -> None:
        """What was received is given up, and comes again."""
        with self._guard:
            self.sessions_lost[reason] += 1

    def count_dead_letter(self, reason: str) -> None:
        with self._guard:
            self.dead_lettered[reason] += 1

    def count_retry(self, topic: str) -> None:
        with self._guard:
            self.retries[topic] += 1

    def count_batch(self, messages: int) -> None:
        """So many were received together."""
        with self._guard:
            self._batches.add(messages)

    def count_settled(self, seconds: float) -> None:
        """What was received together was sent and completed after so long, or as much of it as went to one topic."""
        with self._guard:
            self._seconds.add(seconds)

    def opening(self) -> None:
        """The start has begun to open links, or has come to an end with one of them."""
        with self._guard:
            self._opening = self._awake()

    def turn(self) -> None:
        """The slot whose thread this is goes on with its loop."""
        with self._guard:
            self._turns[threading.current_thread().name] = self._awake()

    def turned(self, *, away: str | None = None) -> None:
        """The slot whose thread this is asked for messages: it was answered, or the queue is `away` for the reason given."""
        self.turn()
        self._away = away
        self._receiving = self._receiving or away is None

    def figures(self) -> Figures:
        """Everything as it is now; from any thread."""
        held, interrupted, resident = self.held(), self.interrupted(), resident_bytes()
        with self._guard:
            return Figures(
                Counter(self.routed),
                Counter(self.dead_lettered),
                Counter(self.retries),
                self.lost_locks,
                self._batches.copy(),
                self._seconds.copy(),
                self._receiving,
                self._still(),
                self._away or interrupted,
                self._topics_away(),
                Counter(self.sessions_lost),
                destinations=self.destinations,
                parked=held.parked,
                stopped=held.stopped,
                failing=held.failing,
                memory={} if resident is None else {self.worker: resident},
                fills=self._fills,
            )

    def _still(self) -> Stillness:
        now = self._awake()
        if self._turns:
            return stillest(
                Stillness(now - at, STUCK_SECONDS, f"{slot} has not turned") for slot, at in self._turns.items()
            )
        if self._opening is None:
            return Stillness()
        return Stillness(now - self._opening, START_STUCK_SECONDS, "the start has opened no link")

    def _topics_away(self) -> Mapping[str, str]:
        now = self.clock()
        return {
            topic: outage.why
            for topic, outage in self._outages.items()
            if now - outage.since >= AWAY_SECONDS and now - outage.last <= _FORGOTTEN_SECONDS
        }
