"""Event hubs behind the port of outputs. Creates nothing: a hub is made by Azure's management, which no client that sends can reach."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import structlog

from common.authorities import CA_HINT, fault_of
from common.azure_amqp.address import ServiceBusAddress, Way, read_address
from common.azure_identity import Identity
from common.bus.ports import Provision
from common.check import Finding, by_shell, failed, ok, warn
from common.errors import ConfigurationError, EntityMissing, PermanentError, Stopped, TransientError
from router.outputs.azure_event_hubs.errors import quiet_sdk
from router.outputs.azure_event_hubs.link import OPEN_TIMEOUT, HubLink
from router.outputs.azure_event_hubs.plan import planned
from router.outputs.azure_event_hubs.pool import LinkPool
from router.outputs.azure_event_hubs.sender import HubSender
from router.outputs.azure_event_hubs.settings import EventHubsOutput
from router.outputs.port import Stream

ROLES = "Azure Event Hubs Data Sender"

SERVICE = "Azure Event Hubs"

log = structlog.get_logger(__name__)


class HubsOutput:
    """A `router.outputs.port.Output`."""

    def __init__(self, settings: EventHubsOutput, *, proven: bool = False) -> None:
        """`proven`: another process could send with this key or identity. Raises ConfigurationError."""
        quiet_sdk()
        self._settings = settings
        self._proven = proven
        self._address = _address(settings, proven=proven)
        self._who = replace(self._address.credential, service=SERVICE)
        self._pool = LinkPool(lambda hub: HubLink(self._address, hub))

    def __repr__(self) -> str:
        return f"<HubsOutput {self._address}>"

    def sender(self, stream: Stream) -> HubSender:
        return self._sender(stream.destination)

    def _sender(self, hub: str) -> HubSender:
        timeout = self._settings.timeout.total_seconds()
        return HubSender(self._pool, hub, who=self._who, timeout=timeout, proven=self._proven)

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        """ "create" does what "verify" does, and says so once where a hub is missing."""
        if how == "none":
            return []
        hubs = _topics_by_hub(streams)
        late: dict[str, TransientError] = {}
        lacking: list[PermanentError] = []
        for hub in hubs:
            if stop is not None and stop.is_set():
                raise Stopped("the start was stopped while event hubs were looked at")
            try:
                self._sender(hub).open()
            except TransientError as error:
                late[hub] = error
                if len(late) == len(hubs):
                    raise
                log.warning(
                    "event hub not verified; its changes wait",
                    output=self._settings.name,
                    event_hub=hub,
                    error=error.message,
                    hint=error.hint,
                )
            except PermanentError as error:
                lacking.append(error)
        if lacking:
            raise _one_of(lacking)
        return [topic for hub in late for topic in hubs[hub]]

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        """Opens a link to each hub. Without a link to the first that is for want of a connection, the others are not tried."""
        for hub in _topics_by_hub(streams):
            yield self._finding(hub, [stream for stream in streams if stream.destination == hub])

    def _finding(self, hub: str, streams: Sequence[Stream]) -> Finding:
        subject = f"event hub {hub}"
        try:
            largest = self._sender(hub).batch_bytes()
        except PermanentError as error:
            script = planned(self._settings, streams, "verify").script.splitlines()
            made = script if isinstance(error, EntityMissing) else script[1:]
            return failed(subject, error, fix=by_shell(*made))
        said = f"it accepts a sender, and events of up to {largest} bytes"
        try:
            with self._pool.link(hub) as link:
                count = link.partitions(OPEN_TIMEOUT)
        except Exception as error:  # it is not needed to send: whatever the SDK raises here, sending works
            return ok(subject, f"{said}; its partitions could not be counted ({type(error).__name__})")
        if count == 1 and len(streams) > 1:
            text = f"{said}; all {len(streams)} tables share its one partition"
            more = "make one with more partitions: their number is fixed in the tiers Basic and Standard"
            return warn(
                subject, text, more, fix=by_shell(*planned(self._settings, streams, "verify").script.splitlines())
            )
        return ok(subject, f"{said}; {count} partitions")

    def cut_calls(self) -> None:
        self._pool.cut()

    def close(self) -> None:
        self._pool.close()
        if self._address.identity is not None:
            self._address.identity.close()


def _topics_by_hub(streams: Sequence[Stream]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for stream in streams:
        found.setdefault(stream.destination, []).append(stream.topic)
    return found


def _one_of(errors: Sequence[PermanentError]) -> PermanentError:
    """One error that names all. The hint is the first one's, as most have the same cause."""
    kind = EntityMissing if all(isinstance(error, EntityMissing) for error in errors) else PermanentError
    return kind("; ".join(error.message for error in errors), hint=errors[0].hint)


def _address(settings: EventHubsOutput, *, proven: bool) -> ServiceBusAddress:
    """Raises ConfigurationError: loading the configuration has looked at the file, but perhaps on another machine."""
    way: Way = settings.way
    if way.ca_file is not None and (fault := fault_of(way.ca_file)) is not None:
        raise ConfigurationError([f"ca_file = {way.ca_file!r} cannot be used: {fault}"], hint=CA_HINT)
    if settings.connection_string is not None:
        return read_address(settings.connection_string.get_secret_value(), way)
    identity = Identity(proven=proven, roles=ROLES)
    return ServiceBusAddress(
        settings.where, emulator=False, entity_path=None, connection_string=None, identity=identity, way=way
    )
