"""Starts the emulator as a program, once without and once with TLS, and has every client run the scenario against both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulators.sqlserver.tls import TlsSettings
from tests.emulators.sqlserver.clients import scenario
from tests.emulators.sqlserver.clients.scenario import Step

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "sqlserver"
"""Where `make clients` puts what it fetches and compiles."""

_PASSWORD = "test-Password-1"
_SECONDS = scenario.SECONDS_TO_CANCEL - 5
"""A client that takes longer has waited for the end of the statement that it was to cancel, or hangs."""


@dataclass(frozen=True)
class Client:
    """How a client is started; `cache` is its folder of CACHE, `tool` the program that it runs on."""

    name: str
    cache: str
    tool: str
    command: Sequence[str]
    environment: tuple[tuple[str, Path | str], ...] = ()


_ON_PYTHON = (("PYTHONPATH", CACHE / "python"), ("MSSQL_PYTHON_NATIVE_PROVIDER", "mssql-odbc"))
_CLASSES = f"{CACHE / 'java'}{os.pathsep}{CACHE / 'java' / 'jars'}/*"

CLIENTS = (
    Client("python-tds", "python", sys.executable, ("-m", "tests.emulators.sqlserver.clients.python.tds"), _ON_PYTHON),
    Client("mssql-python", "python", sys.executable, ("-m", "tests.emulators.sqlserver.clients.python.microsoft"), _ON_PYTHON),
    Client("tedious", "node", "node", (str(HERE / "node" / "client.js"),), (("NODE_PATH", CACHE / "node" / "node_modules"),)),
    Client("mssql-jdbc", "java", "java", ("-XX:TieredStopAtLevel=1", "-cp", _CLASSES, "Client")),
    Client("go-mssqldb", "go", str(CACHE / "go" / "client"), ()),
)  # fmt: skip


@dataclass(frozen=True)
class Server:
    """A running emulator. `ca`: the file of its certificate's authority, None without TLS; `stranger`: of another authority."""

    port: int
    ca: str | None
    stranger: str

    @property
    def steps(self) -> dict[str, tuple[Step, Any]]:
        """The scenario's steps with those about encryption in front."""
        return (scenario.with_tls if self.ca else scenario.without_tls)(self.stranger) | scenario.STEPS


def _database(client: Client) -> str:
    return client.name.replace("-", "_")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The certificate of an authority that signed nobody's."""
    file = tmp_path_factory.mktemp("stranger") / "authority.pem"
    file.write_text(TlsSettings.self_made().authority)
    return str(file)


@pytest.fixture(scope="session", params=["plain", "tls"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, stranger: str) -> Iterator[Server]:
    ca = str(tmp_path_factory.mktemp("tls") / "authority.pem") if request.param == "tls" else None
    command = [sys.executable, "-m", "emulators.sqlserver", "--port", "0", "--json", "--password", _PASSWORD]
    command += ["--capture-interval", "3600", *(("--tls", "--tls-ca-out", ca) if ca else ())]
    for client in CLIENTS:
        command += ["--database", _database(client)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Server(json.loads(process.stdout.readline())["port"], ca, stranger)
        process.terminate()


@pytest.fixture(scope="session", params=CLIENTS, ids=[client.name for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    if not (CACHE / found.cache / ".ready").exists() or shutil.which(found.tool) is None:
        pytest.skip(f"{found.name} is not set up: `make clients` does it where {found.cache} is installed")
    return found


@pytest.fixture(scope="session")
def report(server: Server, client: Client, _reports: dict[tuple[Server, str], Any]) -> Any:
    """What the client said of every step: step name to result."""
    key = (server, client.name)
    if key not in _reports:
        _reports[key] = _run(server, client)
    return _reports[key]


@pytest.fixture(scope="session")
def _reports() -> dict[tuple[Server, str], Any]:
    return {}


def _run(server: Server, client: Client) -> Any:
    document = {
        "server": {
            "host": "localhost" if server.ca else "127.0.0.1",
            "port": server.port,
            "user": "sa",
            "password": _PASSWORD,
            "database": _database(client),
            "tls": "verify" if server.ca else "off",
            "ca": server.ca,
        },
        "steps": [{"name": name, **step} for name, (step, _) in server.steps.items()],
    }
    done = subprocess.run(
        [client.tool, *client.command],
        env=os.environ | {"TZ": "UTC"} | {name: str(value) for name, value in client.environment},
        cwd=HERE.parents[3],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
