"""Azure Service Bus behind the port `Bus`: makes the senders and receivers of a namespace, and leads to its entities."""

from __future__ import annotations

from common.authorities import CA_HINT, fault_of
from common.azure_amqp.address import ServiceBusAddress, Way, read_address
from common.azure_amqp.deadline import cut_calls
from common.azure_identity import Identity
from common.bus.fetch_ahead import FetchAhead
from common.bus.ports import EntityManager
from common.errors import ConfigurationError
from common.servicebus.errors import quiet_sdk
from common.servicebus.queue_receivers import QueueReceivers
from common.servicebus.sender import BusSender
from common.servicebus.settings import ServiceBusSettings

MOST_CONNECTIONS = 5_000
"""AMQP connections of a namespace, in every tier; it refuses further ones
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""


class ServiceBus:
    """A `common.bus.ports.Bus`: one namespace."""

    most_connections: int | None = MOST_CONNECTIONS

    def __init__(
        self, address: ServiceBusAddress, *, management_endpoint: str | None = None, proven: bool = False
    ) -> None:
        """`management_endpoint`: address of the management API; None: the namespace's own. `proven`: the service has accepted this key or
        identity from another process, so a refusal when a link opens is transient.
        """
        quiet_sdk()
        self.address = address
        self._management_endpoint = management_endpoint
        self._proven = proven

    @classmethod
    def of(cls, settings: ServiceBusSettings, *, proven: bool = False) -> ServiceBus:
        """The namespace that `settings` name, by their key or by the identity that this process runs under.

        `proven`: as for the constructor. Raises ConfigurationError as `from_connection_string` does, and for a variable that is not set.
        """
        way = _checked(settings.way)
        if settings.connection_string is not None:
            address = read_address(settings.connection_string.get_secret_value(), way)
        else:
            address = ServiceBusAddress(
                settings.where,
                emulator=False,
                entity_path=None,
                connection_string=None,
                identity=Identity(proven=proven),
                way=way,
            )
        return cls(address, management_endpoint=settings.management_endpoint, proven=proven)

    @classmethod
    def from_connection_string(cls, text: str) -> ServiceBus:
        """Raises ConfigurationError naming the part that is missing; never shows a secret."""
        return cls(read_address(text))

    def __repr__(self) -> str:
        return f"<ServiceBus {self.address}>"

    @property
    def host(self) -> str:
        return self.address.host

    @property
    def hostname(self) -> str:
        return self.address.hostname

    @property
    def entities(self) -> EntityManager:
        # Here and not above: the SDK's management API is slow to import, and Spark's workers do not need it.
        from common.servicebus.entity_manager import ServiceBusEntityManager

        return ServiceBusEntityManager(self, self._management_endpoint)

    def sender(self, entity: str, *, proven: bool | None = None) -> BusSender:
        """A sender for a queue or topic, not opened yet. `proven`: whether the right to this one was there; None: as for all."""
        self._check(entity)
        return BusSender(self.address, entity, proven=self._proven if proven is None else proven)

    def receivers(
        self, queue: str, *, sessions: bool, prefetch: int, ahead: FetchAhead | None = None, proven: bool = False
    ) -> QueueReceivers:
        """Receivers of a queue with or without sessions. They fetch `prefetch` messages ahead (at least 1), or as many as `ahead` decides.

        `proven`: the queue existed, with the right to it.
        """
        self._check(queue)
        ahead = ahead or FetchAhead(max(prefetch, 1))
        return QueueReceivers(self.address, queue, sessions=sessions, ahead=ahead, proven=proven or self._proven)

    def cut_calls(self) -> None:
        """Those of this object; another one of the same namespace keeps its own."""
        cut_calls(self.address)

    def close(self) -> None:
        """Close the identity, if there is one. Senders and receivers are closed where they were opened."""
        if self.address.identity is not None:
            self.address.identity.close()

    def _check(self, entity: str) -> None:
        scope = self.address.entity_path
        if scope is not None and scope.lower() != entity.lower():
            raise ConfigurationError(
                [f"the Service Bus connection string is for {scope} alone (EntityPath), and {entity} is needed"],
                hint="use a connection string of the namespace",
            )


def _checked(way: Way) -> Way:
    """Raises ConfigurationError. Loading the configuration has looked at the file, but perhaps on another machine than this worker's."""
    if way.ca_file is not None and (fault := fault_of(way.ca_file)) is not None:
        raise ConfigurationError([f"ca_file = {way.ca_file!r} cannot be used: {fault}"], hint=CA_HINT)
    return way
