"""An API server with its etcd for as long as a `with` block lasts: it validates objects and admits pods, and nothing runs them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kubernetes.cluster import control_plane
from tests.kubernetes.cluster.places import BIN

_READY_SECONDS = 180.0
_HOST = "127.0.0.1"


def missing() -> str | None:
    """Why no API server can run here; None where it can."""
    absent = [name for name in ("go", "etcd", "openssl", "kubectl") if shutil.which(name) is None]
    if absent:
        return f"an API server needs {', '.join(absent)} on PATH"
    return None if (BIN / "kube-apiserver").exists() else "kube-apiserver was not built: `make manifests` builds it"


class ApiServer:
    """`kubectl` speaks to it."""

    def __init__(self, folder: Path, port: int) -> None:
        self._config = folder / "kubeconfig"
        self.port = port
        self.authority = folder / "certificates" / "apiserver.crt"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments],
            env={**os.environ, "KUBECONFIG": str(self._config)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def must(self, *arguments: str, stdin: str | None = None) -> str:
        """Raises AssertionError with what kubectl said."""
        result = self.kubectl(*arguments, stdin=stdin)
        assert result.returncode == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def refuses(self, text: str) -> str | None:
        """What it says against these objects; None if it would take them. Nothing is stored."""
        result = self.kubectl(
            "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", stdin=text
        )
        return None if result.returncode == 0 else result.stderr


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """On free ports, with its data in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="dstream-api-server-") as name, ExitStack() as running:
        folder = Path(name)
        etcd_port, port = _free_ports()
        log = running.enter_context((folder / "log").open("ab"))
        plane = control_plane.api_server(folder, etcd_port=etcd_port, address=_HOST, port=port, advertised=False)
        for command in (control_plane.etcd(folder, etcd_port), plane):
            running.enter_context(_process(command, log.fileno()))
        server = ApiServer(folder, port)
        control_plane.write_kubeconfig(folder / "kubeconfig", folder, f"https://{_HOST}:{port}")
        deadline = time.monotonic() + _READY_SECONDS
        while server.kubectl("get", "--raw", "/readyz").returncode != 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server is not ready:\n{(folder / 'log').read_text()[-4000:]}")
            time.sleep(0.5)
        yield server


@contextmanager
def _process(command: Sequence[str], output: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports() -> tuple[int, int]:
    """One for etcd, whose successor is free as well, and one for the API server."""
    with ExitStack() as opened:
        while True:
            first = opened.enter_context(socket.create_server((_HOST, 0))).getsockname()[1]
            try:
                opened.enter_context(socket.create_server((_HOST, first + 1)))
            except OSError:
                continue
            return first, opened.enter_context(socket.create_server((_HOST, 0))).getsockname()[1]
