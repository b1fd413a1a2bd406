"""Looks at messages without taking them: peeks over `$management` alone.

The SDK's `peek_messages` opens a receiver first, which the service refuses for an entity with sessions unless a session's lock is taken: from a
router, that is. Peeking needs no such link: without `session-id` the operation returns the messages of all sessions. So the SDK's handler for
management alone asks here. https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-request-response (peek message).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

from common.azure_amqp.address import ServiceBusAddress
from common.azure_amqp.deadline import Guard
from common.azure_amqp.links import tend
from common.bus.browsing import LAST, Lying, Shelf
from common.errors import DStreamError, EntityMissing, PermanentError
from common.message import Message, PropertyValue
from common.servicebus.connection.client import OPEN_TIMEOUT, close_quietly, open_client
from common.servicebus.errors import all_translated
from common.servicebus.operating.asking import asking
from common.servicebus.wire.decoding import Arrived, decoded

State = Literal["active", "deferred", "scheduled"]

LINK_TIMEOUT = 10.0
"""Seconds for opening the link, name, TLS and sign-in included: a person waits for it, and a healthy one takes about half a second."""

PEEK_TIMEOUT = 20.0
"""Seconds for one page: the service answers in parts of a second, a slow line takes seconds for a page of large messages."""

MOST_ASKED = 5_000
"""Requests on one link before it is opened again: the SDK dies silently after 10,000 answers."""

MOST_AT_ONCE = 250
"""Messages that are asked for at once; an answer holds fewer where they are large."""

REASON, DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"
"""Application properties of a dead letter."""

_OPERATION: Final = b"com.microsoft:peek-message"
_SEQUENCE, _ENQUEUED, _STATE = b"x-opt-sequence-number", b"x-opt-enqueued-time", b"x-opt-message-state"
_STATES: Final[Mapping[int, State]] = {1: "deferred", 2: "scheduled"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY: Final = frozenset((202, 204))
_OK: Final = 200
_NOT_OPENED: Final = "Failed to open mgmt link"


def path_of(shelf: Shelf) -> str:
    """Its address. https://learn.microsoft.com/azure/service-bus-messaging/service-bus-dead-letter-queues"""
    kept = shelf.entity if shelf.subscription is None else f"{shelf.entity}/Subscriptions/{shelf.subscription}"
    return f"{kept}/$DeadLetterQueue" if shelf.dead else kept


class BusBrowser:
    """A `common.bus.browsing.Browser`. After an error it opens its link again."""

    def __init__(self, address: ServiceBusAddress, shelf: Shelf) -> None:
        self._address = address
        self._shelf = shelf
        self._guard = Guard(address)
        self._client: ServiceBusClient | None = None
        self._handle: Any = None
        self._asked = 0

    def __repr__(self) -> str:
        return f"<BusBrowser {self._shelf} at {self._address}>"

    def page(self, *, first: int, most: int) -> Sequence[Lying]:
        doing = f"looking at {self._shelf}"
        if not 0 <= first <= LAST:  # the SDK finds no encoding for it, and would try again for half a minute
            raise PermanentError(f"{doing}: no message has the sequence number {first}")
        try:
            with asking(doing, who=self._address.credential):
                handle = self._opened(doing)
                with self._guard.within(PEEK_TIMEOUT, doing):
                    return self._peek(handle, first, min(most, MOST_AT_ONCE))
        except DStreamError as error:
            missing = self._missing(doing) if _NOT_OPENED in error.message else None
            self.close()
            if missing is not None:
                raise missing from error
            raise

    def _missing(self, doing: str) -> EntityMissing | None:
        """The SDK forgets why the link for management was refused. A receiver says it; this one asks for no message."""
        client = self._client
        if client is None:
            return None
        options: dict[str, Any] = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER} if self._shelf.dead else {}
        if self._shelf.subscription is None:
            receiver = client.get_queue_receiver(self._shelf.entity, **options)
        else:
            receiver = client.get_subscription_receiver(self._shelf.entity, self._shelf.subscription, **options)
        tend(receiver, self._guard)
        try:
            with (
                all_translated(doing, proven=False, who=self._address.credential),
                self._guard.within(OPEN_TIMEOUT, doing),
            ):
                receiver.__enter__()
        except EntityMissing as error:
            return error
        except DStreamError:
            return None
        finally:
            close_quietly(self._guard, receiver)
        return None

    def _opened(self, doing: str) -> Any:
        if self._asked >= MOST_ASKED:
            self.close()
        if self._handle is None:
            self._client = open_client(self._address, try_timeout=PEEK_TIMEOUT)
            make = getattr(self._client, "_create_session_browser", None)
            if make is None:
                raise PermanentError(
                    f"looking at {self._shelf}: this azure-servicebus asks no entity's management without a receiver",
                    hint="install the version that the release names",
                )
            self._handle, self._asked = make(path_of(self._shelf), keep_alive=None), 0
            tend(self._handle, self._guard)
            with self._guard.within(LINK_TIMEOUT, doing):
                self._handle._open_with_retry()
        self._asked += 1
        return self._handle

    def _peek(self, handle: Any, first: int, most: int) -> Sequence[Lying]:
        transport = handle._amqp_transport
        asked = {
            "from-sequence-number": transport.AMQP_LONG_VALUE(first),
            "message-count": transport.AMQP_INT_VALUE(most),
        }
        found: Sequence[Lying] = handle._mgmt_request_response_with_retry(
            _OPERATION, asked, _answer, keep_alive_associated_link=False, timeout=PEEK_TIMEOUT
        )
        return found

    def close(self) -> None:
        handle, client, self._handle, self._client = self._handle, self._client, None, None
        if client is not None:
            close_quietly(self._guard, handle, client)


def _answer(status: int, message: Any, description: Any, *, amqp_transport: Any) -> Sequence[Lying]:
    """The messages of a response. Raises the SDK's errors."""
    if status in _EMPTY:
        return ()
    if status != _OK:
        condition = (message.application_properties or {}).get(b"errorCondition")
        amqp_transport.handle_amqp_mgmt_error(_NO_LOG, "Message peek failed.", condition, description, status)
    held = (message.value or {}).get(b"messages") or ()
    return [_lying(decoded(bytes(each[b"message"]))) for each in held]


class _Silent:
    """Takes what the SDK would log."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


_NO_LOG: Final = _Silent()


def _lying(arrived: Arrived) -> Lying:
    numbers = arrived.annotations
    enqueued = numbers.get(_ENQUEUED)
    return lying_of(
        arrived.message,
        arrived.fault,
        sequence=numbers.get(_SEQUENCE, 0),
        enqueued=None if enqueued is None else _EPOCH + timedelta(milliseconds=enqueued),
        delivery_count=arrived.delivery_count or 0,
        state=_STATES.get(numbers.get(_STATE, 0), "active"),
    )


def lying_of(
    message: Message,
    fault: str | None,
    *,
    sequence: int,
    enqueued: datetime | None,
    delivery_count: int,
    state: State = "active",
) -> Lying:
    """With reason and description, which a dead letter has among its properties."""
    properties = message.application_properties
    return Lying(
        message,
        sequence=sequence,
        enqueued=enqueued,
        delivery_count=delivery_count,
        state=state,
        reason=_text(properties.get(REASON)),
        description=_text(properties.get(DESCRIPTION)),
        fault=fault,
    )


def _text(value: PropertyValue | None) -> str | None:
    return value if isinstance(value, str) else None
