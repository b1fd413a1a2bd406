"""Opens and closes one connection to a namespace through the SDK. Sends and receives nothing.

The SDK retries by itself and sleeps in between. Here every call fails at once, and the caller's own back-off decides
(`retry_total=0`; without it, waiting one second for a session takes nineteen).
"""

from __future__ import annotations

from typing import Any

import structlog
from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus.exceptions import ServiceBusError

from common.azure_amqp.address import ServiceBusAddress
from common.azure_amqp.deadline import Guard

OPEN_TIMEOUT = 20.0
"""Seconds for one attempt to open a link, name, TLS and sign-in included; a healthy one takes about half a second."""

CLOSE_TIMEOUT = 2.0
"""Seconds for closing a link. Closing speaks to the peer, which may be gone."""

SLACK = 5.0
"""Seconds by which the SDK's own timeouts are longer than the guard's, which really ends a call and has the clearer error."""

EMULATOR_PORT = 5672
"""The port of Microsoft's emulator, and DStream's, for AMQP in clear text."""

log = structlog.get_logger(__name__)


def open_client(address: ServiceBusAddress, *, try_timeout: float) -> ServiceBusClient:
    """Does not connect yet. `try_timeout`: seconds that the guard allows for one attempt to open a link."""
    options: dict[str, Any] = {"retry_total": 0, "try_timeout": try_timeout + SLACK}
    if address.way.websocket:
        options["transport_type"] = TransportType.AmqpOverWebsocket
        if address.emulator:  # the SDK leaves its port out
            options["custom_endpoint_address"] = f"sb://{address.hostname}:{address.port or EMULATOR_PORT}"
    if address.way.proxy is not None:
        options["http_proxy"] = address.way.proxy.for_sdk()
    if address.way.ca_file is not None:
        options["connection_verify"] = address.way.ca_file
    if address.connection_string is not None:
        return ServiceBusClient.from_connection_string(address.connection_string, **options)
    assert address.identity is not None
    return ServiceBusClient(address.host, address.identity, **options)


def close_quietly(guard: Guard, *handles: Any) -> None:
    """Errors are dropped: closing speaks to a peer that may be gone, and a caller could do nothing about it."""
    with guard.within(CLOSE_TIMEOUT, "closing"):
        for handle in handles:
            if handle is not None:
                try:
                    handle.close()
                except (ServiceBusError, OSError, ValueError, AttributeError, TypeError) as error:
                    log.debug("closing failed", kind=type(handle).__name__, error=str(error))
