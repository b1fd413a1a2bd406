"""The one namespace of a run of the SDK's tests: an emulator in this process, and how its clients come to it.

The tests name a namespace and nothing else, so the SDK would go to a fixed port of a host in Azure. `bring_clients_here` gives its
clients the public options (`custom_endpoint_address`, `connection_verify`) that lead to the emulator's TLS port instead; clients of
any other namespace are led to a port where nobody listens, since no test may leave the machine.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
from pathlib import Path
from typing import Any, Final

from azure.servicebus import ServiceBusClient
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from emulators.certificates import TlsSettings
from emulators.servicebus.server import DEVELOPMENT_KEY, ROOT_POLICY, ServiceBusEmulator

ROOT: Final = ROOT_POLICY
KEY: Final = DEVELOPMENT_KEY
POLICIES: Final = {ROOT: ("Manage",), "listener": ("Listen",), "sender": ("Send",)}
HOST: Final = "localhost"
AUTHORITY_FILE: Final = Path(os.environ["SSL_CERT_FILE"])
"""Where whoever starts the run wants the certificate of the emulator's authority; aiohttp and requests read it from there."""

_tls = TlsSettings.self_made()
AUTHORITY_FILE.write_text(_tls.authority)
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
    for client in (ServiceBusClient, AsyncServiceBusClient):
        _redirect(client)


def _redirect(client: Any) -> None:
    original = client.__init__
    nowhere = _closed_port()

    @functools.wraps(original)
    def init(self: Any, fully_qualified_namespace: str, credential: Any, **options: Any) -> None:
        port = EMULATOR.tls_port if fully_qualified_namespace.strip("/") == FULL_NAME else nowhere
        options.setdefault("custom_endpoint_address", f"sb://{HOST}:{port}")
        if "ssl_context" not in options:
            options.setdefault("connection_verify", str(AUTHORITY_FILE))
        original(self, fully_qualified_namespace, credential, **options)

    client.__init__ = init


def _closed_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])
