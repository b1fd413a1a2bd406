"""What one link's messages have to pass: the faults in force and the namespace's credits."""

from __future__ import annotations

from collections.abc import Collection

from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.faults.injection import Faults
from emulators.servicebus.throttle import FILTERS, RECEIVED, SENT, CreditMeter


class Passage:
    """Of a link to the entity at `path`, in lower case."""

    def __init__(self, path: str, faults: Faults, meter: CreditMeter) -> None:
        self._path = path
        self._faults = faults
        self._meter = meter
        self._holding = False

    def send(self, ids: Collection[Value], filters: int) -> None:
        """A client sends messages with these ids, each to be held against so many filters. Raises AmqpError."""
        self._faults.sending(self._path, ids)
        self._meter.admit()
        self._meter.charge(SENT, len(ids))
        self._meter.charge(FILTERS, len(ids) * filters)

    def taken(self, octets: int) -> None:
        """What a client sent at once, so many octets, is in the entity."""
        self._faults.taking(self._path, octets)

    def ask(self) -> None:
        """A client asks for messages. Raises AmqpError. Without credits it is not refused: what it asks for waits for new ones."""
        self._faults.asking(self._path)

    @property
    def closed(self) -> bool:
        """Messages asked for have to wait for new credits."""
        exhausted = self._meter.exhausted
        self._holding |= exhausted
        return exhausted

    def reopened(self) -> bool:
        """Has it been closed, and is no longer? Told once."""
        if not self._holding or self._meter.exhausted:
            return False
        self._holding = False
        return True

    def deliver(self) -> None:
        """A message is delivered."""
        self._meter.charge(RECEIVED)

    def settle(self, session: bool = False) -> AmqpError | None:
        """A client settles a message: why its lock, or its session's, is lost; None when it is not."""
        return self._faults.settling(self._path, session)
