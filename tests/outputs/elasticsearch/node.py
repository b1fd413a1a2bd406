"""A real OpenSearch node as a process of its own: killed and started again at the same port, with the same data."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.worlds.ports import free_port

FETCHED = Path(__file__).with_name(".cache")
"""Where `make opensearch` puts the jars, and the compiled Node.java."""

_START_SECONDS = 300.0
_HEAP = ["-Xms256m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class OpenSearch:
    """`directory`: its data."""

    def __init__(self, directory: Path) -> None:
        if not (FETCHED / ".ready").exists() or shutil.which("java") is None:
            pytest.skip("OpenSearch is not installed: `make opensearch` fetches it (Maven and a JDK)")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._directory, self._log = directory, directory / "node.log"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Returns when it answers."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        command = [
            "java",
            *_HEAP,
            "-cp",
            f"{FETCHED}:{FETCHED}/jars/*",
            "Node",
            str(self._directory / "node"),
            str(self.port),
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, cwd=self._directory
            )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < end, f"OpenSearch has not started within {_START_SECONDS:g} s"
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            health = httpx.get(
                f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=1s", timeout=5, trust_env=False
            )
        except httpx.HTTPError:
            return False
        return health.status_code == 200

    def stop(self) -> None:
        """SIGKILL; harmless when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        """Past everything. Fails for an answer that is an error."""
        found = httpx.request(method, self.url + path, json=body, timeout=60, trust_env=False)
        assert found.status_code < 300, found.text
        return found.json() if found.content else None

    def documents(self, index: str) -> Sequence[dict[str, Any]]:
        """All of them, as the last write left them."""
        self.call("POST", f"/{index}/_refresh")
        answer, found = self.call("POST", f"/{index}/_search?scroll=1m", {"size": 5000, "version": True}), list[Any]()
        while hits := answer["hits"]["hits"]:
            found += hits
            answer = self.call("POST", "/_search/scroll", {"scroll": "1m", "scroll_id": answer["_scroll_id"]})
        self.call("DELETE", "/_search/scroll", {"scroll_id": [answer["_scroll_id"]]})
        return found
