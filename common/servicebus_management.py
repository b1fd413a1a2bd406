"""The management API of a namespace: where it is, a client for it, and what its errors mean. Asks nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import ServiceBusAdministrationClient

from common.errors import ConfigurationError, DStreamError, PermanentError, TransientError
from common.servicebus_address import ServiceBusAddress
from common.servicebus_errors import quiet_sdk

EMULATOR_MANAGEMENT_PORT = 5300
"""Where Microsoft's emulator, and DStream's, serve the management API, over plain HTTP."""


def management_address(address: ServiceBusAddress, endpoint: str | None) -> tuple[str, str]:
    """(scheme, host[:port]) of the management API. Raises ConfigurationError for an endpoint that is no http(s) address."""
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise ConfigurationError(
                [f"management_endpoint = {endpoint!r} is not an address such as https://NAME.servicebus.windows.net"]
            )
        return parts.scheme, parts.netloc
    if address.emulator:
        host = f"[{address.hostname}]" if ":" in address.hostname else address.hostname
        return "http", f"{host}:{EMULATOR_MANAGEMENT_PORT}"
    return "https", address.hostname


class _Redirected(RequestsTransport):  # type: ignore[misc]  # azure-core loads transports lazily: their type is unknown
    """Sends the administration client's requests to another address: it knows `https://` and the AMQP endpoint only."""

    def __init__(self, scheme: str, netloc: str, **options: Any) -> None:
        super().__init__(**options)
        self._base = f"{scheme}://{netloc}/"

    def send(self, request: Any, **options: Any) -> Any:
        rest = request.url.removeprefix("https://").partition("/")[2]
        request.url = self._base + rest
        return super().send(request, **options)


def administration(address: ServiceBusAddress, endpoint: str | None) -> tuple[ServiceBusAdministrationClient, str]:
    """(a client of the management API, where that is). Connects at the first call. Raises as `management_address` does."""
    quiet_sdk()
    scheme, netloc = management_address(address, endpoint)
    transport = _Redirected(scheme, netloc, connection_timeout=10, read_timeout=30)
    options: dict[str, Any] = {"transport": transport, "retry_total": 2}
    if address.connection_string is not None:
        return ServiceBusAdministrationClient.from_connection_string(address.connection_string, **options), netloc
    assert address.identity is not None
    return ServiceBusAdministrationClient(address.host, address.identity, **options), netloc


@contextmanager
def managing(doing: str) -> Iterator[None]:
    """Raises the administration client's exceptions as `management_error` tells them."""
    try:
        yield
    except (HttpResponseError, ServiceRequestError, ServiceResponseError, OSError) as error:
        raise management_error(error, doing) from error


def management_error(error: Exception, doing: str) -> DStreamError:
    """The administration client's exceptions by what a caller can do about them."""
    text = f"{doing}: {' '.join(str(error).split())[:500]}"
    status = getattr(error, "status_code", None)
    if isinstance(error, ClientAuthenticationError) or status in {401, 403}:
        return PermanentError(
            text,
            hint=(
                "this needs a policy with the Manage right, or an identity with the role Azure Service Bus Data Owner; without one, "
                'create the entities beforehand and set provision = "none"'
            ),
        )
    if isinstance(error, HttpResponseError) and status is not None and 400 <= status < 500 and status not in {408, 429}:
        return PermanentError(text)
    return TransientError(text)
