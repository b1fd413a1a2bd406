"""Azure Service Bus behind the ports of common/bus.py: senders, receivers, sessions. Talks AMQP through the SDK, manages nothing.

The SDK tries again by itself and sleeps while it does; here every call fails at once and the caller's own back-off decides
(`retry_total=0`; without it, waiting one second for a session takes nineteen). Each sender and receiver is a connection of its own.
It refuses to hide a lost lock: what was not completed is returned, and comes again.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessageBatch,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)
from azure.servicebus._pyamqp.error import AMQPException
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from common import servicebus_settle as settle
from common.azure_identity import Identity
from common.bus import Delivery, MessageTooLarge, Receiver
from common.errors import ConfigurationError, TransientError
from common.message import Message
from common.servicebus_address import ServiceBusAddress, read_address
from common.servicebus_errors import quiet_sdk, translated
from common.servicebus_links import tend
from common.servicebus_messages import from_sdk, to_sdk
from common.topology import BusSettings

OPEN_TIMEOUT = 20.0
"""Seconds for one attempt to open a link, sign-in included; a healthy one takes about half a second."""

SEND_TIMEOUT = 15.0
"""Seconds for the broker's answer to one send, less than the 20 s a stop may take; unbounded, the SDK waits for ever on an
answer it cannot read."""

SETTLE_TIMEOUT = 15.0
"""Seconds for the answer to a settlement; shorter than the 20 s a stop may take."""

STALE_AFTER = 60.0
"""Seconds without a send after which a broken link is opened anew without a word: the service closes links idle for ten minutes,
and connections sooner (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-troubleshoot)."""

ENVELOPE = 2_048
"""Bytes kept free in a batch for its envelope, which repeats the first message's id, session and partition key (128 characters
each): azure-servicebus 7.15 adds them after it has counted, so that a full batch would be refused."""

MAX_RENEWALS = 5_000
"""Lock renewals on one receiver before it asks to be reopened: the SDK dies silently after 10,000 management answers on a link."""

MAX_DEAD_LETTER_TEXT = 4_000
"""Characters of a dead letter's description that are kept: the service limits a message's properties to 32 KB in all."""

log = structlog.get_logger(__name__)


class BusSender:
    """A `common.bus.Sender` for a queue or a topic. Opens its link on `open` or on first use, and again after a fault."""

    def __init__(self, address: ServiceBusAddress, entity: str) -> None:
        self._address = address
        self._entity = entity
        self._client: ServiceBusClient | None = None
        self._sender: ServiceBusSender | None = None
        self._used = 0.0

    def __repr__(self) -> str:
        return f"<BusSender {self._entity} at {self._address}: {'open' if self._sender else 'closed'}>"

    def open(self) -> None:
        """Open the link now, so that a missing entity or right shows. Raises TransientError or PermanentError."""
        self._opened()

    def batch_bytes(self) -> int:
        return self._batch(self._opened()).max_size_in_bytes

    def send(self, messages: Sequence[Message]) -> None:
        accepted: list[Message] = []
        stale = self._sender is not None and time.monotonic() - self._used > STALE_AFTER
        try:
            self._send_all(messages, accepted)
        except TransientError as error:
            if not stale:
                raise
            # The service detaches links that were quiet for minutes; that is its habit and no fault.
            log.debug("reopening an idle sender", entity=self._entity, error=error.message)
            done = {id(message) for message in accepted}
            self._send_all([message for message in messages if id(message) not in done], accepted)

    def _send_all(self, messages: Sequence[Message], accepted: list[Message]) -> None:
        try:
            with translated(f"sending to {self._entity}"):
                for run in by_session(messages):
                    self._send_session(run, accepted)
        except TransientError:
            # The link's state is unknown now; the next send begins with a fresh one.
            self.close()
            raise
        self._used = time.monotonic()

    def close(self) -> None:
        sender, client, self._sender, self._client = self._sender, self._client, None, None
        _close_quietly(sender, client)

    def _opened(self) -> ServiceBusSender:
        if self._sender is None:
            client = _client(self._address)
            sender = client.get_queue_sender(self._entity)  # one address space: a topic's name serves as well
            tend(sender)
            try:
                with translated(f"opening a sender for {self._entity}"):
                    sender.__enter__()
            except BaseException:
                _close_quietly(sender, client)
                raise
            self._client, self._sender, self._used = client, sender, time.monotonic()
        return self._sender

    def _send_session(self, messages: Sequence[Message], accepted: list[Message]) -> None:
        sender = self._opened()
        batch, held = self._batch(sender), list[Message]()
        for message in messages:
            if not _added(batch, message):
                if held:
                    self._flush(sender, batch, held, accepted)
                    batch, held = self._batch(sender), []
                if not _added(batch, message):
                    self._send_alone(sender, message, accepted)
                    continue
            held.append(message)
        if held:
            self._flush(sender, batch, held, accepted)

    def _batch(self, sender: ServiceBusSender) -> ServiceBusMessageBatch:
        limit = sender.create_message_batch().max_size_in_bytes
        return sender.create_message_batch(max_size_in_bytes=max(limit - ENVELOPE, limit // 2))

    def _flush(
        self, sender: ServiceBusSender, batch: ServiceBusMessageBatch, held: Sequence[Message], accepted: list[Message]
    ) -> None:
        """Send a batch; one that the service finds too large after all goes in halves, so that nothing is tried for ever."""
        try:
            sender.send_messages(batch, timeout=SEND_TIMEOUT)
        except MessageSizeExceededError as error:
            if len(held) == 1:
                raise MessageTooLarge(self._entity, held[0], limit=self._limit(sender), accepted=accepted) from error
            middle = len(held) // 2
            for half in (held[:middle], held[middle:]):
                smaller = self._batch(sender)
                for message in half:
                    smaller.add_message(to_sdk(message))
                self._flush(sender, smaller, half, accepted)
            return
        accepted += held

    def _send_alone(self, sender: ServiceBusSender, message: Message, accepted: list[Message]) -> None:
        """Larger than any batch: Premium entities take single messages far above the size of a batch."""
        limit = self._limit(sender)
        if len(message.body) > limit:
            raise MessageTooLarge(self._entity, message, limit=limit, accepted=accepted)
        try:
            sender.send_messages(to_sdk(message), timeout=SEND_TIMEOUT)
        except MessageSizeExceededError as error:
            raise MessageTooLarge(self._entity, message, limit=limit, accepted=accepted) from error
        accepted.append(message)

    @staticmethod
    def _limit(sender: ServiceBusSender) -> int:
        """Bytes of the largest single message; the SDK keeps what the link says to itself."""
        return int(getattr(sender, "_max_message_size_on_link", 0) or sender.create_message_batch().max_size_in_bytes)


def by_session(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Messages of one session and partition each, in order of first appearance; the order inside each is kept.

    "If your entity is session-enabled, the same requirement holds true for the SessionId property": one batch, one session.
    Source: azure-sdk-for-net, Azure.Messaging.ServiceBus/TROUBLESHOOTING.md, "Cannot send batch with multiple partition keys".
    """
    groups: dict[tuple[str | None, str | None], list[Message]] = {}
    for message in messages:
        groups.setdefault((message.session_id, message.partition_key), []).append(message)
    yield from groups.values()


def _added(batch: ServiceBusMessageBatch, message: Message) -> bool:
    try:
        batch.add_message(to_sdk(message))
    except MessageSizeExceededError:
        return False
    return True


class BusDelivery:
    """A `common.bus.Delivery`: read once, kept with the SDK's message, which is needed to settle it."""

    __slots__ = ("_fault", "_message", "received")

    def __init__(self, received: ServiceBusReceivedMessage) -> None:
        self.received = received
        self._message, self._fault = from_sdk(received)

    @property
    def message(self) -> Message:
        return self._message

    @property
    def fault(self) -> str | None:
        return self._fault

    @property
    def delivery_count(self) -> int:
        return self.received.delivery_count or 0


class BusReceiver:
    """A `common.bus.Receiver` for a queue, or for one session of it."""

    def __init__(self, client: ServiceBusClient, receiver: ServiceBusReceiver, queue: str) -> None:
        self._client = client
        self._receiver = receiver
        self._queue = queue
        self._session_id = receiver.session.session_id if receiver.session else None
        self._renewals = 0
        self._lock_length = self._remaining(None) if self._session_id is not None else 0.0
        self._ranged = settle.supported()

    def __repr__(self) -> str:
        return f"<BusReceiver {self._where}>"

    @property
    def _where(self) -> str:
        return self._queue if self._session_id is None else f"session {self._session_id} of {self._queue}"

    @property
    def session_id(self) -> str | None:
        return self._session_id

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[BusDelivery]:
        if self._renewals >= MAX_RENEWALS:
            raise TransientError(
                f"receiving from {self._where}: the link has served {self._renewals} renewals and is due to be reopened"
            )
        with translated(f"receiving from {self._where}"):
            # One message is waited for, the others are taken if they are here already: asking the SDK for
            # many at once makes it wait 0.2 s for more after the first.
            first = self._receiver.receive_messages(1, max_wait_time=max(max_wait, 0.001))
            if not first:
                return ()
            deliveries = [BusDelivery(message) for message in (*first, *self._at_hand(max_count - 1))]
        if self._session_id is None:
            self._lock_length = max(self._lock_length, self._remaining(deliveries[0]))
        return deliveries

    def _at_hand(self, count: int) -> Sequence[ServiceBusReceivedMessage]:
        """What the SDK has buffered and what lies in the socket: no waiting. Nothing where the SDK is built otherwise."""
        handler: Any = getattr(self._receiver, "_handler", None)
        buffered: Any = getattr(handler, "_received_messages", None)
        if buffered is None or count <= 0:
            return ()
        try:
            while buffered.qsize() < count and _readable(handler) and handler.do_work():
                continue
        except (AMQPException, OSError) as error:
            # What came before the fault is handed over; the next call meets the fault again.
            log.debug("reading ahead failed", receiver=self._where, error=str(error))
        ready = min(count, buffered.qsize())
        return self._receiver.receive_messages(ready, max_wait_time=1) if ready else ()

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        held = [_own(delivery) for delivery in deliveries]
        if not held:
            return ()
        doing = f"completing {len(held)} messages of {self._where}"
        if self._ranged and all(settle.delivery_id(delivery.received) is not None for delivery in held):
            with translated(doing):
                try:
                    lost = settle.complete(self._receiver, [each.received for each in held], timeout=SETTLE_TIMEOUT)
                except settle.OutcomeUnknown as error:
                    raise TransientError(f"{doing}: {error}") from error
            refused = {id(message) for message in lost}
            return self._report([delivery for delivery in held if id(delivery.received) in refused])
        return self._report([delivery for delivery in held if not self._completed(delivery, doing)])

    def _completed(self, delivery: BusDelivery, doing: str) -> bool:
        try:
            with translated(doing):
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
        with translated(f"dead-lettering a message of {self._where}"):
            self._receiver.dead_letter_message(
                _own(delivery).received, reason=reason, error_description=description[:MAX_DEAD_LETTER_TEXT]
            )

    def release(self, deliveries: Sequence[Delivery]) -> None:
        with translated(f"giving back {len(deliveries)} messages of {self._where}"):
            settle.give_back(self._receiver, [_own(delivery).received for delivery in deliveries])

    def renew(self, deliveries: Sequence[Delivery]) -> None:
        with translated(f"renewing the lock of {self._where}"):
            if self._session_id is not None:
                if self._remaining(None) < self._lock_length / 2:
                    self._renewals += 1
                    self._receiver.session.renew_lock(timeout=OPEN_TIMEOUT)
                return
            for delivery in map(_own, deliveries):
                if self._remaining(delivery) < self._lock_length / 2:
                    self._renewals += 1
                    self._receiver.renew_message_lock(delivery.received, timeout=OPEN_TIMEOUT)

    def _remaining(self, delivery: BusDelivery | None) -> float:
        """Seconds until the lock of `delivery` (None: of the session) runs out."""
        until = self._receiver.session.locked_until_utc if delivery is None else delivery.received.locked_until_utc
        return (until - datetime.now(UTC)).total_seconds() if until is not None else 0.0

    def close(self) -> None:
        _close_quietly(self._receiver, self._client)


def _own(delivery: Delivery) -> BusDelivery:
    if not isinstance(delivery, BusDelivery):
        raise TypeError(f"a {type(delivery).__name__} was not received here")
    return delivery


def _readable(handler: Any) -> bool:
    """Whether a frame has begun to arrive: reading it will not wait."""
    sock = getattr(getattr(getattr(handler, "_connection", None), "_transport", None), "sock", None)
    if sock is None:
        return False
    pending = getattr(sock, "pending", None)
    if pending is not None and pending() > 0:
        return True
    if hasattr(select, "poll"):  # select() itself refuses descriptors from 1,024 on
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


class QueueReceivers:
    """`common.bus.Receivers` of one queue: with `sessions`, one session after the other; without, the queue itself."""

    def __init__(self, address: ServiceBusAddress, queue: str, *, sessions: bool, prefetch: int) -> None:
        self._address = address
        self._queue = queue
        self._sessions = sessions
        self._prefetch = prefetch

    def open(self, *, max_wait: float) -> Receiver | None:
        client = _client(self._address, try_timeout=max_wait + OPEN_TIMEOUT if self._sessions else OPEN_TIMEOUT)
        receiver = client.get_queue_receiver(
            self._queue,
            session_id=NEXT_AVAILABLE_SESSION if self._sessions else None,
            max_wait_time=max_wait if self._sessions else None,
            prefetch_count=self._prefetch,
            # One reader: the SDK's keep-alive thread reads frames as well, without a lock over reading and queueing, and what
            # it read can be queued behind what was read after it. This receiver is always being read and needs no such thread.
            keep_alive=None,
        )
        tend(receiver)
        try:
            with translated(f"opening a receiver for {self._queue}"):
                receiver.__enter__()
            return BusReceiver(client, receiver, self._queue)
        except TransientError as error:
            _close_quietly(receiver, client)
            if self._sessions and isinstance(error.__cause__, (OperationTimeoutError, SessionCannotBeLockedError)):
                return None
            raise
        except BaseException:
            _close_quietly(receiver, client)
            raise


class ServiceBus:
    """One namespace: where senders and receivers come from. Holds no connection of theirs; callable from any thread."""

    def __init__(self, address: ServiceBusAddress) -> None:
        quiet_sdk()
        self.address = address

    @classmethod
    def of(cls, settings: BusSettings, *, proven: bool = False) -> ServiceBus:
        """The namespace that `settings` name, by their key or by the identity that this process runs under.

        `proven`: another process has signed in with that identity, so that trouble with it passes. Raises ConfigurationError as
        `from_connection_string` does, and for a variable that is not set.
        """
        if settings.connection_string is not None:
            return cls.from_connection_string(settings.connection_string.get_secret_value())
        host, identity = settings.host, Identity(proven=proven)
        assert host is not None  # the settings have one of the two
        return cls(ServiceBusAddress(host, emulator=False, entity_path=None, connection_string=None, identity=identity))

    @classmethod
    def from_connection_string(cls, text: str) -> ServiceBus:
        """Raises ConfigurationError naming the part that is missing; never shows a secret."""
        return cls(read_address(text))

    def __repr__(self) -> str:
        return f"<ServiceBus {self.address}>"

    def sender(self, entity: str) -> BusSender:
        """A sender for a queue or topic, not opened yet."""
        self._check(entity)
        return BusSender(self.address, entity)

    def receivers(self, queue: str, *, sessions: bool, prefetch: int) -> QueueReceivers:
        """Receivers of a queue that has sessions, or has none; `prefetch` messages are asked for ahead (at least 1)."""
        self._check(queue)
        return QueueReceivers(self.address, queue, sessions=sessions, prefetch=max(prefetch, 1))

    def close(self) -> None:
        """Close the identity, where there is one; senders and receivers are closed by whoever opened them."""
        if self.address.identity is not None:
            self.address.identity.close()

    def _check(self, entity: str) -> None:
        scope = self.address.entity_path
        if scope is not None and scope.lower() != entity.lower():
            raise ConfigurationError(
                [f"the Service Bus connection string is for {scope} alone (EntityPath), and {entity} is needed"],
                hint="use a connection string of the namespace",
            )


def _client(address: ServiceBusAddress, *, try_timeout: float = OPEN_TIMEOUT) -> ServiceBusClient:
    options: dict[str, Any] = {"retry_total": 0, "try_timeout": try_timeout}
    if address.connection_string is not None:
        return ServiceBusClient.from_connection_string(address.connection_string, **options)
    assert address.identity is not None
    return ServiceBusClient(address.host, address.identity, **options)


def _close_quietly(*handles: Any) -> None:
    """Closing speaks to a peer that may be gone; there is nothing a caller could do about it."""
    for handle in handles:
        if handle is not None:
            try:
                handle.close()
            except (ServiceBusError, OSError, ValueError, AttributeError, TypeError) as error:
                log.debug("closing failed", kind=type(handle).__name__, error=str(error))
