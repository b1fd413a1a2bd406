"""Azure Service Bus behind the ports of common/bus.py: makes the senders and receivers of a namespace. Manages no entities."""

from __future__ import annotations

from common.authorities import CA_HINT, fault_of
from common.azure_identity import Identity
from common.errors import ConfigurationError
from common.fetch_ahead import FetchAhead
from common.servicebus.address import ServiceBusAddress, Way, read_address
from common.servicebus.errors import quiet_sdk
from common.servicebus.receiver import QueueReceivers
from common.servicebus.sender import BusSender
from common.servicebus.settings import BusSettings


class ServiceBus:
    """One namespace: makes its senders and receivers. Holds no connection of theirs; callable from any thread."""

    def __init__(self, address: ServiceBusAddress, *, proven: bool = False) -> None:
        """`proven`: the service has accepted this key or identity from another process, so a refusal when a link opens is transient."""
        quiet_sdk()
        self.address = address
        self._proven = proven

    @classmethod
    def of(cls, settings: BusSettings, *, proven: bool = False) -> ServiceBus:
        """The namespace that `settings` name, by their key or by the identity that this process runs under.

        `proven`: as for the constructor. Raises ConfigurationError as `from_connection_string` does, and for a variable that is not set.
        """
        if settings.connection_string is not None:
            return cls(
                read_address(settings.connection_string.get_secret_value(), _checked(settings.way)), proven=proven
            )
        host, identity = settings.host, Identity(proven=proven)
        assert host is not None  # the settings have one of the two
        address = ServiceBusAddress(
            host,
            emulator=False,
            entity_path=None,
            connection_string=None,
            identity=identity,
            way=_checked(settings.way),
        )
        return cls(address, proven=proven)

    @classmethod
    def from_connection_string(cls, text: str) -> ServiceBus:
        """Raises ConfigurationError naming the part that is missing; never shows a secret."""
        return cls(read_address(text))

    def __repr__(self) -> str:
        return f"<ServiceBus {self.address}>"

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
