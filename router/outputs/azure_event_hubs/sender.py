"""Sending to one event hub: batches of one partition key each, one after the other, and the one event that is refused.

A batch is accepted as a whole or not at all. The next batch begins when the last one was accepted, so that nothing overtakes. Event Hubs knows
no duplicates: what is sent again after a lost answer is there twice, with the same id and in the same partition.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from azure.eventhub import EventDataBatch

from common.azure_amqp.refusals import Credential
from common.bus.ports import (
    MessageRefused,
    MessageTooLarge,
    MessageUnwritable,
    OutOfTime,
    SendInterrupted,
    TimeLeft,
    for_ever,
)
from common.errors import EntityDisabled, Throttled, TransientError
from common.message import Message
from router.outputs.azure_event_hubs.batches import add
from router.outputs.azure_event_hubs.errors import refusal, too_large, translated
from router.outputs.azure_event_hubs.link import OPEN_TIMEOUT, HubLink
from router.outputs.azure_event_hubs.pool import LinkPool

BUCKETS = 16
"""Partition keys of messages without a session: about as many as a hub has partitions, and few enough for full batches."""

LONGEST_KEY = 128
"""Characters of a partition key."""

_UNWRITABLE = (ValueError, TypeError, OverflowError, struct.error)
"""Raised for a message that cannot be encoded, here or in the SDK."""

_WRITABLE = "fix the program that makes such messages: AMQP cannot express this one"
_SMALLER = "no event hub takes more; leave columns out with a shape, or send this table to another output"
_REFUSED = "fix what the service names, in the message or in the event hub's settings"


class _Sending:
    """One call of `send`: its messages, the places of those that were accepted, and the time that is left."""

    def __init__(self, messages: Sequence[Message], left: TimeLeft) -> None:
        self.messages = messages
        self.left = left
        self.accepted: set[int] = set()


class HubSender:
    """A `common.bus.ports.OpenableSender` for one hub, over the links of `pool`. `timeout`: seconds for the answer to a batch."""

    def __init__(self, pool: LinkPool, hub: str, *, who: Credential, timeout: float, proven: bool = False) -> None:
        """`proven`: another process could send with this key or identity, so a refusal when a link opens is transient."""
        self._pool = pool
        self._hub = hub
        self._who = who
        self._timeout = timeout
        self._proven = proven
        self._used_before = False
        self._doing = f"sending to {hub}"

    def __repr__(self) -> str:
        return f"<HubSender {self._hub}>"

    def open(self) -> None:
        """Open a link now, so that a missing hub or right is noticed. Raises TransientError or EntityUnavailable."""
        self.batch_bytes()

    def batch_bytes(self) -> int:
        with self._translated(), self._pool.link(self._hub) as link:
            self._open(link, for_ever)
            return link.largest

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        sending = _Sending(messages, left or for_ever)
        try:
            if messages:
                self._send_all(sending)
        except OutOfTime:
            raise
        except TransientError as error:
            throttled = isinstance(error, Throttled)
            if not throttled and sending.left() <= 0:
                raise self._out_of_time(sending) from error
            raise SendInterrupted(
                error.message,
                hint=error.hint,
                accepted=sending.accepted,
                throttled=throttled,
                disabled=isinstance(error, EntityDisabled),
            ) from error

    def close(self) -> None:
        """The links are the pool's. Those that nobody uses now are closed."""
        self._pool.rest(self._hub)

    def _send_all(self, sending: _Sending) -> None:
        if self._pool.is_busy(self._hub):
            raise Throttled(f"{self._doing}: the namespace has just said that it is busy, and for how long to wait")
        if sending.left() <= 0:
            raise self._out_of_time(sending)
        try:
            with self._translated(), self._pool.link(self._hub) as link:
                self._open(link, sending.left)
                for key, places in by_key(sending.messages):
                    self._send_key(link, key, places, sending)
        except Throttled:
            self._pool.was_busy(self._hub)
            raise

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._doing, who=self._who, used_before=self._used_before, proven=self._proven)

    def _open(self, link: HubLink, left: TimeLeft) -> None:
        if not link.sound:
            link.open(min(OPEN_TIMEOUT, self._timeout, left()))
        self._used_before = True

    def _send_key(self, link: HubLink, key: str, places: Sequence[int], sending: _Sending) -> None:
        batch, held = link.batch(key), list[int]()
        for at in places:
            message = sending.messages[at]
            try:
                fits = add(batch, message, key)
            except _UNWRITABLE as error:
                self._flush(link, key, batch, held, sending)
                raise self._unwritable(at, error, sending) from error
            if not fits:
                self._flush(link, key, batch, held, sending)
                batch, held = link.batch(key), []
                if not add(batch, message, key):
                    raise self._too_large(link, at, sending)
            held.append(at)
        self._flush(link, key, batch, held, sending)

    def _flush(self, link: HubLink, key: str, batch: EventDataBatch, held: Sequence[int], sending: _Sending) -> None:
        """Send a batch of the messages at these places. If the service refuses it for its content, send halves, down to the one at fault."""
        if not held:
            return
        seconds = min(self._timeout, sending.left())
        if seconds <= 0:
            raise self._out_of_time(sending)
        try:
            link.send(batch, seconds)
        except Exception as error:
            verdict = self._verdict(link, error, held[0], sending)
            if verdict is None:
                raise
            if len(held) == 1:
                raise verdict from error
            middle = len(held) // 2
            for half in (held[:middle], held[middle:]):
                self._send_key(link, key, half, sending)
            return
        sending.accepted.update(held)

    def _verdict(self, link: HubLink, error: Exception, at: int, sending: _Sending) -> MessageRefused | None:
        """The refusal that a failed send of this message alone means; None when the failure does not concern the message."""
        if too_large(error):
            return self._too_large(link, at, sending)
        words = refusal(error)
        if words is None:
            return None
        message = sending.messages[at]
        return MessageRefused(
            self._hub, message, f"was refused: {words}", at=at, accepted=sending.accepted, hint=_REFUSED
        )

    def _too_large(self, link: HubLink, at: int, sending: _Sending) -> MessageTooLarge:
        refused = MessageTooLarge(self._hub, sending.messages[at], at=at, limit=link.largest, accepted=sending.accepted)
        refused.hint = _SMALLER
        return refused

    def _unwritable(self, at: int, error: Exception, sending: _Sending) -> MessageUnwritable:
        words, message = f"cannot be written: {error}", sending.messages[at]
        return MessageUnwritable(self._hub, message, words, at=at, accepted=sending.accepted, hint=_WRITABLE)

    def _out_of_time(self, sending: _Sending) -> OutOfTime:
        return OutOfTime(f"{self._doing}: nothing more may be sent", accepted=sending.accepted)


def key_of(message: Message) -> str:
    """The partition key: the session, so that its order is kept. Without one a share of all ids, so that copies of a message share a partition."""
    if message.session_id:
        return message.session_id[:LONGEST_KEY]
    return f"{zlib.crc32((message.message_id or '').encode('utf-8', 'surrogatepass')) % BUCKETS}"


def by_key(messages: Sequence[Message]) -> Iterator[tuple[str, Sequence[int]]]:
    """Each key with the places of its messages, in order of first appearance; the order inside each is kept."""
    groups: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        groups.setdefault(key_of(message), []).append(at)
    yield from groups.items()
