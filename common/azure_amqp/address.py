"""The address of a namespace, of Service Bus or Event Hubs, and the right to use it: a connection string, read and checked, or an identity.
No I/O, no SDK.

No secret shows in a repr or an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from common.azure_amqp.refusals import Credential
from common.errors import ConfigurationError

if TYPE_CHECKING:
    from common.azure_identity import Identity

_NAMES = {
    name.lower(): name
    for name in (
        "Endpoint",
        "SharedAccessKeyName",
        "SharedAccessKey",
        "SharedAccessSignature",
        "EntityPath",
        "UseDevelopmentEmulator",
    )
}

HINT = "it should read Endpoint=sb://NAME.servicebus.windows.net/;SharedAccessKeyName=POLICY;SharedAccessKey=KEY"

_OF_SHAPE = ("has no ", "has a part ")
"""How those faults begin that say nothing of how it should be."""

PORT = 5671
"""The port of a namespace for AMQP over TLS."""

_PRIVATE_ENDINGS = (".localhost", ".local", ".localdomain", ".internal", ".lan", ".test", ".home.arpa", ".svc")
"""Names that resolve only on a machine or in a private network (RFC 6761, 6762 and 8375, ICANN's .internal, services inside Kubernetes)."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy. `user`, `password`: empty when it needs neither; never shown."""

    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def read(cls, url: str) -> Proxy:
        """From `http://[USER:PASSWORD@]HOST:PORT`, percent-encoded. Raises ValueError that shows none of it."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "http" or not parts.hostname or port is None or parts.path.strip("/") or parts.query:
            raise ValueError("must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, percent-encoded")
        return cls(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))

    @classmethod
    def of_sdk(cls, given: Mapping[str, Any]) -> Proxy:
        """As `for_sdk` wrote it."""
        return cls(given["proxy_hostname"], given["proxy_port"], given.get("username", ""), given.get("password", ""))

    def for_sdk(self) -> dict[str, Any]:
        """`http_proxy` of azure-servicebus."""
        given = {"proxy_hostname": self.host, "proxy_port": self.port}
        return {**given, "username": self.user, "password": self.password} if self.user or self.password else given

    def url(self) -> str:
        """With its secret: for an HTTP library alone."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user or self.password else ""
        return f"http://{login}{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Way:
    """How a namespace is reached. `websocket`: AMQP on port 443 instead of 5671. `ca_file`: PEM file of the trusted authorities; None: the
    public ones.
    """

    websocket: bool = False
    proxy: Proxy | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceBusAddress:
    """A namespace and the right to use it: either `connection_string` or `identity`, for the SDK. Only `host` is ever shown.

    `host`: name and, where one was written, port. `entity_path`: the one entity that the policy belongs to, or None.
    """

    host: str
    emulator: bool
    entity_path: str | None
    connection_string: str | None = field(repr=False)
    identity: Identity | None = field(default=None, repr=False, compare=False)
    way: Way = Way()

    @property
    def hostname(self) -> str:
        return urlsplit(f"//{self.host}").hostname or self.host

    @property
    def port(self) -> int | None:
        return urlsplit(f"//{self.host}").port

    @property
    def credential(self) -> Credential:
        """Whom the service refuses, for a person."""
        if self.connection_string is None:
            return Credential(f"the identity at {self.host}", policy=False)
        name = f"the policy {self.policy}" if self.policy else "the SharedAccessSignature"
        return Credential(f"{name} of {self.host}", identity=False)

    @property
    def policy(self) -> str | None:
        """The name of the key that is used; None for an identity or a signature."""
        return None if self.connection_string is None else _read(self.connection_string)[0].get("SharedAccessKeyName")

    def __str__(self) -> str:
        return self.host


def is_private(host: str) -> bool:
    """Whether `host`, a name or an address without a port, can only be this machine or one in a private network: clear text may go there.

    A name without a dot belongs to a container or a machine in the same network. Nothing is looked up.
    """
    name = host.lower().rstrip(".")
    try:
        return ip_address(name).is_private
    except ValueError:
        return "." not in name or name.endswith(_PRIVATE_ENDINGS)


def read_address(text: str, way: Way = Way()) -> ServiceBusAddress:  # it cannot be changed
    """Raises ConfigurationError that names the missing or malformed part, and shows no value."""
    parts, found = _read(text)
    if found:
        raise ConfigurationError([f"the Service Bus connection string {fault}" for fault in found], hint=HINT)
    emulator = _of_an_emulator(parts)
    if emulator:
        parts["UseDevelopmentEmulator"] = "true"  # the SDK knows this one spelling only
    rebuilt = ";".join(f"{name}={value}" for name, value in parts.items())
    host = urlsplit(parts["Endpoint"]).netloc
    return ServiceBusAddress(host, emulator, parts.get("EntityPath") or None, rebuilt, way=way)


def faults(text: str) -> list[str]:
    """The faults of a connection string, each as the end of a sentence that begins with its name, and how it should read. Shows only the host."""
    found = _read(text)[1]
    return [*found, HINT] if any(fault.startswith(_OF_SHAPE) for fault in found) else found


def entity_path(text: str) -> str | None:
    """The one entity that a connection string is for; None: the whole namespace."""
    return _read(text)[0].get("EntityPath") or None


def _read(text: str) -> tuple[dict[str, str], list[str]]:
    parts: dict[str, str] = {}
    found: list[str] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, separator, value = part.partition("=")
        known = _NAMES.get(name.strip().lower())
        if known is None or not separator:
            found.append("has a part that is none of " + ", ".join(_NAMES.values()))
        else:
            parts[known] = value.strip()
    found += _missing(parts)
    if parts.get("Endpoint"):
        found += _faults_of_endpoint(parts["Endpoint"], emulator=_of_an_emulator(parts))
    return parts, list(dict.fromkeys(found))


def _of_an_emulator(parts: Mapping[str, str]) -> bool:
    return parts.get("UseDevelopmentEmulator", "").lower() == "true"


def _faults_of_endpoint(endpoint: str, *, emulator: bool) -> list[str]:
    """A port is for emulators. The SDK reaches a namespace on 5671 (WebSocket: 443) whatever is written, and would ignore another port."""
    try:
        url = urlsplit(endpoint)
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host:
        return ["has an Endpoint that is not an address such as sb://NAME.servicebus.windows.net"]
    if emulator and not is_private(host):
        sent = (
            f"has UseDevelopmentEmulator=true, which sends everything in clear text, and {host} is not a private host"
        )
        return [f"{sent}: take it out"]
    if not emulator and port not in (None, PORT):
        fixed = (
            f"has port {port} in its Endpoint, and the ports of a namespace are fixed (AMQP: {PORT}, WebSocket: 443)"
        )
        return [f"{fixed}: take the port out, or add UseDevelopmentEmulator=true where it is an emulator's"]
    return []


def _missing(parts: dict[str, str]) -> list[str]:
    missing = [] if parts.get("Endpoint") else ["has no Endpoint"]
    if parts.get("SharedAccessSignature"):
        return (
            [*missing, "has both a SharedAccessKey and a SharedAccessSignature"]
            if parts.get("SharedAccessKey")
            else missing
        )
    return missing + [f"has no {name}" for name in ("SharedAccessKeyName", "SharedAccessKey") if not parts.get(name)]
