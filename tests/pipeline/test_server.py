"""`dstream server` as a user runs it: both stages, one command; the death of one is the end of both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dstream.demo.processes import environment, write_config
from dstream.demo.schema import create
from dstream.local import Emulators


class Running:
    """The server, its log, and its two children."""

    def __init__(self, folder: Path, emulators: Emulators) -> None:
        config = write_config(folder, emulators, "500ms")
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dstream", "server", "--config", str(config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment(emulators)},
            )
        self.wait_for("ingester started")
        self.wait_for("router started")

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 40
        while text not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def child(self, stage: str) -> int:
        """The process id of a stage."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        [found] = [int(pid) for pid in children if stage.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with Emulators(database="demo", capture_interval=0.5) as emulators:
        create(emulators.login)
        running = Running(tmp_path, emulators)
        yield running
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()


def test_sigterm_stops_both_stages_with_status_0(server: Running) -> None:
    server.process.terminate()
    assert server.process.wait(25) == 0
    text = server.log.read_text()
    assert "ingester stopped" in text
    assert "router stopped" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the children in /proc")
def test_when_one_stage_dies_the_other_drains_and_the_status_is_1(server: Running) -> None:
    os.kill(server.child("ingester"), signal.SIGKILL)
    assert server.process.wait(25) == 1
    text = server.log.read_text()
    assert "stage ended by itself; stopping the other" in text
    assert "router stopped" in text
