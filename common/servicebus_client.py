"""One connection to a namespace through the SDK, and how it is closed. Sends and receives nothing.

The SDK tries again by itself and sleeps while it does; here every call fails at once and the caller's own back-off decides
(`retry_total=0`; without it, waiting one second for a session takes nineteen).
"""

from __future__ import annotations

from typing import Any

import structlog
from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus.exceptions import ServiceBusError

from common.servicebus_address import ServiceBusAddress
from common.servicebus_deadline import Guard

OPEN_TIMEOUT = 20.0
"""Seconds for one attempt to open a link, name, TLS and sign-in included; a healthy one takes about half a second."""

CLOSE_TIMEOUT = 2.0
"""Seconds for closing a link, which tells a peer that may be gone."""

SLACK = 5.0
"""Seconds by which the SDK's own timeouts come after the guard's, whose words are plainer and which really end a call."""

EMULATOR_PORT = 5672
"""Where Microsoft's emulator, and DStream's, take AMQP in clear text."""

log = structlog.get_logger(__name__)


def open_client(address: ServiceBusAddress, *, try_timeout: float) -> ServiceBusClient:
    """Connects to nothing yet. `try_timeout`: seconds that one attempt to open a link is given by its guard."""
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
    """Closing speaks to a peer that may be gone; there is nothing a caller could do about it."""
    with guard.within(CLOSE_TIMEOUT, "closing"):
        for handle in handles:
            if handle is not None:
                try:
                    handle.close()
                except (ServiceBusError, OSError, ValueError, AttributeError, TypeError) as error:
                    log.debug("closing failed", kind=type(handle).__name__, error=str(error))
