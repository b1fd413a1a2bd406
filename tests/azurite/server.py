"""Starts Azurite's blob service, in memory, on a free port; about a second."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.worlds.ports import free_port

_HERE = Path(__file__).parent / ".cache"
PROGRAM = "node_modules/azurite/dist/src/blob/main.js"
OPTIONS = ("--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck")
"""The last because azure-storage-blob speaks a newer version of the API than Azurite knows."""

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and key that every Azurite has, published by Microsoft."""
_START_SECONDS = 30.0


def missing() -> str | None:
    """What has to be done before Azurite can be started; None when it can be."""
    if shutil.which("node") is None or not (_HERE / ".ready").exists():
        return "Azurite is not set up: `make azurite` does it where Node.js is installed"
    return None


def connection_string(port: int) -> str:
    """For an Azurite, or what stands before it, on `port` of this machine."""
    return (
        f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{_ACCOUNT};"
    )


class Azurite:
    """Runs while entered. Keeps nothing."""

    def __enter__(self) -> Self:
        self.port = free_port()
        self._process = subprocess.Popen(
            ["node", str(_HERE / PROGRAM), *OPTIONS, "--blobHost", "127.0.0.1", "--blobPort", str(self.port)],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_SECONDS
        while not self._listens():
            assert self._process.poll() is None, "Azurite ended by itself"
            assert time.monotonic() < deadline, "Azurite does not listen"
            time.sleep(0.05)
        return self

    def __exit__(self, *details: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
