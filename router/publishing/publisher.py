"""The sender of one topic: it opens its link for the first message, can be closed when it is idle, and backs off after a fault.

It makes no management call itself; the wiring passes `provide`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import structlog
from structlog.contextvars import bound_contextvars

from common.bus.ports import MessageRefused, OpenableSender, OutOfTime, SendInterrupted, TimeLeft, for_ever
from common.bus.throttling import THROTTLED_BACKOFF, ThrottleLog
from common.errors import DStreamError, EntityDisabled, EntityMissing, PermanentError, Stopped
from common.message import Message
from common.retry import Backoff
from router.chunks import MOST, USUAL, narrower, wider
from router.publishing.refusals import Row
from router.publishing.turns import Turns, nothing
from router.publishing.unforeseen import ForeseenSender
from router.tally import Tally

TOPIC_BACKOFF = Backoff(first=0.5, longest=30.0)

REFUSED_IN_A_ROW = 10
"""So many messages in a row may be refused before the topic counts as the cause, and not the messages."""

log = structlog.get_logger(__name__)

UNREACHED = (
    "it is tried again by itself; without a line `topic available again` soon, check that the output is up and that this machine "
    "can reach it (network, firewall, proxy)"
)
"""A hint for passing errors that have none."""


class Publisher:
    """The sender of one topic, shared by the slots, with its recent successes and failures."""

    def __init__(
        self,
        topic: str,
        sender: OpenableSender,
        *,
        backoff: Backoff = TOPIC_BACKOFF,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        provide: Callable[[], object] = lambda: None,
        provide_first: bool = False,
        provide_again: bool = True,
        missing: str | None = None,
        throttling: ThrottleLog | None = None,
        tally: Tally | None = None,
        label: str | None = None,
        told: Mapping[str, str] = MappingProxyType({}),
        refused: Row | None = None,
    ) -> None:
        """`provide` creates or checks the topic; it is called before the next send after a permanent fault.

        `provide_first`: before the first send as well. `provide_again`: also when the topic existed and was deleted. `throttling`: the
        namespace's, if others send to it as well. `missing`: what to do if it does not exist, where that is not what the error says.
        `tally` learns of the topic's successes and failures, by the name `label`; None: `topic`. `told`: of its output and its place there, for
        the log. `refused`: counts the messages that it refuses in a row.
        """
        self.topic = topic
        self._label = topic if label is None else label
        self._told = told
        self._sender: OpenableSender = ForeseenSender(sender, topic)
        self._backoff = backoff
        self._clock = clock
        self._chance = chance
        self._turns = Turns()
        self._batch_bytes: int | None = None
        self._chunk_bytes = USUAL
        self._provide = provide
        self._throttling = throttling or ThrottleLog(clock)
        self._tally = tally or Tally()
        self._refusals = 0
        self._row = refused or Row()
        self._failures = 0
        self._reported_permanent = False
        self._not_before = 0.0
        self._to_be_provided = provide_first
        self._provide_again = provide_again
        self._missing = missing
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
        """It could not be opened at the start: `reopen` tries again, and so does the next message for it."""
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

    def prove(self) -> None:
        """Open the link and close it again, unless it was used already, so that a missing right is found before the first message."""
        with self._turns.if_free() as free:
            if not free or self._worked or self._failures:
                return
            try:
                self._sender.open()
            except DStreamError as error:
                self._unopened = True
                self._failed(error)
            else:
                self._worked = True
                self._measure()
            self._shut()

    @property
    def last_used(self) -> float | None:
        """When the link was last used; None while it is closed."""
        return self._used

    def rest(self) -> None:
        """Close the link unless it is in use; the next send opens it again."""
        with self._turns.if_free() as free:
            if free:
                self._shut()

    def _shut(self) -> None:
        self._used = None
        try:
            self._sender.close()
        except DStreamError as error:
            log.warning("link not closed", topic=self.topic, **self._told, error=error.message)

    def pause(self) -> float:
        """Seconds until the topic may be tried again; 0 without a fault."""
        return max(0.0, self._not_before - self._clock())

    @property
    def chunk_bytes(self) -> int:
        """The best number of bytes to send at once: about one batch of the service's."""
        return self._chunk_bytes

    def send(
        self,
        messages: Sequence[Message],
        *,
        left: TimeLeft = for_ever,
        meanwhile: Callable[[], None] = nothing,
    ) -> bool:
        """True when the topic has all of `messages`; False, and nothing sent, when it became unavailable while others had their turn.

        `left` returns the seconds during which a batch may still begin. `meanwhile` is called now and then while others have their turn; its
        exception ends the wait. Raises OutOfTime once `left` returns none, which is not a fault of the topic; SendInterrupted after a fault, with
        the messages known to be accepted, and backs off. Raises MessageRefused as the sender does.

        A topic that has refused one message after the other and accepted none is unavailable, whatever it answers to the next one.
        """
        with self._turns.mine(meanwhile) as waited, bound_contextvars(**self._told):
            if waited and self.pause() > 0:
                return False
            if left() <= 0:
                raise OutOfTime(f"sending to {self.topic}: the lock does not last long enough")
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
                self._row.accepted()
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
            # A topic that is deleted, or a right that is revoked, while the router runs holds up its own table and no other.
            raise SendInterrupted(error.message, hint=error.hint) from error
        self._row.accepted()
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
            log.debug("size of a batch not known", topic=self.topic, **self._told, error=error.message)

    def _weigh(self, error: MessageRefused) -> None:
        """Raises SendInterrupted when so many were refused that the topic is the cause, so that no further message is set aside."""
        if error.accepted:
            self._row.accepted()
        if error.by_entity:
            self._row.refused()
        if self._row.count <= REFUSED_IN_A_ROW:
            self._recovered()
            return
        if not error.by_entity:
            return
        away = PermanentError(
            f"the topic refused more than {REFUSED_IN_A_ROW} messages in a row and accepted none, last: {error.message}",
            hint="no more are dead-lettered, and the others wait in the queue until it accepts one: fix the topic; if the messages are "
            f"at fault after all, each restart dead-letters {REFUSED_IN_A_ROW} more of them",
        )
        self._failed(away)
        self._shut()
        raise SendInterrupted(away.message, hint=away.hint) from error

    def _refused(self, error: SendInterrupted) -> None:
        """The namespace is busy; topic and link work."""
        self._refusals = 1 if error.accepted else self._refusals + 1
        self._not_before = self._clock() + THROTTLED_BACKOFF.delay(self._refusals, self._chance)
        self._throttling.refused(error.message)
        self._tally.count_throttled()

    def _failed(self, error: DStreamError) -> None:
        if isinstance(error, EntityMissing):
            error = EntityMissing(error.message, hint=self._missing or error.hint)
        self._chunk_bytes = narrower(self._chunk_bytes)
        self._failures += 1
        if isinstance(error, PermanentError) and (self._provide_again or not self._worked):
            self._to_be_provided = True
        self._not_before = self._clock() + self._backoff.delay(self._failures, self._chance)
        self._tally.topic_failed(
            self._label, f"at {place}: {error}" if (place := self._told.get("place")) else str(error)
        )
        self._report(error)

    def _report(self, error: DStreamError) -> None:
        """Logged once an outage, and once more when it turns out to be permanent: a deleted topic is first noticed by a link that ends."""
        permanent = isinstance(error, (PermanentError, EntityDisabled)) or getattr(error, "disabled", False)
        if self._failures == 1 or (permanent and not self._reported_permanent):
            report = log.error if permanent else log.warning
            hint = error.hint or (None if permanent else UNREACHED)
            report("topic unavailable", topic=self.topic, **self._told, error=error.message, hint=hint)
            self._reported_permanent = permanent

    def _recovered(self) -> None:
        if self._failures:
            log.info("topic available again", topic=self.topic, **self._told, failed_sends=self._failures)
            self._reported_permanent = False
            self._tally.topic_works(self._label)
        self._failures = self._refusals = 0
        self._worked, self._unopened = True, False
        self._throttling.look()

    def close(self, until: float = math.inf) -> None:
        """Gives up at this moment of `time.monotonic` while a send or a check uses the link, so that one that hangs holds up no stop."""

        def give_up() -> None:
            if time.monotonic() >= until:
                raise OutOfTime(f"closing the link to {self.topic}: it is in use")

        try:
            with self._turns.mine(give_up):
                self._shut()
        except OutOfTime as error:
            log.warning(
                "link not closed in time",
                topic=self.topic,
                **self._told,
                error=error.message,
                effect="the process ends with it",
            )
