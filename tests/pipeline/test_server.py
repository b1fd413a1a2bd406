"""`dstream server` as a user runs it: both stages, one command; the death of one is the end of both."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dstream.demo.processes import environment, write_config
from dstream.demo.schema import create
from dstream.emulators import Emulators
from tests.worlds.ports import free_port
from tests.worlds.world import SPARK_UP


class Running:
    """The server, its log, and its two children."""

    def __init__(self, folder: Path, emulators: Emulators) -> None:
        self.emulators = emulators
        config = write_config(folder, emulators, "500ms", tasks=2, routing="workers = 1")
        self.ports = {stage: free_port() for stage in ("ingester", "router")}
        text = config.read_text()
        for stage, port in self.ports.items():
            text = text.replace(f"{stage} {{", f'{stage} {{\nhealth {{\nport = {port}\nhost = "127.0.0.1"\n}}', 1)
        config.write_text(text)
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dstream", "server", "--config", str(config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment(emulators)},
            )
        self.wait_for("router started")

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 90
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def ask(self, stage: str, page: str) -> tuple[int, str]:
        """What a stage's port of health answers."""
        client = http.client.HTTPConnection("127.0.0.1", self.ports[stage], timeout=10)
        try:
            client.request("GET", page)
            answer = client.getresponse()
            return answer.status, answer.read().decode()
        finally:
            client.close()

    def until(self, stage: str, page: str, expected: str) -> None:
        """Wait until a page says so."""
        deadline = time.monotonic() + 90
        while expected not in (told := self.ask(stage, page)[1]):
            assert time.monotonic() < deadline, told
            time.sleep(0.1)

    def child(self, stage: str) -> int:
        """The process id of a stage."""
        return child(self.process.pid, stage.encode())


def child(parent: int, named: bytes) -> int:
    """The process that `parent` has started and whose command line has this in it."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    [found] = [int(pid) for pid in children if named in _command(pid)]
    return found


def _command(pid: str) -> bytes:
    with suppress(OSError):  # it has just ended, as the process for the first slices
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="module")
def emulators() -> Iterator[Emulators]:
    with Emulators(database="demo", capture_interval=0.5) as emulators:
        create(emulators.login)
        yield emulators


@pytest.fixture
def server(tmp_path: Path, emulators: Emulators) -> Iterator[Running]:
    running = Running(tmp_path, emulators)
    yield running
    if running.process.poll() is None:
        running.process.kill()
    running.process.wait()


def test_both_stages_tell_of_themselves_until_sigterm_stops_them_with_status_0(server: Running) -> None:
    server.wait_for("ingester started")
    for stage in server.ports:
        server.until(stage, "/readyz", "ok")
        assert server.ask(stage, "/healthz") == (200, "ok\n")
    server.until("ingester", "/metrics", 'dstream_ingester_lock_held{table="dbo.Customers"} 1.0')
    with server.emulators.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO dbo.Customers VALUES (1, N'Ada', NULL, 0, 1)")
    server.until("ingester", "/metrics", 'dstream_ingester_changes_total{table="dbo.Customers"} 1.0')
    server.until("router", "/metrics", "dstream_router_batch_messages_count 1.0")
    server.until("router", "/metrics", '{output="default",topic="localhost.demo.customers.events"} 1.0')
    server.until("ingester", "/metrics", 'dstream_ingester_lag_seconds{table="dbo.Customers"} 0.0')
    server.until("ingester", "/metrics", "dstream_ingester_retention_seconds 259200.0")
    server.process.terminate()
    assert server.process.wait(60) == 0
    text = server.log.read_text()
    assert "ingester stopped" in text
    assert "router stopped" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the children in /proc")
def test_when_the_jvm_dies_its_stage_says_so_the_other_drains_and_the_status_is_1(server: Running) -> None:
    server.wait_for(SPARK_UP)
    os.kill(child(server.child("ingester"), b"org.apache.spark"), signal.SIGKILL)
    assert server.process.wait(60) == 1
    text = server.log.read_text()
    assert "dstream: running on Spark: its JVM was killed by SIGKILL" in text
    assert "memory ran out" in text
    [line] = [line for line in text.splitlines() if "stage ended by itself; stopping the other" in line]
    assert "status=1" in line
    assert "router stopped" in text
    assert "Traceback" not in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the children in /proc")
def test_when_the_server_is_killed_both_stages_stop_by_themselves(server: Running) -> None:
    server.wait_for("ingester started")
    stages = [server.child(stage) for stage in ("ingester", "router")]
    server.process.kill()
    server.process.wait()
    deadline = time.monotonic() + 90
    while any(map(_runs, stages)):
        assert time.monotonic() < deadline, server.log.read_text()
        time.sleep(0.1)
    text = server.log.read_text()
    assert "ingester stopped" in text
    assert "router stopped" in text
