"""A real nats-server with JetStream: the one on PATH, or Debian's, which `make nats` fetches. Killed and started again, it keeps its streams."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.ports import free_port

_FETCHED = Path(__file__).parent / ".cache" / "usr" / "sbin" / "nats-server"
_STARTING = 30.0


def program() -> str:
    """Where it is; without it the test is skipped."""
    found = shutil.which("nats-server") or (str(_FETCHED) if _FETCHED.exists() else None)
    if found is None:
        pytest.skip("nats-server is missing: make nats")
    return found


class NatsServer:
    """`settings`: of its configuration, beside the address and the store."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.port = free_port()
        self._program = program()
        self._config = folder / "nats.conf"
        self._log = folder / "nats.log"
        address = {"host": "127.0.0.1", "port": self.port}
        self._config.write_text(json.dumps({**address, "jetstream": {"store_dir": str(folder / "store")}, **settings}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([self._program, "-c", str(self._config)], stdout=log, stderr=log)
        end = time.monotonic() + _STARTING
        while True:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < end, self._log.read_text()
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                    if client.recv(4) == b"INFO":
                        return
            except OSError:
                pass
            time.sleep(0.02)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
