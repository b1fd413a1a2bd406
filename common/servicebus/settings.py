"""How to reach a Service Bus namespace, as settings: by a key or by an identity, and over which transport."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr

from common.authorities import CA_HINT, fault_of
from common.azure_amqp.address import Proxy, Way, entity_path, faults, is_private, read_address
from common.bus.settings import BusSettings, QueueSettings
from common.config.settings import Location, Secret, UnsetSecret
from common.config.values import Problem, Unset, complain

_WHOLE_NAMESPACE = "use a connection string of the namespace, which has no EntityPath"


def _bus_type(value: Any) -> Any:
    return "azure_service_bus" if value == "servicebus" else value


def _bus_string(secret: SecretStr) -> SecretStr:
    """A Service Bus connection string has an endpoint; anything else is a mistake that would show only at the first connect."""
    if isinstance(secret, UnsetSecret):
        return secret
    text = secret.get_secret_value()
    if not any(part.strip().lower().startswith("endpoint=sb://") for part in text.split(";")):
        raise ValueError("is not a Service Bus connection string: it has no Endpoint=sb://...")
    if found := faults(text):
        raise ValueError("; ".join(found))
    return secret


def _namespace(value: Any) -> str | Unset:
    if isinstance(value, Unset):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text in double quotes")
    # A bare name is not completed: which cloud it is in would be a guess (servicebus.usgovcloudapi.net, servicebus.chinacloudapi.cn).
    if not re.fullmatch(r"(?=.{1,253}\Z)[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9-]+)+", value):
        raise ValueError("must be the namespace's host name and nothing else: NAME.servicebus.windows.net")
    return value.lower()


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


def _or_none(value: Any) -> Any:
    return None if value == "" else value


def _proxy_url(secret: SecretStr) -> SecretStr:
    if not isinstance(secret, UnsetSecret):
        Proxy.read(secret.get_secret_value())
    return secret


BusType = Annotated[Literal["azure_service_bus"], BeforeValidator(_bus_type)]

BusString = Annotated[Secret, AfterValidator(_bus_string)]

HttpUrl = Annotated[str, AfterValidator(_http_url)]

ProxyUrl = Annotated[Secret, AfterValidator(_proxy_url)]

Namespace = Annotated[str | Unset, PlainValidator(_namespace)]


class ServiceBusSettings(BusSettings):
    """How to reach a Service Bus namespace."""

    type: BusType = Field(
        default="azure_service_bus",
        description="The type of bus. `servicebus` means the same. There is only one type, so it is the default.",
    )
    connection_string: BusString | None = Field(
        default=None,
        description=(
            "Connection string of the namespace: `Endpoint=sb://...`. Secret. Rights: see install.md. This or `namespace` must be given. "
            "None, the default: the identity is used."
        ),
    )
    namespace: Namespace | None = Field(
        default=None,
        description=(
            "Host name of the namespace, `NAME.servicebus.windows.net`, to be used with the identity that the process runs under "
            "(DefaultAzureCredential) instead of a key. Roles: see install.md. None, the default: the connection string has host and key."
        ),
    )
    management_endpoint: Annotated[HttpUrl | None, BeforeValidator(_or_none)] = Field(
        default=None,
        description=(
            "Address of the management API, for emulators that serve it at an address of its own (`http://localhost:5300`). `http://` is only for "
            'this machine and private hosts, and not with `namespace`. None, the default, or `""`: the namespace itself, over https (with an '
            "emulator's connection string: its port 5300, over http)."
        ),
    )

    transport: Literal["amqp", "websocket"] = Field(
        default="amqp",
        description=(
            "The transport of AMQP: `amqp`, TLS on port 5671, or `websocket`, HTTPS on port 443, for networks that allow nothing else. `amqp` is "
            "the default because it has less overhead."
        ),
    )
    proxy: Annotated[ProxyUrl | None, BeforeValidator(_or_none)] = Field(
        default=None,
        description=(
            "HTTP proxy on the way to the namespace and its management API, `http://HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`. Secret. It needs "
            '`transport = "websocket"`. None, the default, or `""`: none.'
        ),
    )
    ca_file: Annotated[str | None, BeforeValidator(_or_none)] = Field(
        default=None,
        description=(
            "PEM file of the trusted certificate authorities, for a firewall or proxy that inspects TLS. It replaces the public "
            'ones, and must be on every machine that connects (Spark\'s workers too). None, the default, or `""`: the public ones.'
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        return _ways_in(given)

    @property
    def where(self) -> str:
        if self.connection_string is not None:
            return read_address(self.connection_string.get_secret_value()).host
        if isinstance(self.namespace, Unset):
            raise complain(
                self.namespace.path, [Problem(self.namespace.line, f"namespace: {self.namespace.complaint()}")]
            )
        return str(self.namespace)

    @property
    def by_key(self) -> bool:
        return self.connection_string is not None

    def out_of_reach(self, entities: Sequence[str], needed: str) -> tuple[str, str] | None:
        """A connection string may be for one entity alone (EntityPath)."""
        scope = _scope_of(self.connection_string)
        if scope is None or {each.lower() for each in entities} == {scope.lower()}:
            return None
        others = " and others" if entities[1:] else ""
        text = f"is for {scope} alone (EntityPath), and {needed}{entities[0]}{others}: {_WHOLE_NAMESPACE}"
        return "connection_string", text

    def unusable_file(self) -> tuple[str, str] | None:
        if self.ca_file is None or (fault := fault_of(self.ca_file)) is None:
            return None
        return "ca_file", f"names {self.ca_file!r}, which cannot be used: {fault}; {CA_HINT}"

    @property
    def way(self) -> Way:
        """Raises ConfigurationError when the proxy's environment variable is not set."""
        proxy = None if self.proxy is None else Proxy.read(self.proxy.get_secret_value())
        return Way(self.transport == "websocket", proxy, self.ca_file)


class ServiceBusQueue(ServiceBusSettings, QueueSettings):
    """The ingest queue on Service Bus."""

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        scope, name = _scope_of(given.get("connection_string")), given.get("name")
        if scope is not None and isinstance(name, str) and scope.lower() != name.lower():
            text = f"is for {scope} alone (EntityPath), and the queue is {name}: {_WHOLE_NAMESPACE}"
            yield ("connection_string",), text


def _ways_in(given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    by_key, by_identity = (given.get(key) is not None for key in ("connection_string", "namespace"))
    if not by_key and not by_identity:
        yield (), "needs connection_string (a key) or namespace (an identity)"
    if by_key and by_identity:
        yield ("namespace",), "is given as well as connection_string; give only one of them"
    endpoint = given.get("management_endpoint")
    if by_identity and isinstance(endpoint, str) and endpoint.lower().startswith("http:"):
        yield ("management_endpoint",), "must be https:// with a namespace: a token must not travel in clear text"
    if given.get("proxy") not in (None, "") and given.get("transport") != "websocket":
        yield ("proxy",), 'needs transport = "websocket": plain AMQP cannot pass an HTTP proxy'


def _scope_of(connection_string: Any) -> str | None:
    """The one entity that a connection string is for; None: the whole namespace, or its variable is not set."""
    if isinstance(connection_string, UnsetSecret):
        return None
    text = connection_string.get_secret_value() if isinstance(connection_string, SecretStr) else connection_string
    return entity_path(text) if isinstance(text, str) else None
