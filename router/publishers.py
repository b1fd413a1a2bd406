"""One sender for every configured topic. It opens its link for the first message, closes it when it is idle, and backs off after a fault.

One process opens them all at the start, before anything is received: a topic that is missing ends the start, one that is away for a time holds up
itself alone. No management call is made here, except by what the wiring hands over.
"""

from __future__ import annotations

import math
import random
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

import structlog

from common.bus import MessageRefused, OutOfTime, Sender, SendInterrupted, TimeLeft, for_ever
from common.errors import DestinationDisabled, DStreamError, PermanentError, Stopped
from common.message import Message
from common.retry import Backoff
from common.throttling import THROTTLED_BACKOFF, Spell
from router.awaited import Awaited, Destination
from router.chunks import MOST, USUAL, narrower, wider
from router.tally import UNKNOWN, Tally
from router.turns import Turns, nothing

OPENED_AT_ONCE = 16
"""Links opened side by side: each takes about half a second of waiting, and a namespace limits how many come at once."""

LOOK = 5.0
"""Seconds between two looks at the links."""

IDLE = 180.0
"""After so many seconds without a send a link is closed. A namespace takes 5,000 connections, of all routers and their workers together
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas), and most tables change seldom."""

MOST_OPEN = 100
"""Links that stay open in a process, those that were used last."""

CLOSE_WITHIN = 1.0
"""Seconds that a stop waits for links in use; the process ends with those that take longer."""

DESTINATION_BACKOFF = Backoff(first=0.5, longest=30.0)

REFUSED_IN_A_ROW = 10
"""Messages that a topic may refuse, and take none, until that is held to be the topic's fault and not theirs."""

MOST_AWAITED = 1_000
"""Unknown topics that are waited for at once: their names come with the messages, and so from whoever may send to the queue."""

_FORGOTTEN_SECONDS = 60.0
"""So long after its grace an unknown topic that nothing comes for makes room for another."""

_TOPIC_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,258}[a-z0-9])?", re.ASCII)
"""Letters, digits, periods, hyphens and underscores, at most 260; of what Service Bus takes, only slashes are left out, which its resource
manager cannot address (https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules#microsoftservicebus)."""

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class OpenableSender(Sender, Protocol):
    """A sender that can show a missing entity or right before the first message."""

    def open(self) -> None: ...


class Publisher:
    """The sender of one topic, shared by the slots, and the memory of how it has been doing."""

    def __init__(
        self,
        topic: str,
        sender: OpenableSender,
        *,
        backoff: Backoff = DESTINATION_BACKOFF,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        provide: Callable[[], object] = lambda: None,
        provide_first: bool = False,
        provide_again: bool = True,
        spell: Spell | None = None,
        tally: Tally | None = None,
    ) -> None:
        """`provide` sees to it that the topic exists; it is called before the next send after a fault that time does not heal.

        `provide_first`: before the first send as well. `provide_again`: also once the topic has been there, and was deleted. `spell`: the
        namespace's, where others send to it as well. `tally` learns how the topic is doing.
        """
        self.topic = topic
        self._sender = sender
        self._backoff = backoff
        self._clock = clock
        self._chance = chance
        self._turns = Turns()
        self._batch_bytes: int | None = None
        self._chunk_bytes = USUAL
        self._provide = provide
        self._spell = spell or Spell(clock)
        self._tally = tally or Tally()
        self._refusals = 0
        self._refused_in_a_row = 0
        self._failures = 0
        self._reported_permanent = False
        self._not_before = 0.0
        self._to_be_provided = provide_first
        self._provide_again = provide_again
        self._worked = False
        self._unopened = False
        self._used: float | None = None

    def open(self) -> None:
        """Raises TransientError or PermanentError."""
        with self._turns.mine():
            try:
                self._sender.open()
                self._used, self._worked = self._clock(), True
                self._measure()
            finally:
                self._tally.opening()

    def unavailable(self, error: DStreamError) -> None:
        """It could not be opened at the start: `reopen` tries again, and so does what is to be sent to it."""
        with self._turns.mine():
            self._unopened = True
            self._failed(error)

    def reopen(self) -> None:
        """Try a link that could not be opened at the start."""
        with self._turns.if_free() as free:
            if not free or not self._unopened or self.pause() > 0:
                return
            try:
                self._provided()
                self._sender.open()
            except Stopped:
                return
            except DStreamError as error:
                self._failed(error)
                self._shut()
            else:
                self._used = self._clock()
                self._recovered()

    @property
    def last_used(self) -> float | None:
        """When the link was; None while it is closed."""
        return self._used

    def rest(self) -> None:
        """Close the link unless it is in use; the next send opens it again."""
        with self._turns.if_free() as free:
            if free:
                self._shut()

    def _shut(self) -> None:
        self._used = None
        self._sender.close()

    def pause(self) -> float:
        """Seconds until the topic may be tried again; 0 when all is well."""
        return max(0.0, self._not_before - self._clock())

    @property
    def chunk_bytes(self) -> int:
        """What is best sent at once: about one batch of the service's."""
        return self._chunk_bytes

    def send(
        self,
        messages: Sequence[Message],
        *,
        left: TimeLeft = for_ever,
        meanwhile: Callable[[], None] = nothing,
    ) -> bool:
        """True when the topic has all of `messages`; False, and nothing was sent, when it turned out to be away while others had their turn.

        `left`: seconds during which a batch may still begin. `meanwhile` is done now and then while others have their turn; what it raises ends
        the wait. Raises OutOfTime once `left` gives none, which is no fault of the topic's; SendInterrupted, having backed off: what the sender
        knows to be accepted is. Raises MessageRefused as the sender does.

        A topic that has refused one message after the other and taken none is away, whatever it says of the next one.
        """
        with self._turns.mine(meanwhile) as waited:
            if waited and self.pause() > 0:
                return False
            if left() <= 0:
                raise OutOfTime(f"sending to {self.topic}: the lock of what is sent does not last")
            self._send(messages, left)
            return True

    def _send(self, messages: Sequence[Message], left: TimeLeft) -> None:
        try:
            self._provided()
            self._used = self._clock()
            self._sender.send(messages, left=left)
        except MessageRefused as error:
            self._weigh(error)
            raise
        except SendInterrupted as error:
            if error.accepted:
                self._refused_in_a_row = 0
            if error.throttled:
                self._refused(error)
            elif not isinstance(error, OutOfTime) or error.__cause__ is not None:
                self._failed(error)
                self._shut()
            raise
        except Stopped as error:
            raise SendInterrupted(error.message) from error
        except DStreamError as error:
            self._failed(error)
            self._shut()  # a link to a topic that was deleted stays dead when the topic is back
            # A topic deleted, or a right taken away, while the router runs holds up its own table and nobody else's.
            raise SendInterrupted(error.message, hint=error.hint) from error
        self._refused_in_a_row = 0
        self._recovered()
        if self._batch_bytes is None:
            self._measure()
        self._chunk_bytes = wider(self._chunk_bytes, self._batch_bytes or USUAL)

    def _provided(self) -> None:
        if self._to_be_provided:
            self._provide()
            self._to_be_provided = False

    def _measure(self) -> None:
        """The link is open: its limit is known."""
        try:
            self._chunk_bytes = self._batch_bytes = min(self._sender.batch_bytes(), MOST)
        except DStreamError as error:
            log.debug("size of a batch not known", topic=self.topic, error=error.message)

    def _weigh(self, error: MessageRefused) -> None:
        """Raises SendInterrupted where so many were refused that the topic is to be mended, and no message is to be set aside."""
        if error.accepted:
            self._refused_in_a_row = 0
        if error.by_entity:
            self._refused_in_a_row += 1
        if self._refused_in_a_row <= REFUSED_IN_A_ROW:
            self._recovered()
            return
        if not error.by_entity:
            return
        away = PermanentError(
            f"the topic refused more than {REFUSED_IN_A_ROW} messages in a row and took none, lastly: {error.message}",
            hint="no more are dead-lettered and the others wait in the queue until it takes one: mend the topic; where it is the messages "
            f"after all, a restart has {REFUSED_IN_A_ROW} more of them dead-lettered",
        )
        self._failed(away)
        self._shut()
        raise SendInterrupted(away.message, hint=away.hint) from error

    def _refused(self, error: SendInterrupted) -> None:
        """The namespace is busy, the topic and the link are well."""
        self._refusals = 1 if error.accepted else self._refusals + 1
        self._not_before = self._clock() + THROTTLED_BACKOFF.delay(self._refusals, self._chance)
        self._spell.refused(error.message)

    def _failed(self, error: DStreamError) -> None:
        self._chunk_bytes = narrower(self._chunk_bytes)
        self._failures += 1
        if isinstance(error, PermanentError) and (self._provide_again or not self._worked):
            self._to_be_provided = True
        self._not_before = self._clock() + self._backoff.delay(self._failures, self._chance)
        self._tally.topic_failed(self.topic, str(error))
        self._report(error)

    def _report(self, error: DStreamError) -> None:
        """Once an outage; and once more when it turns out that time does not heal it: a deleted topic first shows as a link that ends."""
        permanent = isinstance(error, (PermanentError, DestinationDisabled)) or getattr(error, "disabled", False)
        if self._failures == 1 or (permanent and not self._reported_permanent):
            report = log.error if permanent else log.warning
            report("destination away", topic=self.topic, error=error.message, hint=error.hint)
            self._reported_permanent = permanent

    def _recovered(self) -> None:
        if self._failures:
            log.info("destination back", topic=self.topic, failed_sends=self._failures)
            self._reported_permanent = False
            self._tally.topic_works(self.topic)
        self._failures = self._refusals = 0
        self._worked, self._unopened = True, False
        self._spell.look()

    def close(self, until: float = math.inf) -> None:
        """Gives up at this moment of `time.monotonic` while a send or a look is at it: what hangs there holds up no stop."""

        def give_up() -> None:
            if time.monotonic() >= until:
                raise OutOfTime(f"closing the link to {self.topic}: it is in use")

        try:
            with self._turns.mine(give_up):
                self._shut()
        except OutOfTime as error:
            log.warning(
                "link not closed in time", topic=self.topic, error=error.message, effect="the process ends with it"
            )


class Publishers:
    """All destinations, by topic (lower case)."""

    def __init__(
        self,
        publishers: Iterable[Publisher],
        *,
        further: Callable[[str], Publisher] | None = None,
        never: Mapping[str, str] = MappingProxyType({}),
        elsewhere: Callable[[str], str | None] = lambda topic: None,
        grace: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        tally: Tally | None = None,
    ) -> None:
        """`further` finds or makes the publisher of a topic that turns up later, as `Awaited` asks for it; None: there are none but the configured.

        `never`: why a topic (lower case) must not be one of them. `elsewhere`: why no table could have it, so that nobody waits for it; None
        where one could. `grace`: seconds for which `further` is asked again before what goes to such
        a topic is refused.
        """
        self._by_topic: Mapping[str, Destination] = {publisher.topic.lower(): publisher for publisher in publishers}
        self._further = further
        self._never = never
        self._elsewhere = elsewhere
        self._grace = grace
        self._clock = clock
        self._tally = tally
        self._guard = threading.Lock()

    @property
    def topics(self) -> Collection[str]:
        """Those that something can be sent to, or that are waited for."""
        return self._by_topic.keys()

    def __getitem__(self, topic: str) -> Destination:
        """Raises KeyError for a topic that was neither configured nor admitted."""
        found = self._by_topic.get(topic)
        if found is None and self._further is not None:  # it was forgotten while a session held changes for it
            with self._guard:
                self._put(topic, self._awaited(topic, self._further))
        return self._by_topic[topic]

    def label(self, topic: str) -> str:
        """What it is counted as: itself, or one name for all that are waited for."""
        return UNKNOWN if isinstance(self._by_topic.get(topic), Awaited) else topic

    def admit(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Wait for each of these (lower case), where there may be further ones; why not, by topic, for those that nobody waits for."""
        refused: dict[str, str] = {}
        if self._further is None:
            return refused
        with self._guard:
            for topic in dict.fromkeys(topics):
                if topic in self._by_topic:
                    continue
                if _TOPIC_NAME.fullmatch(topic) is None:
                    refused[topic] = "it is no name that a topic can have"
                elif topic in self._never:
                    refused[topic] = self._never[topic]
                elif (why := self._elsewhere(topic)) is not None:
                    refused[topic] = why
                elif not self._room():
                    refused[topic] = f"{MOST_AWAITED} other unknown topics are waited for already"
                else:
                    self._put(topic, self._awaited(topic, self._further))
        return refused

    def _awaited(self, topic: str, further: Callable[[str], Publisher]) -> Awaited:
        def find() -> Publisher:
            publisher = further(topic)
            with self._guard:
                self._put(topic, publisher)
            return publisher

        return Awaited(topic, find, grace=self._grace, clock=self._clock, tally=self._tally)

    def _put(self, topic: str, destination: Destination) -> None:
        self._by_topic = {**self._by_topic, topic: destination}  # a new dict: the slots read this one without a lock

    def _room(self) -> bool:
        """Whether one more may be waited for; those that nothing was sent to for long are forgotten for its sake."""
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

    def open(self, stop: threading.Event, *, excused: Collection[str] = ()) -> None:
        """Open each once, side by side, until `stop`; the links stay open as far as there is room. `excused` may be missing.

        Raises one PermanentError that names every topic it concerns; the first TransientError, if each was met by one. Others are told, and
        tried again by `keep`.
        """
        tried = [each for each in self._side_by_side(partial(self._tried, stop)) if each is not None]
        faults = [(publisher, fault) for publisher, fault in tried if fault is not None]
        late = {topic.lower() for topic in excused}
        permanent = [
            fault
            for publisher, fault in faults
            if isinstance(fault, PermanentError) and publisher.topic.lower() not in late
        ]
        if permanent:
            text = "; ".join(dict.fromkeys(fault.message for fault in permanent))
            raise PermanentError(text, hint=permanent[0].hint) from permanent[0]
        if faults and len(faults) == len(tried):
            raise faults[0][1]
        for publisher, fault in faults:
            publisher.unavailable(fault)

    def _tried(self, stop: threading.Event, publisher: Publisher) -> tuple[Publisher, DStreamError | None] | None:
        if stop.is_set():
            return None
        fault = _fault_of_opening(publisher)
        if len(self._opened()) > MOST_OPEN:
            publisher.rest()
        return publisher, fault

    def keep(self, stop: threading.Event) -> None:
        """In a thread of its own, until `stop`."""
        while not stop.wait(LOOK):
            try:
                self.look(stop)
            except Exception:
                # A defect here must not end what closes idle links and opens those that were away.
                log.exception("looking at the links failed", effect="the next look tries again")

    def look(self, stop: threading.Event | None = None) -> None:
        """Close links that are idle or too many, and try those that could not be opened at the start; until `stop`."""
        opened, now = sorted(self._opened(), key=lambda each: each[0]), self._clock()
        spare = len(opened) - MOST_OPEN
        for number, (used, publisher) in enumerate(opened):
            if number < spare or now - used >= IDLE:
                publisher.rest()
        for publisher in self._publishers():
            if stop is not None and stop.is_set():
                return
            publisher.reopen()

    def _opened(self) -> list[tuple[float, Publisher]]:
        return [(used, each) for each in self._publishers() if (used := each.last_used) is not None]

    def _publishers(self) -> list[Publisher]:
        return [each for each in self._by_topic.values() if isinstance(each, Publisher)]

    def rest(self) -> None:
        """Close all links that are not in use."""
        self._side_by_side(Publisher.rest)

    def close(self) -> None:
        """As far as CLOSE_WITHIN allows: what is in use then stays open, and is told."""
        until = time.monotonic() + CLOSE_WITHIN
        self._side_by_side(lambda publisher: publisher.close(until))

    def _side_by_side(self, work: Callable[[Publisher], _T]) -> list[_T]:
        publishers = self._publishers()
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
