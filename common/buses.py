"""The types of bus that can hold the ingest queue: for each, the settings of its blocks and its adapter of `common.bus.ports.Bus`. The one place to
add a second. `router/outputs/registry.py` has the types of outputs.

Nothing else names an adapter. Reading settings does not import one.
"""

from __future__ import annotations

from typing import Annotated

from common.bus.browsing import Shelves
from common.bus.ports import Bus
from common.bus.settings import BusSettings, QueueSettings
from common.config.by_type import ByType
from common.servicebus.settings import ServiceBusQueue, ServiceBusSettings

_DEFAULT = "azure_service_bus"

Connection = Annotated[
    BusSettings, ByType({_DEFAULT: ServiceBusSettings, "servicebus": ServiceBusSettings}, default=_DEFAULT)
]
"""A block that says how to reach a bus that can hold the ingest queue."""

Queue = Annotated[QueueSettings, ByType({_DEFAULT: ServiceBusQueue, "servicebus": ServiceBusQueue}, default=_DEFAULT)]
"""The block of the ingest queue: how to reach its bus, and what the queue is like."""


def bus_of(settings: BusSettings, *, proven: bool = False) -> Bus:
    """The bus that `settings` name. Opens nothing.

    `proven`: another process has used it with the same right, so a refusal is transient. Raises ConfigurationError for an environment
    variable that is not set, and for an address or a file that cannot be used.
    """
    match settings:
        case ServiceBusSettings():
            from common.servicebus.namespace import ServiceBus  # the SDK is slow to import, and settings do not need it

            return ServiceBus.of(settings, proven=proven)
        case _:
            raise AssertionError(f"no adapter for {type(settings).__name__}")


def module_of(settings: BusSettings) -> str:
    """The module that `bus_of` imports, for a process that does so beforehand. Imports nothing."""
    match settings:
        case ServiceBusSettings():
            return "common.servicebus.namespace"
        case _:
            raise AssertionError(f"no adapter for {type(settings).__name__}")


def shelves_of(settings: BusSettings) -> Shelves:
    """The shelves of the bus that `settings` name, for a person. Opens nothing; raises as `bus_of`."""
    match settings:
        case ServiceBusSettings():
            from common.servicebus.namespace import ServiceBus
            from common.servicebus.operating.shelves import ServiceBusShelves

            return ServiceBusShelves(ServiceBus.of(settings), settings.management_endpoint)
        case _:
            raise AssertionError(f"no adapter for {type(settings).__name__}")
