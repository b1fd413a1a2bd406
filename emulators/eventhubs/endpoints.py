"""What stands behind the links of clients: publishing to a hub, consuming a partition, asking `$management`.

Sources: learn.microsoft.com "AMQP 1.0 in Azure Service Bus and Event Hubs protocol guide"; azure-eventhub 5.15 for link properties and the
requests of `$management`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emulators.servicebus.amqp.link import Delivery, Link, symbol_map
from emulators.servicebus.amqp.values import AmqpError, Array, Described, Timestamp, Value
from emulators.servicebus.entities.admission import too_large
from emulators.servicebus.links.passage import Passage
from emulators.servicebus.links.requests import Request, RequestEndpoint, Response, text

from .event import read, render
from .hub import Hub, Namespace, Partition
from .position import Position

EPOCH: Final = "com.microsoft:epoch"
_HUB: Final = "com.microsoft:eventhub"
_PARTITION: Final = "com.microsoft:partition"
_STATUS: Final = {
    "amqp:not-found": 404,
    "amqp:unauthorized-access": 401,
    "com.microsoft:server-busy": 503,
    "amqp:not-implemented": 501,
}


def _nothing() -> None:
    """Nobody wants to know that a link is gone."""


class Publisher:
    """A client sends to a hub, or to one `partition` of it."""

    def __init__(self, namespace: Namespace, hub: Hub, partition: Partition | None, passage: Passage) -> None:
        self.on_detach: Callable[[], None] = _nothing
        self._namespace = namespace
        self._hub = hub
        self._partition = partition
        self._passage = passage

    def received(self, link: Link, delivery: Delivery) -> None:
        """Accept an event or a batch, whole or not at all."""
        try:
            if delivery.payload is None:
                raise too_large(None, link.max_message_size)
            publication = read(delivery.message_format, delivery.payload)
            self._passage.send([event.message_id for event in publication.events], 0)
            partition = self._partition or self._hub.chosen(publication.key)
            self._namespace.publish(self._hub, partition, publication.events)
            self._passage.taken(len(delivery.payload))
        except AmqpError as failure:
            link.rejected(delivery, failure)
        else:
            link.accepted(delivery)

    def credited(self, link: Link) -> None:
        """Nothing is delivered on this link."""

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Nothing is delivered on this link."""
        return None

    def detached(self, link: Link) -> None:
        """Events accepted stay."""
        self.on_detach()


class Consumer:
    """A client reads a partition for a consumer group; `epoch` is its owner level."""

    def __init__(self, link: Link, partition: Partition, group: str, position: Position, passage: Passage) -> None:
        epoch = symbol_map(link.properties).get(EPOCH)
        self.epoch: int | None = int(epoch) if isinstance(epoch, int) else None
        self.on_detach: Callable[[], None] = _nothing
        self._link = link
        self._partition = partition
        self._group = group
        self._next = partition.begin(position)
        self._passage = passage

    def feed(self) -> None:
        """Deliver what the client will take. Nothing depends on how it settles: the position is its own affair."""
        link, events = self._link, self._partition.events
        while self._next < len(events) and link.credit > 0:
            event = events[self._next]
            self._next += 1
            self._passage.deliver()
            link.send(event.sequence.to_bytes(8, "big"), render(event), link.settled_deliveries)

    def detach(self, failure: AmqpError) -> None:
        """The client may not go on."""
        self._link.close(failure)

    def credited(self, link: Link) -> None:
        """Deliver what the client will take, unless it is refused: then its link ends, as nothing else answers it."""
        if link.granted > 0:
            try:
                self._passage.ask()
            except AmqpError as failure:
                link.close(failure)
                return
        self.feed()

    def received(self, link: Link, delivery: Delivery) -> None:
        """No client sends on a link it receives on."""

    def settle(self, link: Link, tag: bytes, state: Described) -> AmqpError | None:
        """Taken note of, by nobody."""
        return None

    def detached(self, link: Link) -> None:
        """One reader less."""
        self._partition.leave(self._group, self)
        self.on_detach()


class Management(RequestEndpoint):
    """`$management`: READ of a hub and of a partition."""

    status_name = "status-code"
    description_name = "status-description"

    def __init__(
        self, namespace: Namespace, authorize: Callable[[str, str], None], passage: Callable[[str], Passage]
    ) -> None:
        """`authorize(token, path)` raises AmqpError unless the token lets its bearer ask about the hub."""
        self._namespace = namespace
        self._authorize = authorize
        self._passage = passage

    def refusal(self, failure: AmqpError) -> Response:
        status = _STATUS.get(failure.condition, 400)
        return Response(status, failure.description, condition=failure.condition)

    def handle(self, link: Link, request: Request) -> Response:
        asked = request.properties
        operation, kind = text(asked.get("operation")), text(asked.get("type"))
        name = text(asked.get("name"))
        if operation != "READ" or kind not in (_HUB, _PARTITION):
            raise AmqpError("amqp:not-implemented", f"Operation '{operation}' of type '{kind}' is not supported.")
        self._authorize(text(asked.get("security_token")), name.lower())
        hub = self._namespace.find(name)
        self._passage(hub.name.lower()).ask()
        if kind == _HUB:
            return Response(200, "OK", _about_hub(hub))
        return Response(200, "OK", _about_partition(hub, hub.partition(text(asked.get("partition")))))


def _about_hub(hub: Hub) -> Value:
    return {
        "name": hub.name,
        "type": _HUB,
        "created_at": Timestamp(hub.created_at),
        "partition_count": len(hub.partitions),
        "partition_ids": Array(str, [str(partition.number) for partition in hub.partitions]),
    }


def _about_partition(hub: Hub, partition: Partition) -> Value:
    last = partition.last
    return {
        "name": hub.name,
        "type": _PARTITION,
        "partition": str(partition.number),
        "begin_sequence_number": 0 if last is not None else -1,
        "last_enqueued_sequence_number": -1 if last is None else last.sequence,
        "last_enqueued_offset": "-1" if last is None else str(last.offset),
        "last_enqueued_time_utc": Timestamp(0 if last is None else last.enqueued_at),
        "is_partition_empty": last is None,
    }
