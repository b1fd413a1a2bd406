"""The senders of all topics of an output: the configured ones, and those that turn up later and are waited for.

One process opens them at the start, before anything is received. A missing topic ends the start; one that is unavailable for a time holds up only
its own messages. When all topics are known to exist, only the first of many are opened before the start and the others during the routing, so that
a thousand topics do not delay it. Links that are idle or too many are closed, because a namespace limits connections.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import structlog

from common.config.blocks import UNLABELLED
from common.errors import DStreamError, EntityDisabled, PermanentError
from common.message import Message
from common.periodic import repeat
from common.side_topic import TOPIC_NAME
from router.hands import Hands
from router.publishing.awaited import Awaited, TopicSender
from router.publishing.publisher import Publisher
from router.routing.table import folded, parts_of_key
from router.spots import spot
from router.tally import UNKNOWN, Tally

OPENED_AT_ONCE = 16
"""Links opened side by side: each takes about half a second of waiting, and a namespace limits how many come at once."""

_OPENING = 0.5
"""Seconds that it takes to open one."""

LOOK = 5.0
"""Seconds between two checks of the links."""

IDLE = 180.0
"""Seconds without a send after which a link is closed. A namespace allows 5,000 connections, of all routers and their workers together
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas), and most tables change seldom."""

MOST_OPEN = 100
"""The most links that stay open in a process: those used most recently."""

PROVED_AT_A_LOOK = 50
"""Links opened for the first time at one check, of the topics that were not opened before the start: 1,000 of them take two minutes, and most
processor time stays with the routing."""

CLOSE_WITHIN = 1.0
"""Seconds that a stop waits for links in use; the process ends with those that take longer."""

CLOSED_WITHIN = 3.0
"""Seconds that a stop waits for all links: an unused link takes 2 s to close when nothing answers."""

MOST_AWAITED = 1_000
"""The most unknown topics that wait at once: their names come with messages, so any sender to the queue may invent them."""

_FORGOTTEN_SECONDS = 60.0
"""Seconds after its grace period in which an unknown topic without further messages makes room for another."""

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


def most_links(topics: int, slots: int) -> int:
    """The most links to topics that a process has at a time: MOST_OPEN, and those opened at the start or by its slots between two checks."""
    return min(topics, MOST_OPEN + max(OPENED_AT_ONCE, round(slots * LOOK / _OPENING)))


class Publishers:
    """The senders of all topics of an output, by the topic's name in lower case (`router.routing.table.key_of`)."""

    def __init__(
        self,
        publishers: Iterable[Publisher],
        *,
        further: Callable[[str, Message], Publisher] | None = None,
        never: Mapping[str, str] = MappingProxyType({}),
        elsewhere: Callable[[str], str | None] = lambda topic: None,
        expected: Callable[[str], bool] = lambda topic: False,
        grace: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        tally: Tally | None = None,
        output: str = UNLABELLED,
        told: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`output`: the name of the output that they all belong to; `told`: what the log says of it.

        `further` finds or makes the publisher of a topic that turns up later with a change (see `Awaited`); None: there are only the configured ones.

        `never`: by topic (lower case), why it must not be one of them. `elsewhere` returns why no table could have a topic, so that its messages
        do not wait; None if one could.
        `expected`: whether a topic is one of the configuration's, so that there is always room for it. `grace`: seconds for which `further` is
        tried again before messages for such a topic are refused.
        """
        self._by_topic: Mapping[str, TopicSender] = {folded(publisher.topic): publisher for publisher in publishers}
        self._further = further
        self._never = never
        self._elsewhere = elsewhere
        self._expected = expected
        self._grace = grace
        self._clock = clock
        self._tally = tally
        self._output = output
        self._told = told
        self._guard = threading.Lock()
        self._unproved: deque[Publisher] = deque()
        """Known to exist, and not opened yet."""

    @property
    def topics(self) -> Collection[str]:
        """Topics that accept messages, or that messages wait for."""
        return self._by_topic.keys()

    def __getitem__(self, topic: str) -> TopicSender:
        """Raises KeyError for a topic that was neither configured nor admitted."""
        found = self._by_topic.get(topic)
        if found is None and self._further is not None:  # it was forgotten while a session held changes for it
            with self._guard:
                self._put(topic, self._awaited(topic, self._further))
        return self._by_topic[topic]

    def label(self, topic: str) -> str:
        """Its name for the tally (`router.spots.spot`), or one name for all unknown topics."""
        return spot(UNKNOWN if isinstance(self._by_topic.get(topic), Awaited) else topic, self._output)

    def admit(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Let messages wait for each of these topics (lower case), if there may be further ones. Returns those refused, with the reason."""
        refused: dict[str, str] = {}
        if self._further is None:
            return refused
        with self._guard:
            for topic in dict.fromkeys(topics):
                if topic in self._by_topic:
                    continue
                name, _ = parts_of_key(topic)
                if TOPIC_NAME.fullmatch(name) is None:
                    refused[topic] = "it is not a valid topic name"
                elif name in self._never:
                    refused[topic] = self._never[name]
                elif (why := self._elsewhere(name)) is not None:
                    refused[topic] = why
                elif not self._room() and not self._expected(name):
                    refused[topic] = f"{MOST_AWAITED} other unknown topics are waited for already"
                else:
                    self._put(topic, self._awaited(topic, self._further))
        return refused

    def _awaited(self, topic: str, further: Callable[[str, Message], Publisher]) -> Awaited:
        def find(message: Message) -> Publisher:
            publisher = further(topic, message)
            with self._guard:
                self._put(topic, publisher)
            return publisher

        return Awaited(
            topic,
            find,
            grace=self._grace,
            clock=self._clock,
            tally=self._tally,
            output=self._output,
            told=self._told,
        )

    def _put(self, topic: str, sender: TopicSender) -> None:
        self._by_topic = {**self._by_topic, topic: sender}  # a new dict: the slots read this one without a lock

    def _room(self) -> bool:
        """Whether there is room for one more unknown topic; those without messages for long are forgotten to make room."""
        if self._waited_for() < MOST_AWAITED:
            return True
        long = self._grace + _FORGOTTEN_SECONDS
        self._by_topic = {
            topic: each
            for topic, each in self._by_topic.items()
            if not isinstance(each, Awaited) or each.quiet_for() < long
        }
        return self._waited_for() < MOST_AWAITED

    def _waited_for(self) -> int:
        return sum(isinstance(each, Awaited) for each in self._by_topic.values())

    def open(self, stop: threading.Event, *, excused: Collection[str] = (), exist: bool = False) -> None:
        """Open each once, side by side, until `stop`; up to MOST_OPEN links stay open. Topics in `excused` may be missing.

        `exist`: all others are known to exist, so that only a right can be missing. Then the first MOST_OPEN and the excused are opened here, and
        `keep` opens the rest. Raises one PermanentError that names every topic it concerns; the first TransientError, if each was met by one.
        Other faults are logged, and `keep` tries their topics again.
        """
        late = {folded(topic) for topic in excused}
        first = self._publishers()
        if exist:
            certain = [publisher for publisher in first if folded(publisher.topic) not in late]
            self._unproved = deque(certain[MOST_OPEN:])
            first = [publisher for publisher in first if folded(publisher.topic) in late] + certain[:MOST_OPEN]
        tried = [each for each in _side_by_side(partial(self._tried, stop), first) if each is not None]
        faults = [(publisher, fault) for publisher, fault in tried if fault is not None]
        permanent = [
            fault
            for publisher, fault in faults
            if isinstance(fault, PermanentError) and folded(publisher.topic) not in late
        ]
        if permanent:
            text = "; ".join(dict.fromkeys(fault.message for fault in permanent))
            raise PermanentError(text, hint=permanent[0].hint) from permanent[0]
        if faults and len(faults) == len(tried) and not self._others_may_work(fault for _, fault in faults):
            raise faults[0][1]
        for publisher, fault in faults:
            publisher.unavailable(fault)

    def _others_may_work(self, faults: Iterable[DStreamError]) -> bool:
        """Whether topics that were not opened yet need not share these faults: that a topic is disabled says nothing of the next."""
        return bool(self._unproved) and all(isinstance(fault, EntityDisabled) for fault in faults)

    def _tried(self, stop: threading.Event, publisher: Publisher) -> tuple[Publisher, DStreamError | None] | None:
        if stop.is_set():
            return None
        fault = _fault_of_opening(publisher)
        if len(self._opened()) > MOST_OPEN:
            publisher.rest()
        return publisher, fault

    def keep(self, stop: threading.Event) -> None:
        """Runs in a thread of its own, until `stop`."""
        repeat(lambda: self.look(stop), "links", stop, every=LOOK)

    def look(self, stop: threading.Event | None = None) -> None:
        """Close links that are idle or too many, try those that could not be opened at the start, and prove some of the rest; until `stop`."""
        stop = stop or threading.Event()
        opened, now = sorted(self._opened(), key=lambda each: each[0]), self._clock()
        spare = len(opened) - MOST_OPEN
        for number, (used, publisher) in enumerate(opened):
            if number < spare or now - used >= IDLE:
                publisher.rest()
        for publisher in self._publishers():
            if stop.is_set():
                return
            publisher.reopen()
        self._prove_some(stop)

    def _prove_some(self, stop: threading.Event) -> None:
        """In threads that do not keep the process from ending: a link may take 20 s to open."""

        def prove(publisher: Publisher) -> None:
            if not stop.is_set():
                publisher.prove()

        if not self._unproved:
            return
        hands = Hands(OPENED_AT_ONCE, "publishers")
        for _ in range(min(PROVED_AT_A_LOOK, len(self._unproved))):
            hands.do(partial(prove, self._unproved[0]))  # may raise, and then it is still to be proved
            self._unproved.popleft()
        hands.finish()

    def _opened(self) -> list[tuple[float, Publisher]]:
        return [(used, each) for each in self._publishers() if (used := each.last_used) is not None]

    def _publishers(self) -> list[Publisher]:
        return [each for each in self._by_topic.values() if isinstance(each, Publisher)]

    def rest(self) -> None:
        """Close all links that are not in use."""
        _side_by_side(Publisher.rest, self._publishers())

    def close(self) -> None:
        """Side by side, within CLOSE_WITHIN and CLOSED_WITHIN: the rest stays open, and is logged."""
        until = time.monotonic() + CLOSE_WITHIN
        hands = Hands(MOST_OPEN, "publishers-close")
        for publisher in self._publishers():
            hands.do(partial(publisher.close, until))
        if left := hands.finish(CLOSED_WITHIN):
            log.warning("links to topics not closed in time", links=left, effect="the process ends with them")


def _side_by_side(work: Callable[[Publisher], _T], publishers: Sequence[Publisher]) -> list[_T]:
    if not publishers:
        return []
    with ThreadPoolExecutor(min(OPENED_AT_ONCE, len(publishers)), thread_name_prefix="publishers") as pool:
        return list(pool.map(work, publishers))


def _fault_of_opening(publisher: Publisher) -> DStreamError | None:
    try:
        publisher.open()
    except DStreamError as error:
        return error
    return None
