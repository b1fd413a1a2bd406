"""What the router did, in numbers, for the metrics and the last log line. Decides nothing.

Every process counts for itself (`Tally`). Its counts at a moment (`Figures`) can be pickled and added.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from common.config.blocks import UNLABELLED
from common.observability.metrics import MESSAGES, SECONDS, Distribution, resident_bytes
from router.awake import Awake, Stillness, stillest
from router.spots import parts_of_spot, spoken, stood_for

UNKNOWN = "unknown"
"""The label of all topics that no table has: their names come with messages, and each would be a time series for ever."""

STUCK_SECONDS = 240.0
"""Seconds without a turn after which a slot counts as stuck. The longest turn, with a deadline for each call, creates a deleted topic again
(three calls of 60 s with their repetitions, 15 s for one that another process makes too), opens the link to it (20 s) and sends a batch (15 s):
230 s."""

START_STUCK_SECONDS = 120.0
"""The same for a start, between one link that was opened or refused and the next: finding the queue takes 20 s, and a link 20 s."""

HUNG_SECONDS = 300.0
"""Seconds after which the whole router must be restarted: by then the parent should have replaced what is stuck."""

BLINK = 30.0
"""The most seconds that count as stillness between two checks: three intervals of a router's (10 s; a worker checks every 5 s)."""

AWAY_SECONDS = 10.0
"""Seconds without a successful send after which a topic counts as unavailable. Shorter outages end with the first repetitions."""
_FORGOTTEN_SECONDS = 120.0
"""Seconds without a further failure after which it no longer does: another worker, or nobody, has messages for it."""


@dataclass(slots=True)
class _Outage:
    since: float
    last: float
    why: str


@dataclass(frozen=True, slots=True)
class Held:
    """Sessions held without a slot: until their topic accepts something, or because of `on_poison = "stop"`. And those that fail again
    and again."""

    parked: int = 0
    stopped: int = 0
    failing: int = 0


_NAMED = 20
"""The most topics that readiness names."""

STARTING = "not all links are open yet; wait for `router started` in the log, which also has what fails"
STUCK_HINT = 'what hangs is killed and started again by itself; if it lasts, restart and see "When a process hangs" in docs/fail.md'
_AT_POISON = "sessions have stopped at a poison message: `session stopped at a poisoned message` in the log names each with its remedy"
_FAILING = "sessions fail again and again: `session fails again and again` in the log names them with the cause"


@dataclass(frozen=True, slots=True)
class Figures:
    """A tally at a moment. `still`: the slot whose last turn is longest ago; `away`: why the queue is unavailable, None while it is available.

    Topics are named by their `spot`: those of other outputs than the default have its name too.
    `receiving`: its links were opened, and a slot has asked for messages. `topics_away`: why nothing can be sent to them, by topic.
    `sessions_lost`: given up, by reason. `replaced`: workers, by reason. `topics`: those that are known. `memory`: resident octets, by worker.
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
    topics: frozenset[str] = frozenset()
    parked: int = 0
    stopped: int = 0
    failing: int = 0
    throttled: int = 0
    slots: int = 0
    busy: int = 0
    filtered: int = 0
    behind: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[int, int] = field(default_factory=dict)
    fills: Mapping[str, float] = field(default_factory=dict)
    """Used shares of the quotas of queue and topics, as far as they are checked."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Messages in the ingest queue by state, as far as they are checked."""
    not_in_force: str | None = None
    """Why the changed configuration is not in force."""

    def ended(self) -> Figures:
        """What remains when the process has ended: its counts, without its state."""
        return replace(
            self,
            receiving=False,
            still=Stillness(),
            away=None,
            topics_away={},
            parked=0,
            stopped=0,
            failing=0,
            slots=0,
            busy=0,
            behind={},
            memory={},
            not_in_force=None,
        )

    def __add__(self, other: Figures) -> Figures:
        """Two processes as one: its health is the worse of the two, and it receives if one of them does."""
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
            self.topics | other.topics,
            self.parked + other.parked,
            self.stopped + other.stopped,
            self.failing + other.failing,
            self.throttled + other.throttled,
            self.slots + other.slots,
            self.busy + other.busy,
            self.filtered + other.filtered,
            Counter(self.behind) + Counter(other.behind),
            {**self.memory, **other.memory},
            {**self.fills, **other.fills},
            {**self.waiting, **other.waiting},
            self.not_in_force or other.not_in_force,
        )

    def alive(self) -> str | None:
        """Why the router should be restarted."""
        return str(self.still) if self.still.seconds > HUNG_SECONDS else None

    def ready(self) -> str | None:
        """Why it is not ready."""
        if not self.receiving:
            return f"starting: {self.still}; {STUCK_HINT}" if self.still.stuck else f"starting: {STARTING}"
        if self.still.stuck:
            return f"{self.still}; {STUCK_HINT}"
        if self.away is not None:
            return f"the ingest queue cannot be received from: {self.away}"
        return "\n".join(self._away_or_stopped()) or None

    def _away_or_stopped(self) -> Iterator[str]:
        """A line each: topics that tables have first, then others, then sessions. An output that could not be opened stands for its topics."""
        whole = {output for output, topic in map(parts_of_spot, self.topics_away) if not topic}
        away = sorted(
            ((spot, why) for spot, why in self.topics_away.items() if not stood_for(spot, whole)),
            key=lambda each: (each[0] not in self.topics, each[0]),
        )
        several = any(parts_of_spot(spot)[0] != UNLABELLED for spot in (*self.topics, *self.topics_away))
        for spot, why in away[:_NAMED]:
            yield f"{spoken(spot, several=several)} is unavailable: {why}"
        if len(away) > _NAMED:
            yield f"and {len(away) - _NAMED} more topics"
        if self.stopped:
            yield f"{self.stopped} {_AT_POISON}"
        if self.failing:
            yield f"{self.failing} {_FAILING}"
        if self.not_in_force is not None:
            yield self.not_in_force

    @property
    def receives(self) -> bool:
        """Whether the queue is received from."""
        return self.receiving and self.away is None


@dataclass(slots=True)
class Tally:
    """Counts since the start; every change is under one lock, because the slots are threads."""

    routed: Counter[str] = field(default_factory=Counter)
    """Messages accepted by a topic and completed, by topic (`spot`)."""
    dead_lettered: Counter[str] = field(default_factory=Counter)
    """Messages moved to the dead-letter queue, by reason."""
    lost_locks: int = 0
    """Messages whose lock was lost after they were sent and before they were completed: they come again."""
    filtered: int = 0
    """Messages that no route takes anywhere."""
    behind: Callable[[], Mapping[str, int]] = dict
    """Returns how many sessions are ahead of each output that is behind; called from any thread."""
    retries: Counter[str] = field(default_factory=Counter)
    """Failed sends, by topic (`spot`)."""
    sessions_lost: Counter[str] = field(default_factory=Counter)
    """Sessions given up, or batches of a queue without, by what was lost: `lock_lost`, or `unanswered`."""
    throttled: int = 0
    """Requests that a throttling namespace refused."""
    topics: frozenset[str] = frozenset()
    """The topics that messages are sent to."""
    slots: int = 0
    """How many threads route in this process."""
    held: Callable[[], Held] = Held
    """Returns the sessions that are held without a slot, or fail; called from any thread."""
    interrupted: Callable[[], str | None] = lambda: None
    """Returns why nothing can be received; called from any thread."""
    not_in_force: str | None = None
    """Why the changed configuration is not in force."""
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
    _waiting: Mapping[str, int] = field(default_factory=dict)
    _busy: int = 0

    def __post_init__(self) -> None:
        self._awake = Awake(self.clock, BLINK)

    def filled(self, shares: Mapping[str, float], waiting: Mapping[str, int]) -> None:
        """Queue and topics have used these shares of their quotas, and so many messages wait in the queue, by state."""
        self._fills, self._waiting = dict(shares), dict(waiting)

    def topic_failed(self, topic: str, why: str) -> None:
        """A send to it failed; `why` tells a person what to do."""
        now = self.clock()
        with self._guard:
            known = self._outages.get(topic)
            since = now if known is None or now - known.last > _FORGOTTEN_SECONDS else known.since
            self._outages[topic] = _Outage(since, now, why)

    def begin(self, topics: frozenset[str], slots: int) -> None:
        """So many slots begin to route to these topics, in the place of those before them."""
        with self._guard:
            self.topics, self.slots = topics, slots
            self._turns, self._opening = {}, self._awake()

    def forget_outputs_besides(self, outputs: Collection[str]) -> None:
        """The others are not in use any more: that one of their topics was unavailable no longer matters."""
        with self._guard:
            self._outages = {each: why for each, why in self._outages.items() if parts_of_spot(each)[0] in outputs}

    def topic_added(self, topic: str) -> None:
        """From now on messages are sent to it."""
        with self._guard:
            self.topics |= {topic}

    def topic_works(self, topic: str) -> None:
        """It accepted what was sent to it."""
        with self._guard:
            self._outages.pop(topic, None)

    def count_routed(self, topic: str, messages: int, *, lost: int) -> None:
        with self._guard:
            self.routed[topic] += messages - lost
            self.lost_locks += lost

    def count_lost_locks(self, messages: int) -> None:
        """They were sent, and come again."""
        with self._guard:
            self.lost_locks += messages

    def count_filtered(self, messages: int) -> None:
        """No route takes them anywhere."""
        with self._guard:
            self.filtered += messages

    def count_lost(self, reason: Literal["lock_lost", "unanswered"]) -> None:
        """The received messages are given up, and come again."""
        with self._guard:
            self.sessions_lost[reason] += 1

    def count_dead_letter(self, reason: str) -> None:
        with self._guard:
            self.dead_lettered[reason] += 1

    def count_retry(self, topic: str) -> None:
        with self._guard:
            self.retries[topic] += 1

    def count_throttled(self) -> None:
        """The namespace refused a request because it throttles."""
        with self._guard:
            self.throttled += 1

    @contextmanager
    def working(self) -> Iterator[None]:
        """A slot works on a session inside."""
        with self._guard:
            self._busy += 1
        try:
            yield
        finally:
            with self._guard:
                self._busy -= 1

    def count_batch(self, messages: int) -> None:
        """That many were received together."""
        with self._guard:
            self._batches.add(messages)

    def count_settled(self, seconds: float) -> None:
        """The messages of a batch that go to one topic were sent and completed after so many seconds."""
        with self._guard:
            self._seconds.add(seconds)

    def opening(self) -> None:
        """The start has begun to open links, or has finished one of them."""
        with self._guard:
            self._opening = self._awake()

    def turn(self) -> None:
        """The slot of this thread goes on with its loop."""
        with self._guard:
            self._turns[threading.current_thread().name] = self._awake()

    def turned(self, *, away: str | None = None) -> None:
        """The slot of this thread asked for messages: it had an answer, or the queue is `away` for the given reason."""
        self.turn()
        self._away = away
        self._receiving = self._receiving or away is None

    def figures(self) -> Figures:
        """Everything as it is now; from any thread."""
        held, interrupted, resident, behind = self.held(), self.interrupted(), resident_bytes(), self.behind()
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
                topics=self.topics,
                parked=held.parked,
                stopped=held.stopped,
                failing=held.failing,
                throttled=self.throttled,
                slots=self.slots,
                busy=self._busy,
                filtered=self.filtered,
                behind=behind,
                memory={} if resident is None else {self.worker: resident},
                fills=self._fills,
                waiting=self._waiting,
                not_in_force=self.not_in_force,
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
