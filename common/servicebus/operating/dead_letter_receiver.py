"""Receives the dead letters of a queue or subscription, and passes over those that nobody wants without a list of them. Sends nothing.

A dead letter that is passed over stays locked, so that the service hands over what lies behind it, and of its delivery only the number is kept, in
runs. So passing over a hundred thousand takes no more memory than a few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import structlog
from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSubQueue

from common.azure_amqp.address import ServiceBusAddress
from common.bus.browsing import Shelf
from common.bus.fetch_ahead import FetchAhead
from common.errors import DStreamError
from common.servicebus import settle
from common.servicebus.connection.client import CLOSE_TIMEOUT
from common.servicebus.errors import all_translated
from common.servicebus.queue_receivers import QueueReceivers
from common.servicebus.receiver import BusDelivery, BusReceiver

AHEAD: Final = 1_000
"""Messages on their way to this process. Their locks run from when the service sent them."""

AHEAD_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of them: one message of Premium may have 100 MB."""

MOST_RUNS: Final = 20_000
"""Runs that are remembered. Beyond them those that were passed over first are forgotten, and come again when their locks end."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Run:
    """Delivery numbers without a gap, and the tag of the first."""

    first: int
    last: int
    tag: bytes


@dataclass(slots=True)
class _PassedOver:
    runs: deque[_Run] = field(default_factory=deque)

    def add(self, number: int, tag: bytes) -> None:
        if self.runs and self.runs[-1].last + 1 == number:
            self.runs[-1].last = number
        else:
            self.runs.append(_Run(number, number, tag))
        if len(self.runs) > MOST_RUNS:
            self.runs.popleft()


class DeadLetterReceiver(BusReceiver):
    """A `BusReceiver` that can pass over what it received."""

    def __init__(
        self, client: ServiceBusClient, receiver: ServiceBusReceiver, queue: str, guard: Any, ahead: FetchAhead
    ) -> None:
        super().__init__(client, receiver, queue, guard, ahead)
        self._passed_over = _PassedOver()

    def pass_over(self, deliveries: Sequence[BusDelivery]) -> None:
        """Keep their locks and forget the rest of them; `close` releases the locks."""
        tags: Any = getattr(
            getattr(getattr(self._receiver, "_handler", None), "_link", None), "_received_delivery_tags", None
        )
        for received in (delivery.received for delivery in deliveries):
            number, tag = settle.delivery_id(received), getattr(received, "_delivery_tag", None)
            if number is None or tag is None:
                continue
            self._passed_over.add(number, tag)
            received._settled = True  # not given back one by one
            if isinstance(tags, set):
                tags.discard(tag)

    def close(self) -> None:
        if self._passed_over.runs:
            doing = f"giving back dead letters of {self._queue}"
            try:
                with all_translated(doing, proven=True), self._guard.within(CLOSE_TIMEOUT, doing):
                    self._release_runs()
            except DStreamError as error:
                log.debug("giving back failed", receiver=self._where, error=error.message)
            self._passed_over.runs.clear()
        super().close()

    def _release_runs(self) -> None:
        """Available at once, delivery count unchanged (AMQP 1.0, 3.4.4); one frame a run."""
        handler: Any = self._receiver._handler
        for run in self._passed_over.runs:
            handler._link._received_delivery_tags.add(run.tag)  # the SDK asks for one that it knows
            handler.settle_messages((run.first, run.last), run.tag, "released")


class DeadLetterReceivers(QueueReceivers):
    """Where they come from. Dead-letter queues have no sessions, whatever their entity has."""

    receiver_type: ClassVar[type[BusReceiver]] = DeadLetterReceiver

    def __init__(self, address: ServiceBusAddress, shelf: Shelf) -> None:
        super().__init__(address, str(shelf), sessions=False, ahead=FetchAhead(AHEAD, share=AHEAD_BYTES))
        self._shelf = shelf

    def made_by(self, client: ServiceBusClient, **options: Any) -> ServiceBusReceiver:
        options["sub_queue"] = ServiceBusSubQueue.DEAD_LETTER
        if self._shelf.subscription is None:
            return client.get_queue_receiver(self._shelf.entity, **options)
        return client.get_subscription_receiver(self._shelf.entity, self._shelf.subscription, **options)
