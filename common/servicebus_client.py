"""One connection to a namespace through the SDK, and how it is closed. Sends and receives nothing.

The SDK tries again by itself and sleeps while it does; here every call fails at once and the caller's own back-off decides
(`retry_total=0`; without it, waiting one second for a session takes nineteen).
"""

from __future__ import annotations

from typing import Any

import structlog
from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from common.servicebus_address import ServiceBusAddress

OPEN_TIMEOUT = 20.0
"""Seconds for one attempt to open a link, sign-in included; a healthy one takes about half a second."""

log = structlog.get_logger(__name__)


def open_client(address: ServiceBusAddress, *, try_timeout: float = OPEN_TIMEOUT) -> ServiceBusClient:
    options: dict[str, Any] = {"retry_total": 0, "try_timeout": try_timeout}
    if address.connection_string is not None:
        return ServiceBusClient.from_connection_string(address.connection_string, **options)
    assert address.identity is not None
    return ServiceBusClient(address.host, address.identity, **options)


def close_quietly(*handles: Any) -> None:
    """Closing speaks to a peer that may be gone; there is nothing a caller could do about it."""
    for handle in handles:
        if handle is not None:
            try:
                handle.close()
            except (ServiceBusError, OSError, ValueError, AttributeError, TypeError) as error:
                log.debug("closing failed", kind=type(handle).__name__, error=str(error))
