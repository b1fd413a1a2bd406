"""Takes dead letters under their peek-locks, completes them, or gives them back. Sends nothing, and decides nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from common.azure_amqp.address import ServiceBusAddress
from common.bus.browsing import Lying, Shelf, Taken
from common.errors import DStreamError, TransientError
from common.servicebus.operating.browser import lying_of
from common.servicebus.operating.dead_letter_receiver import DeadLetterReceiver, DeadLetterReceivers
from common.servicebus.receiver import BusDelivery


class BusTaken:
    """A `common.bus.browsing.Taken`."""

    __slots__ = ("delivery", "lying")

    def __init__(self, delivery: BusDelivery) -> None:
        self.delivery = delivery
        self.lying: Lying = lying_of(
            delivery.message,
            delivery.fault,
            sequence=delivery.position[0],
            enqueued=delivery.received.enqueued_time_utc,
            delivery_count=delivery.delivery_count,
        )

    def lock_left(self) -> float:
        lock = self.delivery.lock
        return math.inf if lock is None else lock.left(time.monotonic())


class BusTaker:
    """A `common.bus.browsing.Taker`. After an error it opens its link again: what it held comes again then."""

    def __init__(self, address: ServiceBusAddress, shelf: Shelf) -> None:
        if not shelf.dead:
            raise ValueError(f"{shelf} has messages that somebody waits for")
        self._opener = DeadLetterReceivers(address, shelf)
        self._shelf = shelf
        self._receiver: DeadLetterReceiver | None = None

    def __repr__(self) -> str:
        return f"<BusTaker {self._shelf}>"

    def take(self, *, most: int, wait: float) -> Sequence[Taken]:
        try:
            return [BusTaken(delivery) for delivery in self._opened().receive(max_count=most, max_wait=wait)]
        except DStreamError:
            self._forget()
            raise

    def _opened(self) -> DeadLetterReceiver:
        if self._receiver is None:
            opened = self._opener.open(max_wait=0)
            assert isinstance(opened, DeadLetterReceiver)
            self._receiver = opened
        return self._receiver

    def complete(self, taken: Sequence[Taken]) -> Sequence[Taken]:
        by_delivery = {id(each.delivery): each for each in map(_own, taken)}
        try:
            lost = self._held().settle_many([each.delivery for each in by_delivery.values()])
        except DStreamError:
            self._forget()
            raise
        return [by_delivery[id(each)] for each in lost]

    def give_back(self, taken: Sequence[Taken]) -> None:
        if not taken:
            return
        try:
            self._held().release([_own(each).delivery for each in taken])
        except DStreamError:
            self._forget()
            raise

    def _held(self) -> DeadLetterReceiver:
        if self._receiver is None:
            raise TransientError(f"settling {self._shelf}: the link is closed, and what it held comes again")
        return self._receiver

    def put_aside(self, taken: Sequence[Taken]) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        receiver.pass_over([each.delivery for each in map(_own, taken)])

    def close(self) -> None:
        self._forget()

    def _forget(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.close()


def _own(taken: Taken) -> BusTaken:
    if not isinstance(taken, BusTaken):
        raise TypeError(f"a {type(taken).__name__} was not taken here")
    return taken
