"""The one namespace of a run of the SDK's tests: an emulator in this process, and how its clients come to it.

The tests name a namespace and nothing else, so that the SDK goes to a fixed port of that host, and trusts what `certifi` does.
`bring_clients_here` makes that port the emulator's TLS port, certifi's file that of the emulator's authority, and lets this process
know no other host: no test may leave the machine. A custom endpoint would lead here too, but the SDK calls a refused sign-in a failed
connection then; only WebSockets need one, since their port is not to be changed.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import certifi
from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus._pyamqp import _connection
from azure.servicebus._pyamqp.aio import _connection_async
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from emulators.certificates import TlsSettings
from emulators.servicebus.server import DEVELOPMENT_KEY, ROOT_POLICY, ServiceBusEmulator

ROOT: Final = ROOT_POLICY
KEY: Final = DEVELOPMENT_KEY
POLICIES: Final = {ROOT: ("Manage",), "listener": ("Listen",), "sender": ("Send",)}
HOST: Final = "localhost"
_HERE: Final = (None, HOST, "127.0.0.1", "::1")
AUTHORITY_FILE: Final = Path(os.environ["SDK_SUITE_AUTHORITY"])
"""Where whoever starts the run wants the certificate of the emulator's authority: a new file, never one that a machine trusts by."""

_tls = TlsSettings.self_made()
with AUTHORITY_FILE.open("x") as _file:
    _file.write(_tls.authority)
EMULATOR: Final = ServiceBusEmulator(tls=_tls, keys=dict.fromkeys(POLICIES, KEY), rights=POLICIES)
EMULATOR.start()
SUFFIX: Final = f":{EMULATOR.https_port}"
FULL_NAME: Final = HOST + SUFFIX

_numbers = itertools.count(1)


def fresh_name(prefix: str) -> str:
    """A name that no entity of this run has."""
    return f"{prefix}{next(_numbers)}"


def connection_string(policy: str = ROOT, entity: str | None = None) -> str:
    """Of the namespace or of one entity."""
    path = "" if entity is None else f"EntityPath={entity};"
    return f"Endpoint=sb://{FULL_NAME}/;SharedAccessKeyName={policy};SharedAccessKey={KEY};{path}"


def bring_clients_here() -> None:
    """From now on clients that say nothing else connect to the emulator."""
    modules: tuple[Any, ...] = (_connection, _connection_async)
    for module in modules:
        module.SECURE_PORT = EMULATOR.tls_port
    certifi.where = lambda: str(AUTHORITY_FILE)
    socket.getaddrinfo = _known_hosts(socket.getaddrinfo)
    for client in (ServiceBusClient, AsyncServiceBusClient):
        _redirect_websockets(client)


def _known_hosts(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def resolve_known(host: bytes | str | None, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in _HERE:
            raise socket.gaierror(socket.EAI_NONAME, f"{name}: no test leaves the machine")
        return resolve(host, *arguments, **options)

    return resolve_known


def _redirect_websockets(client: Any) -> None:
    original = client.__init__

    @functools.wraps(original)
    def init(self: Any, fully_qualified_namespace: str, credential: Any, **options: Any) -> None:
        if options.get("transport_type") is TransportType.AmqpOverWebsocket:
            options.setdefault("custom_endpoint_address", f"sb://{HOST}:{EMULATOR.tls_port}")
        original(self, fully_qualified_namespace, credential, **options)

    client.__init__ = init
