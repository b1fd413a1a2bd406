"""A Python client as its users generate it, and servers to connect it to."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from desk.console.access import Access
from desk.console.audited import audited
from desk.console.calls import Calls
from desk.console.grpc.admission import Admission
from desk.console.grpc.handling import Sizes
from desk.console.grpc.server import Certificate, Serving, serve
from desk.console.limits import Limit, Limits, Rate
from desk.desk import Desk
from tests.fakes.desk import lively_desk

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Modules of protoc: `messages` and `stubs`."""
    folder = tmp_path_factory.mktemp("generated")
    command = (sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT / 'api'}")
    subprocess.run(
        [*command, f"--python_out={folder}", f"--grpc_python_out={folder}", str(ROOT / "api" / "dstream.proto")],
        check=True,
    )
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("dstream_pb2"), importlib.import_module("dstream_pb2_grpc")
    finally:
        sys.path.remove(str(folder))


TOKEN = "a-token-of-the-tests-0123456789"


@dataclass(frozen=True)
class Client:
    """Stubs by the names of their services."""

    channel: Any
    pb: Any
    stubs: Any

    def __getattr__(self, service: str) -> Any:
        return getattr(self.stubs, f"{service}Stub")(self.channel)


Started = Callable[..., "Server"]


@dataclass(frozen=True)
class Server:
    serving: Serving
    desk: Desk
    pb: Any
    stubs: Any
    channels: ExitStack

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.serving.port}"

    def client(self, **options: Any) -> Client:
        channel = grpc.insecure_channel(
            self.target, options=[(name.replace("__", "."), value) for name, value in options.items()]
        )
        return Client(self.channels.enter_context(channel), self.pb, self.stubs)


@pytest.fixture
def started(generated: Any) -> Iterator[Started]:
    """Starts consoles that listen on a port of this machine; each is stopped at the end."""
    with ExitStack() as stack:

        def start(
            desk: Desk | None = None,
            *,
            allow_changes: bool = True,
            token: str | None = None,
            access: Access | None = None,
            limits: Limits | None = None,
            calls: Calls | None = None,
            sizes: Sizes | None = None,
            certificate: Certificate | None = None,
            port: int = 0,
        ) -> Server:
            limits = limits or Limits(
                requests=Limit("requests", Rate(1e6, 10**6)), changes=Limit("changes", Rate(1e6, 10**6))
            )
            kept = audited(desk or lively_desk(), allow_changes=allow_changes, limits=limits)
            access = access or Access("127.0.0.1", "local" if token is None else "token")
            admission = Admission(access, limits, "anna", lambda given: "token" if given == token else None)
            serving = serve(kept, admission, f"127.0.0.1:{port}", calls=calls, sizes=sizes, certificate=certificate)
            stack.callback(serving.stop)
            pb, stubs = generated
            return Server(serving, kept, pb, stubs, stack.enter_context(ExitStack()))

        yield start
