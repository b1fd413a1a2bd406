"""Sending to a queue or topic: a link of its own, full batches of one session each, and the one message that is refused.

A batch is accepted as a whole or not at all; after a fault the link's state is unknown, so the next send begins with a fresh one.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence

import structlog
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusMessageBatch, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from common.azure_amqp.address import ServiceBusAddress
from common.azure_amqp.deadline import Guard
from common.azure_amqp.links import tend
from common.bus.ports import (
    MessageRefused,
    MessageTooLarge,
    MessageUnwritable,
    OutOfTime,
    SendInterrupted,
    TimeLeft,
    for_ever,
)
from common.errors import EntityDisabled, EntityUnavailable, Throttled, TransientError
from common.message import Message
from common.servicebus.connection.client import OPEN_TIMEOUT, SLACK, close_quietly, open_client
from common.servicebus.connection.known import KNOWN
from common.servicebus.connection.links import keep_when_refused
from common.servicebus.errors import refusal, translated
from common.servicebus.wire.batches import fill
from common.servicebus.wire.messages import to_sdk
from common.servicebus.wire.sections import write_at_once

SEND_TIMEOUT = 15.0
"""Seconds for the broker's answer to one send, less than the 20 s a stop may take."""

WRITE_TIMEOUT = 10.0
"""Seconds for the system to accept a frame (64 KB): a write over TLS succeeds as a whole within its time or fails, and the SDK's own 0.2 s is
too little for an uplink of 100 KB/s. Waiting for an answer ends as soon as there is one."""

STALE_AFTER = 60.0
"""Seconds without a send after which a broken link is opened again and not reported: the service closes links idle for ten minutes,
and connections sooner (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-troubleshoot)."""

ENVELOPE = 2_048
"""Bytes kept free in a batch for its envelope, which repeats the first message's id, session and partition key (128 characters
each): azure-servicebus 7.15 adds them after it has counted, so that a full batch would be refused."""

_UNWRITABLE = (ValueError, TypeError, OverflowError, struct.error)
"""Raised for a message that cannot be encoded, here or in the SDK (text that is not Unicode, names too long, values of other kinds)."""

_WRITABLE = "fix the program that makes such messages: AMQP cannot express this one"

_REFUSED = (
    "fix what the service names, in the message or in the entity's settings; if it refuses every message, check that the entity's session "
    "setting matches queue.ordering"
)

log = structlog.get_logger(__name__)


class _Sending:
    """One call of `send`: its messages, and the places of those that were accepted."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.accepted: set[int] = set()

    def left(self) -> Sequence[int]:
        return [at for at in range(len(self.messages)) if at not in self.accepted]


class BusSender:
    """A `common.bus.ports.Sender` for a queue or a topic. Opens its link on `open` or on first use, and again after a fault."""

    def __init__(self, address: ServiceBusAddress, entity: str, *, proven: bool = False) -> None:
        """`proven`: another process could send with this key or identity, so `open` treats a refusal as transient."""
        self._proven = proven
        self._address = address
        self._entity = entity
        self._client: ServiceBusClient | None = None
        self._sender: ServiceBusSender | None = None
        self._used = 0.0
        self._used_before = False
        self._guard = Guard(address)
        self._left: TimeLeft = for_ever
        self._sending, self._opening = f"sending to {entity}", f"opening a sender for {entity}"

    def __repr__(self) -> str:
        return f"<BusSender {self._entity} at {self._address}: {'open' if self._sender else 'closed'}>"

    def open(self) -> None:
        """Open the link now, so that a missing entity or right is noticed. Raises TransientError or EntityUnavailable."""
        self._opened(proven=self._proven)

    def batch_bytes(self) -> int:
        return self._batch(self._opened()).max_size_in_bytes

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        sending = _Sending(messages)
        stale = self._sender is not None and time.monotonic() - self._used > STALE_AFTER
        self._left = left or for_ever
        try:
            self._send_all(sending)
        except SendInterrupted as error:
            if not stale or error.throttled or isinstance(error, OutOfTime):
                raise
            # The service detaches links that were idle for minutes; that is normal and not a fault.
            log.debug("reopening an idle sender", entity=self._entity, error=error.message)
            self._send_all(sending)
        finally:
            self._left = for_ever

    def _send_all(self, sending: _Sending) -> None:
        """All that is left."""
        try:
            with translated(self._sending, who=self._address.credential, used_before=self._used_before):
                for run in by_session(sending.messages, sending.left()):
                    self._send_session(run, sending)
        except OutOfTime:
            raise
        except EntityUnavailable:
            self.close()
            raise
        except TransientError as error:
            throttled = isinstance(error, Throttled)
            if not throttled:
                # The link's state is unknown now; the next send begins with a fresh one. A refusal leaves it as it was.
                self.close()
                if self._left() <= 0:
                    raise self._out_of_time(sending) from error
            raise SendInterrupted(
                error.message,
                hint=error.hint,
                accepted=sending.accepted,
                throttled=throttled,
                disabled=isinstance(error, EntityDisabled),
            ) from error
        self._used = time.monotonic()

    def close(self) -> None:
        sender, client, self._sender, self._client = self._sender, self._client, None, None
        if sender is not None:
            close_quietly(self._guard, sender, client)
            self._guard.handle = None

    def _opened(self, *, proven: bool = False) -> ServiceBusSender:
        if self._sender is None:
            seconds = min(OPEN_TIMEOUT, self._left())
            client = open_client(self._address, try_timeout=seconds)
            # Queues and topics share one address space, so a topic's name works as well. The SDK's keep-alive thread reads frames next to the
            # sender without a lock over its list of deliveries: a delivery lost from that list is never sent and never times out.
            sender = client.get_queue_sender(self._entity, keep_alive=None, socket_timeout=WRITE_TIMEOUT)
            tend(sender, self._guard, attached=write_at_once)
            keep_when_refused(sender)
            try:
                with (
                    translated(
                        self._opening, who=self._address.credential, used_before=self._used_before, proven=proven
                    ),
                    self._guard.within(seconds, self._opening),
                ):
                    sender.__enter__()
            except BaseException:
                close_quietly(self._guard, sender, client)
                self._guard.handle = None
                raise
            self._client, self._sender, self._used, self._used_before = client, sender, time.monotonic(), True
            KNOWN.there(self._address.host, self._entity)
        return self._sender

    def _send_session(self, places: Sequence[int], sending: _Sending) -> None:
        if self._left() <= 0:
            raise self._out_of_time(sending)
        sender = self._opened()
        messages = sending.messages
        while places:
            batch = self._batch(sender)
            try:
                count = fill(batch, (messages[at] for at in places))
            except _UNWRITABLE as error:
                raise self._unwritable(places[0], error, sending) from error
            if count:
                self._flush(sender, batch, places[:count], sending)
            else:
                self._send_alone(sender, places[0], sending)
            places = places[count or 1 :]

    def _batch(self, sender: ServiceBusSender) -> ServiceBusMessageBatch:
        limit = sender.create_message_batch().max_size_in_bytes
        return sender.create_message_batch(max_size_in_bytes=max(limit - ENVELOPE, limit // 2))

    def _flush(
        self,
        sender: ServiceBusSender,
        batch: ServiceBusMessageBatch,
        held: Sequence[int],
        sending: _Sending,
    ) -> None:
        """Send a batch of the messages at these places. If the service refuses it for its content, send halves, down to the one at fault."""
        try:
            self._pass_on(sender, batch, sending)
        except ServiceBusError as error:
            verdict = self._verdict(sender, error, held[0], sending)
            if verdict is None:
                raise
            if len(held) == 1:
                raise verdict from error
            middle = len(held) // 2
            for half in (held[:middle], held[middle:]):
                self._send_session(half, sending)
            return
        sending.accepted.update(held)

    def _pass_on(
        self,
        sender: ServiceBusSender,
        what: ServiceBusMessage | ServiceBusMessageBatch,
        sending: _Sending,
    ) -> None:
        """Raises OutOfTime before anything was sent, and what the SDK and the guard raise."""
        seconds = min(SEND_TIMEOUT, self._left())
        if seconds <= 0:
            raise self._out_of_time(sending)
        with self._guard.within(seconds, self._sending):
            sender.send_messages(what, timeout=seconds + SLACK)

    def _out_of_time(self, sending: _Sending) -> OutOfTime:
        return OutOfTime(f"{self._sending}: nothing more may be sent", accepted=sending.accepted)

    def _send_alone(self, sender: ServiceBusSender, at: int, sending: _Sending) -> None:
        """For messages larger than any batch: Premium entities take single messages far above the size of a batch."""
        limit, message = self._limit(sender), sending.messages[at]
        if len(message.body) > limit:
            raise MessageTooLarge(self._entity, message, at=at, limit=limit, accepted=sending.accepted)
        try:
            written = to_sdk(message)
        except _UNWRITABLE as error:
            raise self._unwritable(at, error, sending) from error
        try:
            self._pass_on(sender, written, sending)
        except ServiceBusError as error:
            verdict = self._verdict(sender, error, at, sending)
            if verdict is None:
                raise
            raise verdict from error
        sending.accepted.add(at)

    def _unwritable(self, at: int, error: Exception, sending: _Sending) -> MessageUnwritable:
        words = f"cannot be written: {error}"
        return MessageUnwritable(
            self._entity, sending.messages[at], words, at=at, accepted=sending.accepted, hint=_WRITABLE
        )

    def _verdict(
        self, sender: ServiceBusSender, error: ServiceBusError, at: int, sending: _Sending
    ) -> MessageRefused | None:
        """The refusal that a failed send of this message alone means; None when the failure does not concern the message."""
        message, accepted = sending.messages[at], sending.accepted
        if isinstance(error, MessageSizeExceededError):
            return MessageTooLarge(self._entity, message, at=at, limit=self._limit(sender), accepted=accepted)
        words = refusal(error)
        if words is None:
            return None
        return MessageRefused(self._entity, message, f"was refused: {words}", at=at, accepted=accepted, hint=_REFUSED)

    @staticmethod
    def _limit(sender: ServiceBusSender) -> int:
        """Bytes of the largest single message, which the SDK keeps in a private name of the link."""
        return int(getattr(sender, "_max_message_size_on_link", 0) or sender.create_message_batch().max_size_in_bytes)


def by_session(messages: Sequence[Message], places: Iterable[int]) -> Iterator[Sequence[int]]:
    """Places of messages of one session and partition each, in order of first appearance; the order inside each is kept.

    "If your entity is session-enabled, the same requirement holds true for the SessionId property": one batch, one session.
    Source: azure-sdk-for-net, Azure.Messaging.ServiceBus/TROUBLESHOOTING.md, "Cannot send batch with multiple partition keys".
    """
    groups: dict[tuple[str | None, str | None], list[int]] = {}
    for at in places:
        message = messages[at]
        groups.setdefault((message.session_id, message.partition_key), []).append(at)
    yield from groups.values()
