"""A topic that no configured table has, or not yet: its changes wait for a grace period while the configuration is read again and again.

An ingester applies an edit of the configuration within seconds, and the router's copy of the file may come minutes later, so the first changes
of a new table are not poison. They are refused only when the grace is over and the latest answer was that no table has the topic. A
configuration that cannot be read is not such an answer, and neither is a missing right. Reads no file itself; sends only through the topic
that was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol

import structlog

from common.bus.ports import MessageRefused, SendInterrupted, TimeLeft, for_ever
from common.config.blocks import UNLABELLED
from common.config.durations import format_duration
from common.errors import DStreamError, PermanentError, Stopped
from common.message import Message
from router.chunks import USUAL
from router.publishing.turns import Turns, nothing
from router.routes import ADD_IT, COPY, table_of, with_table
from router.spots import spot
from router.tally import Tally

LOOK = 2.0
"""Seconds between two searches for the same topic."""

AWAY = "the topic can be neither created nor found: fix what the error says; until then its changes wait, without a time limit"

log = structlog.get_logger(__name__)


class TopicSender(Protocol):
    """Where a slot sends. `pause`: seconds until the next attempt is worthwhile. `send` as `router.publishing.publisher.Publisher.send`."""

    @property
    def topic(self) -> str: ...

    def pause(self) -> float: ...

    @property
    def chunk_bytes(self) -> int: ...

    def send(
        self, messages: Sequence[Message], *, left: TimeLeft = for_ever, meanwhile: Callable[[], None] = nothing
    ) -> bool: ...


class NotATopic(PermanentError):
    """The answer to a search: no table has the topic, and the settings do not allow creating it. A fault of a service is never this answer.

    `at_once`: no table could ever have it, so that its changes wait for no grace period.
    """

    def __init__(self, message: str, *, hint: str | None = None, at_once: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.at_once = at_once


class NoTopic(MessageRefused):
    """No configured table has the topic that the message names, and the grace period is over."""


class Awaited:
    """One such topic, shared by the slots. Once found, it is that topic."""

    def __init__(
        self,
        topic: str,
        find: Callable[[Message], TopicSender],
        *,
        grace: float,
        clock: Callable[[], float] = time.monotonic,
        tally: Tally | None = None,
        output: str = UNLABELLED,
        told: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`find` gets a change for it, and raises NotATopic when there is none; any other DStreamError means that this is unknown
        now. `grace`: in seconds. `output`: the one that it belongs to; `told`: what the log says of that."""
        self.topic = topic
        self._find = find
        self._grace = grace
        self._clock = clock
        self._tally = tally or Tally()
        self._label = spot(topic, output)
        self._told_of = told
        self._turns = Turns()
        self._found: TopicSender | None = None
        self._since = self._asked = clock()
        self._next_look = self._since
        self._answer: NotATopic | None = None
        """Why there is none, by the latest search; None while that is unknown."""
        self._told: str | None = None
        """What was logged of this wait."""
        self._waited: float | None = None
        """How long, in seconds, once the topic is found and until it has answered."""

    def quiet_for(self) -> float:
        """Seconds since a message for it last came."""
        return self._clock() - self._asked

    def pause(self) -> float:
        found = self._found
        if found is not None:
            return found.pause()
        return 0.0 if self._judged() else max(0.0, self._next_look - self._clock())

    @property
    def chunk_bytes(self) -> int:
        return USUAL if self._found is None else self._found.chunk_bytes

    def send(
        self, messages: Sequence[Message], *, left: TimeLeft = for_ever, meanwhile: Callable[[], None] = nothing
    ) -> bool:
        """Raises NoTopic for the first of `messages`, or SendInterrupted: try again after `pause`."""
        with self._turns.mine(meanwhile):
            found = self._found or self._looked_for(messages[0])
            if found is None:
                self._refuse_or_wait(messages[0])
        assert found is not None
        try:
            accepted = found.send(messages, left=left, meanwhile=meanwhile)
        except SendInterrupted as error:
            if error.accepted or error.throttled:
                self._added()
            raise
        except MessageRefused:
            self._added()
            raise
        if accepted:
            self._added()
        return accepted

    def _added(self) -> None:
        """The topic has answered; until then it may yet have to be created. Logged once."""
        waited, self._waited = self._waited, None
        if waited is not None:
            log.info("topic added", topic=self.topic, **self._told_of, waited_seconds=round(waited, 1))

    def _looked_for(self, message: Message) -> TopicSender | None:
        now = self._clock()
        if now - self._asked > self._grace + LOOK:
            # The earlier changes were dead-lettered: these are other changes, of a table added since.
            self._since, self._told = now, None
        self._asked = now
        if now < self._next_look:
            return None
        try:
            self._found = self._find(message)
        except Stopped:
            self._answer = None
            return None
        except DStreamError as error:
            fault = error
        else:
            self._tally.topic_works(self._label)
            self._tally.topic_added(self._label)
            self._waited = now - self._since
            return self._found
        answer = fault if isinstance(fault, NotATopic) else None
        if answer is not None and self._answer is None:
            # The grace runs while there are answers: a file that could not be read until now gave nobody time.
            self._since = now
        self._answer = answer
        self._next_look = self._clock() + LOOK
        if self._judged() is None:
            self._tell(fault, message)
        return None

    def _judged(self) -> NotATopic | None:
        """The answer, once it is a verdict."""
        answer = self._answer
        waited = self._clock() - self._since >= self._grace
        return answer if answer is not None and (waited or answer.at_once) else None

    def _tell(self, fault: DStreamError, message: Message) -> None:
        """Logged once a wait, and once more when a person must act. Readiness shows a fault as long as it lasts, but not a name that no
        table has, because anybody who may send to the queue can invent one."""
        if isinstance(fault, PermanentError) and not isinstance(fault, NotATopic):
            self._tally.topic_failed(self._label, str(fault))
            if self._told != "away":
                self._told = "away"
                log.error(
                    "topic unavailable; its changes wait",
                    topic=self.topic,
                    **self._told_of,
                    error=fault.message,
                    hint=fault.hint or AWAY,
                )
            return
        if not isinstance(fault, NotATopic):
            self._tally.topic_failed(self._label, f"no configured table has it: {fault.message}")
        if self._told is None:
            self._told = "unknown"
            log.warning(
                "topic unknown; its changes wait",
                topic=self.topic,
                **self._told_of,
                table=table_of(message),
                error=fault.message,
                grace=self._grace_text(),
                hint=f"{fault.hint or ADD_IT}: the changes then go on in their order; after the grace they are poison (on_poison)",
            )

    def _refuse_or_wait(self, message: Message) -> None:
        if (verdict := self._judged()) is None:
            why = "checking again" if self._answer is None else self._answer.message
            raise SendInterrupted(f"{self.topic} is not a known topic: {why}")
        self._tally.topic_works(self._label)  # nothing waits for it any longer
        waited = "" if verdict.at_once else f", after a wait of {self._grace_text()}"
        unknown = f"{with_table(self.topic, message)} belongs to no configured table{waited}"
        words = f"has no topic: {unknown} ({verdict.message}); {verdict.hint or ADD_IT}, {COPY}"
        raise NoTopic(self.topic, message, words, at=0)

    def _grace_text(self) -> str:
        return format_duration(timedelta(seconds=self._grace))
