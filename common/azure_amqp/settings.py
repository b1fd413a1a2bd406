"""How to reach a namespace of one of Azure's AMQP services, as settings: by a key or by an identity, and over which transport."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr

from common.authorities import CA_HINT, fault_of
from common.azure_amqp.address import Proxy, Way, entity_path, faults, read_address
from common.bus.settings import BusSettings
from common.config.settings import Location, Secret, UnsetSecret
from common.config.values import Problem, Unset, complain

WHOLE_NAMESPACE = "use a connection string of the namespace, which has no EntityPath"


def _connection_string(secret: SecretStr) -> SecretStr:
    """The connection string of a namespace has an endpoint; anything else is a mistake that would show only at the first connect."""
    if isinstance(secret, UnsetSecret):
        return secret
    text = secret.get_secret_value()
    if not any(part.strip().lower().startswith("endpoint=sb://") for part in text.split(";")):
        raise ValueError("is not a connection string of a namespace: it has no Endpoint=sb://...")
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


def or_none(value: Any) -> Any:
    return None if value == "" else value


def _proxy_url(secret: SecretStr) -> SecretStr:
    if not isinstance(secret, UnsetSecret):
        Proxy.read(secret.get_secret_value())
    return secret


ConnectionString = Annotated[Secret, AfterValidator(_connection_string)]

ProxyUrl = Annotated[Secret, AfterValidator(_proxy_url)]

Namespace = Annotated[str | Unset, PlainValidator(_namespace)]


class NamespaceSettings(BusSettings):
    """How to reach a namespace of Service Bus or Event Hubs."""

    connection_string: ConnectionString | None = Field(
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
    transport: Literal["amqp", "websocket"] = Field(
        default="amqp",
        description=(
            "The transport of AMQP: `amqp`, TLS on port 5671, or `websocket`, HTTPS on port 443, for networks that allow nothing else. `amqp` is "
            "the default because it has less overhead."
        ),
    )
    proxy: Annotated[ProxyUrl | None, BeforeValidator(or_none)] = Field(
        default=None,
        description=(
            "HTTP proxy on the way to the namespace and its management API, `http://HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`. Secret. It needs "
            '`transport = "websocket"`. None, the default, or `""`: none.'
        ),
    )
    ca_file: Annotated[str | None, BeforeValidator(or_none)] = Field(
        default=None,
        description=(
            "PEM file of the trusted certificate authorities, for a firewall or proxy that inspects TLS. It replaces the public "
            'ones, and must be on every machine that connects (Spark\'s workers too). None, the default, or `""`: the public ones.'
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        by_key, by_identity = (given.get(key) is not None for key in ("connection_string", "namespace"))
        if not by_key and not by_identity:
            yield (), "needs connection_string (a key) or namespace (an identity)"
        if by_key and by_identity:
            yield ("namespace",), "is given as well as connection_string; give only one of them"
        if given.get("proxy") not in (None, "") and given.get("transport") != "websocket":
            yield ("proxy",), 'needs transport = "websocket": plain AMQP cannot pass an HTTP proxy'

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
        scope = scope_of(self.connection_string)
        if scope is None or {each.lower() for each in entities} == {scope.lower()}:
            return None
        others = " and others" if entities[1:] else ""
        text = f"is for {scope} alone (EntityPath), and {needed}{entities[0]}{others}: {WHOLE_NAMESPACE}"
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


def scope_of(connection_string: Any) -> str | None:
    """The one entity that a connection string is for; None: the whole namespace, or its variable is not set."""
    if isinstance(connection_string, UnsetSecret):
        return None
    text = connection_string.get_secret_value() if isinstance(connection_string, SecretStr) else connection_string
    return entity_path(text) if isinstance(text, str) else None
