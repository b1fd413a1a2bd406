"""Azure Service Bus behind the port `Shelves`: makes browsers, takers and senders of a namespace. Opens nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from common.azure_amqp.address import ServiceBusAddress
from common.bus.browsing import Shelf
from common.servicebus.operating import described
from common.servicebus.operating.browser import BusBrowser
from common.servicebus.operating.taker import BusTaker
from common.servicebus.sender import BusSender


class Namespace(Protocol):
    """What a `ServiceBus` is here."""

    @property
    def address(self) -> ServiceBusAddress: ...

    @property
    def host(self) -> str: ...

    def sender(self, entity: str) -> BusSender: ...

    def close(self) -> None: ...


class ServiceBusShelves:
    """A `common.bus.browsing.Shelves`. `endpoint`: the management API's address; None: the namespace's own."""

    def __init__(self, bus: Namespace, endpoint: str | None) -> None:
        self._bus = bus
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"<ServiceBusShelves {self._bus.address}>"

    @property
    def host(self) -> str:
        return self._bus.host

    def browser(self, shelf: Shelf) -> BusBrowser:
        return BusBrowser(self._bus.address, shelf)

    def taker(self, shelf: Shelf) -> BusTaker:
        return BusTaker(self._bus.address, shelf)

    def sender(self, entity: str) -> BusSender:
        return self._bus.sender(entity)

    def duplicate_window(self, entity: str) -> timedelta | None:
        return described.duplicate_window(self._bus.address, self._endpoint, entity)

    def subscriptions(self, topic: str) -> Sequence[str]:
        return described.subscriptions(self._bus.address, self._endpoint, topic)

    def close(self) -> None:
        self._bus.close()
