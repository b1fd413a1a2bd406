"""Starts the Service Bus emulator as a program for each client, with and without TLS for AMQP, and has the client run the scenario.

Administration is over HTTPS in both cases: the clients know no other way.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulators.certificates import TlsSettings
from tests.emulators.servicebus.clients import exchange, scenario
from tests.emulators.servicebus.clients.scenario import Step

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
CACHE = HERE.parents[1] / ".cache" / "servicebus"
"""Where `make clients` puts what it fetches and compiles."""

_SECONDS = 120


@dataclass(frozen=True)
class Client:
    """How a client is started; `cache` is its folder of CACHE, `tool` the program that it runs on."""

    name: str
    cache: str
    tool: str
    command: Sequence[str]


CLIENTS = (
    Client("azure-service-bus", "node", "node", (str(HERE / "node" / "client.js"),)),
    Client("azservicebus", "go", str(CACHE / "go" / "client"), ()),
)


@dataclass(frozen=True)
class Run:
    """What one client reported of the scenario against an emulator of its own, and what it left there for others."""

    client: Client
    tls: bool
    steps: dict[str, tuple[Step, Any]]
    results: dict[str, Any]
    left: dict[str, Any]


@pytest.fixture(scope="session", params=CLIENTS, ids=[client.name for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    if not (CACHE / found.cache / ".ready").exists() or shutil.which(found.tool) is None:
        pytest.skip(f"{found.name} is not set up: `make clients` does it where {found.cache} is installed")
    return found


@pytest.fixture(scope="session", params=[False, True], ids=["plain", "tls"])
def run(request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory) -> Run:
    tls: bool = request.param
    folder = tmp_path_factory.mktemp("servicebus")
    stranger = folder / "stranger.pem"
    stranger.write_text(TlsSettings.self_made().authority)
    steps = scenario.STEPS | (scenario.with_tls(str(stranger)) if tls else {})
    authority = folder / "authority.pem"
    with _emulator(authority) as facts:
        plain = facts["connection_string"]
        exchange.leave(plain)
        secure = facts["secure_connection_string"].replace("127.0.0.1", "localhost")
        document = {
            "server": {
                "administration": secure,
                "connection": secure.replace(f":{facts['https_port']};", f":{facts['tls_port']};") if tls else plain,
                "authority": str(authority),
            },
            "steps": [{"name": name, **step} for name, (step, _) in steps.items()],
        }
        results = _report(client, document, authority)
        return Run(client, tls, steps, results, exchange.take(plain))


@contextmanager
def _emulator(authority: Path) -> Iterator[Any]:
    """A running emulator's announcement."""
    command = [sys.executable, "-m", "emulators.servicebus", "--json", "--tls", "--tls-ca-out", str(authority)]
    command += [part for kind in ("", "http-", "tls-", "https-") for part in (f"--{kind}port", "0")]
    command += [part for name in (scenario.LEFT, scenario.FOR_CLIENTS) for part in ("--queue", name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.terminate()


def _report(client: Client, document: Any, authority: Path) -> Any:
    """Step name to what the client said."""
    environment = {
        "TZ": "UTC",
        "NODE_PATH": str(CACHE / "node" / "node_modules"),
        "NODE_EXTRA_CA_CERTS": str(authority),
    }
    done = subprocess.run(
        [client.tool, *client.command],
        env=os.environ | environment,
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
