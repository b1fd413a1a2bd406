"""How to reach a Service Bus namespace, and the ingest queue on it, as settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from common.azure_amqp.address import is_private
from common.azure_amqp.settings import WHOLE_NAMESPACE, NamespaceSettings, or_none, scope_of
from common.bus.settings import QueueSettings
from common.config.settings import Location


def _bus_type(value: Any) -> Any:
    return "azure_service_bus" if value == "servicebus" else value


def _http_url(text: str) -> str:
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.query or url.fragment:
        raise ValueError("must be an http:// or https:// address without user, query or fragment")
    if url.scheme == "http" and not is_private(url.hostname):
        raise ValueError(
            "must be https://: a token must not travel in the clear, except to this machine or a private host"
        )
    if url.path.strip("/"):
        raise ValueError("must end after host and port: the management API has no path")
    return text.rstrip("/")


BusType = Annotated[Literal["azure_service_bus"], BeforeValidator(_bus_type)]

HttpUrl = Annotated[str, AfterValidator(_http_url)]


class ServiceBusSettings(NamespaceSettings):
    """How to reach a Service Bus namespace."""

    type: BusType = Field(
        default="azure_service_bus",
        description="Azure Service Bus, the default. `servicebus` means the same.",
    )
    management_endpoint: Annotated[HttpUrl | None, BeforeValidator(or_none)] = Field(
        default=None,
        description=(
            "Address of the management API, for emulators that serve it at an address of its own (`http://localhost:5300`). `http://` is only for "
            'this machine and private hosts, and not with `namespace`. None, the default, or `""`: the namespace itself, over https (with an '
            "emulator's connection string: its port 5300, over http)."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        endpoint = given.get("management_endpoint")
        if given.get("namespace") is not None and isinstance(endpoint, str) and endpoint.lower().startswith("http:"):
            yield ("management_endpoint",), "must be https:// with a namespace: a token must not travel in clear text"


class ServiceBusQueue(ServiceBusSettings, QueueSettings):
    """The ingest queue on Service Bus."""

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        scope, name = scope_of(given.get("connection_string")), given.get("name")
        if scope is not None and isinstance(name, str) and scope.lower() != name.lower():
            text = f"is for {scope} alone (EntityPath), and the queue is {name}: {WHOLE_NAMESPACE}"
            yield ("connection_string",), text
