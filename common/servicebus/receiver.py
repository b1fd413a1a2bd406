"""Receives from a queue, or from one of its sessions, over a connection of its own, and settles what it received.

It refuses to hide a lost lock: what was not completed is returned, and comes again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageLockLostError,
    SessionLockLostError,
)

from common.azure_amqp.deadline import Guard
from common.bus.dead_letter_text import MAX_DESCRIPTION, MAX_REASON, tellable
from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import Delivery
from common.errors import TransientError, Unanswered
from common.message import Message, weight
from common.servicebus import settle
from common.servicebus.buffer import Fitting, readable, whole_frames
from common.servicebus.connection.client import CLOSE_TIMEOUT, SLACK, close_quietly
from common.servicebus.errors import all_translated
from common.servicebus.lock_life import SHORTEST, LockLife, believed
from common.servicebus.lock_times import message_lock, session_lock, warn_of_clock
from common.servicebus.wire.arrivals import carried, failure
from common.servicebus.wire.messages import from_sdk

SETTLE_TIMEOUT = 15.0
"""Seconds for the answer to a settlement; shorter than the 20 s a stop may take."""

RENEW_TIMEOUT = 10.0
"""Seconds for the answer to the renewal of a lock."""

STATE_TIMEOUT = 10.0
"""Seconds for the answer to a question about a session's state."""

RECEIVE_SLACK = 10.0
"""Seconds that receiving may take beyond the wait for a message: for the rest of a frame that has begun to arrive."""

COLLECTING = 1.0
"""Seconds after which no further frame is read for a batch: on a slow line, part of another one has nearly always arrived."""

SILENCE = 120.0
"""Seconds of silence after which the service counts as gone, although the connection looks open."""

SDK_READ = 0.2
"""The fewest seconds that the SDK waits for a frame; for a shorter wait, the socket is polled."""

MAX_RENEWALS = 5_000
"""Lock renewals and questions about state on one receiver before it asks to be reopened: the SDK dies silently after 10,000 management answers
on a link."""

log = structlog.get_logger(__name__)


class BusDelivery:
    """A `common.bus.ports.Delivery`: read once, kept with the SDK's message, which is needed to settle it."""

    __slots__ = ("_fault", "_message", "lock", "received")

    def __init__(self, received: ServiceBusReceivedMessage) -> None:
        self.received = received
        self.lock: LockLife | None = None
        self._message, self._fault = carried(getattr(received, "_message", None)) or _read(received)

    @property
    def message(self) -> Message:
        return self._message

    @property
    def fault(self) -> str | None:
        return self._fault

    @property
    def delivery_count(self) -> int:
        return self.received.delivery_count or 0

    @property
    def position(self) -> tuple[int, int]:
        return self.received.sequence_number or 0, 0


def _read(received: ServiceBusReceivedMessage) -> tuple[Message, str | None]:
    """By the SDK's public properties. If the SDK cannot express what it read, the message has a fault; otherwise it would come again for ever."""
    try:
        return from_sdk(received)
    except Exception as error:
        return Message(b"", None), f"it cannot be read: {type(error).__name__}: {error}"


class BusReceiver:
    """A `common.bus.ports.Receiver` for a queue, or for one session of it."""

    def __init__(
        self, client: ServiceBusClient, receiver: ServiceBusReceiver, queue: str, guard: Guard, ahead: FetchAhead
    ) -> None:
        self._client = client
        self._guard = guard
        self._receiver = receiver
        self._queue = queue
        self._session_id = receiver.session.session_id if receiver.session else None
        self._renewals = 0
        self._lock = LockLife.taken(session_lock(receiver), time.monotonic())
        self._longest = -math.inf
        self._ranged = settle.supported(receiver)
        self._heard: object = None
        self._heard_at = time.monotonic()
        self._failed: str | None = None
        self._handed_out: list[BusDelivery] = []
        """For a queue without sessions: what was not settled at the last check. A session gives back all its messages when it is closed."""
        self._ahead = ahead

    def __repr__(self) -> str:
        return f"<BusReceiver {self._where}>"

    @property
    def _where(self) -> str:
        return self._queue if self._session_id is None else f"session {self._session_id} of {self._queue}"

    @property
    def session_id(self) -> str | None:
        return self._session_id

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[BusDelivery]:
        if self._failed is not None:
            raise TransientError(f"receiving from {self._where}: {self._failed}")
        if self._renewals >= MAX_RENEWALS:
            raise TransientError(
                f"receiving from {self._where}: the link has served {self._renewals} renewals and is due to be reopened"
            )
        if max_wait < SDK_READ and not self._anything_within(max_wait):
            return self._nothing()
        with self._bounded(max_wait + RECEIVE_SLACK, f"receiving from {self._where}"):
            # Wait for one message, and take the others only if they have arrived: when asked for many at once,
            # the SDK waits 0.2 s for more after the first.
            first = self._receiver.receive_messages(1, max_wait_time=max(max_wait, 0.001))
            if not first:
                return self._nothing()
            deliveries = [BusDelivery(message) for message in first]
            room = self._ahead.share - weight(deliveries[0].message)
            deliveries += [BusDelivery(message) for message in self._at_hand(max_count - 1, room)]
            self._ask_by_size(deliveries)
        if self._session_id is None:
            deliveries = self._still_locked(deliveries)
            self._handed_out = [*self._unsettled(), *deliveries]
        return deliveries

    def _still_locked(self, deliveries: Sequence[BusDelivery]) -> list[BusDelivery]:
        """Messages fetched ahead were locked when the service sent them: a lock is older than the newest by as much as it ends earlier. A message
        that was not read before its lock ended comes again, and is dropped here."""
        now = time.monotonic()
        remaining = [message_lock(delivery.received) for delivery in deliveries]
        self._longest = max(self._longest, *remaining)
        for delivery, left in zip(deliveries, remaining, strict=True):
            delivery.lock = LockLife(believed(self._longest), now - (self._longest - left))
        if self._longest < SHORTEST:
            # This machine's clock is ahead, and the length of locks is unknown: a renewal shows it.
            return list(deliveries)
        held = [delivery for delivery in deliveries if delivery.lock is None or delivery.lock.left(now) > 0]
        if len(held) < len(deliveries):
            log.warning(
                "locks over before their messages were read", queue=self._queue, messages=len(deliveries) - len(held)
            )
        return held

    def _nothing(self) -> Sequence[BusDelivery]:
        """All that has arrived was read, without a message in it. Raises TransientError when nothing at all has come for long, and when a
        message could not be read: those before it were handed over, and those behind it are held back."""
        handler: Any = getattr(self._receiver, "_handler", None)
        if (why := failure(handler)) is not None:
            raise TransientError(f"receiving from {self._where}: {why}", hint="the receiver is opened again")
        if getattr(handler, "_shutdown", False) is True:  # without this, every call would return at once
            raise TransientError(
                f"receiving from {self._where}: the SDK stopped reading after a frame that it cannot place",
                hint="the receiver is opened again",
            )
        last = getattr(getattr(handler, "_connection", None), "_last_frame_received_time", None)
        now = time.monotonic()
        if last is None or last != self._heard:
            self._heard, self._heard_at = last, now
        elif now - self._heard_at > SILENCE:
            raise TransientError(
                f"receiving from {self._where}: not a word from the service for {SILENCE:g} s",
                hint="the link is opened again",
            )
        return ()

    def _anything_within(self, seconds: float) -> bool:
        """Whether a message or a frame has arrived, or does in time; True when the SDK is built otherwise and must be asked."""
        handler: Any = getattr(self._receiver, "_handler", None)
        buffered: Any = getattr(handler, "_received_messages", None)
        if buffered is None or buffered.qsize() > 0:
            return True
        _grant(handler)
        return readable(handler, seconds)

    def _at_hand(self, count: int, room: float) -> Sequence[ServiceBusReceivedMessage]:
        """Messages in the SDK's buffer and in the socket, up to `room` bytes; waits at most COLLECTING for a frame that has begun to arrive. None
        when the SDK is built otherwise."""
        handler: Any = getattr(self._receiver, "_handler", None)
        buffered: Any = getattr(handler, "_received_messages", None)
        if buffered is None or count <= 0:
            return ()
        fitting, until = Fitting(buffered, count, room), time.monotonic() + COLLECTING
        try:
            while fitting.more() and time.monotonic() < until and readable(handler, 0):
                if not handler.do_work(batch=whole_frames(handler, fitting.wanted)):
                    break
        except Exception as error:
            # Messages before the fault are handed over. Those behind it are not: the fault may have swallowed one.
            self._failed = f"{type(error).__name__}: {error}"
            log.debug("reading ahead failed", receiver=self._where, error=self._failed)
            fitting.more()
        return self._receiver.receive_messages(fitting.ready, max_wait_time=1) if fitting.ready else ()

    def _ask_by_size(self, deliveries: Sequence[BusDelivery]) -> None:
        """Grant credit from now on for as many messages as the size of those received allows; it is known here for the first time."""
        self._ahead.saw(max(weight(delivery.message) for delivery in deliveries))
        handler: Any = getattr(self._receiver, "_handler", None)
        link: Any = getattr(handler, "_link", None)
        granted: Any = getattr(handler, "_link_credit", None)
        if not isinstance(granted, int) or link is None:
            return
        wanted = self._ahead.credit()
        if wanted != granted:
            handler._link_credit = wanted  # the SDK grants so many whenever all granted before have arrived
            if wanted > granted or link.current_link_credit > wanted:
                link.flow(link_credit=wanted)

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        held = [_own(delivery) for delivery in deliveries]
        if not held:
            return ()
        doing = f"completing {len(held)} messages of {self._where}"
        if self._ranged and all(settle.delivery_id(delivery.received) is not None for delivery in held):
            with self._bounded(SETTLE_TIMEOUT, doing):
                lost = self._completed_together(held, doing)
            refused = {id(message) for message in lost}
            return self._report([delivery for delivery in held if id(delivery.received) in refused])
        return self._report([delivery for delivery in held if not self._completed(delivery, doing)])

    def _completed_together(self, held: Sequence[BusDelivery], doing: str) -> Sequence[ServiceBusReceivedMessage]:
        """The deliveries that the service did not complete."""
        try:
            return settle.complete(self._receiver, [each.received for each in held], timeout=SETTLE_TIMEOUT + SLACK)
        except settle.OutcomeUnknown as error:
            raise Unanswered(f"{doing}: {error}") from error
        except (AttributeError, TypeError) as error:
            # Some may be completed. They come again, and the next receiver settles by the public way.
            settle.refuse(f"{type(error).__name__}: {error}")
            raise

    def _completed(self, delivery: BusDelivery, doing: str) -> bool:
        try:
            with self._bounded(SETTLE_TIMEOUT, doing):
                self._receiver.complete_message(delivery.received)
        except TransientError as error:
            if isinstance(error.__cause__, (MessageLockLostError, SessionLockLostError)):
                return False
            raise
        return True

    def _report(self, lost: Sequence[BusDelivery]) -> Sequence[BusDelivery]:
        if lost:
            log.warning("locks lost", queue=self._queue, session=self._session_id, messages=len(lost))
        return lost

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None:
        told = {
            "reason": tellable(reason, MAX_REASON),
            "error_description": tellable(description, MAX_DESCRIPTION),
        }
        with self._bounded(SETTLE_TIMEOUT, f"dead-lettering a message of {self._where}"):
            self._receiver.dead_letter_message(_own(delivery).received, **told)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        with self._bounded(SETTLE_TIMEOUT, f"giving back {len(deliveries)} messages of {self._where}"):
            settle.give_back(self._receiver, [_own(delivery).received for delivery in deliveries])

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        if self._renewals >= MAX_RENEWALS:
            raise TransientError(f"renewing the lock of {self._where}: the link is due to be reopened")
        if self._session_id is not None:
            if self._lock.due(time.monotonic()):
                self._renew(self._lock, self._renew_session)
            return
        for delivery in map(_own, deliveries):
            if delivery.lock is not None and delivery.lock.due(time.monotonic()):
                self._renew(delivery.lock, partial(self._renew_message, delivery.received))

    def _renew(self, lock: LockLife, ask: Callable[[], float]) -> None:
        self._renewals += 1
        asked = time.monotonic()
        with self._bounded(RENEW_TIMEOUT, f"renewing the lock of {self._where}"):
            remaining = ask()
        lock.renewed(remaining, asked)
        warn_of_clock(remaining)

    def state(self) -> bytes | None:
        if self._session_id is None:
            return None
        self._renewals += 1
        with self._bounded(STATE_TIMEOUT, f"reading the state of {self._where}"):
            found = self._receiver.session.get_state(timeout=STATE_TIMEOUT + SLACK)
        return bytes(found) if found else None

    def set_state(self, state: bytes | None) -> None:
        if self._session_id is None:
            return
        self._renewals += 1
        with self._bounded(STATE_TIMEOUT, f"keeping the state of {self._where}"):
            self._receiver.session.set_state(state, timeout=STATE_TIMEOUT + SLACK)

    def _renew_session(self) -> float:
        self._receiver.session.renew_lock(timeout=RENEW_TIMEOUT + SLACK)
        return session_lock(self._receiver)

    def _renew_message(self, received: ServiceBusReceivedMessage) -> float:
        self._receiver.renew_message_lock(received, timeout=RENEW_TIMEOUT + SLACK)
        return message_lock(received)

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        now = time.monotonic()
        if self._session_id is not None:
            return self._lock.left(now)
        locks = [own.lock for own in map(_own, deliveries) if own.lock is not None]
        return min((lock.left(now) for lock in locks), default=math.inf)

    @contextmanager
    def _bounded(self, seconds: float, doing: str) -> Iterator[None]:
        with all_translated(doing, proven=True), self._guard.within(seconds, doing):
            yield

    def _unsettled(self) -> list[BusDelivery]:
        return [each for each in self._handed_out if not settle.settled(each.received)]

    def close(self) -> None:
        """See the port. Without this, messages of a queue without sessions would wait until their locks end, and count one more delivery."""
        if left := self._unsettled():
            try:
                with self._bounded(CLOSE_TIMEOUT, f"giving back {len(left)} messages of {self._where}"):
                    settle.give_back(self._receiver, [each.received for each in left])
            except TransientError as error:
                log.debug("giving back failed", receiver=self._where, messages=len(left), error=error.message)
        close_quietly(self._guard, self._receiver, self._client)


def _grant(handler: Any) -> None:
    """Grant credit where all granted before has been used: the SDK does so only while it waits for a message, and it is not asked to here."""
    link: Any = getattr(handler, "_link", None)
    granted: Any = getattr(handler, "_link_credit", None)
    left: Any = getattr(link, "current_link_credit", None)
    if isinstance(granted, int) and isinstance(left, int) and granted > 0 >= left:
        link.flow(link_credit=granted)


def _own(delivery: Delivery) -> BusDelivery:
    if not isinstance(delivery, BusDelivery):
        raise TypeError(f"a {type(delivery).__name__} was not received here")
    return delivery
