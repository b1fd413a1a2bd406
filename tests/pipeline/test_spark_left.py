"""However and whenever an ingester ends, it leaves no JVM for more than some seconds."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from dstream.demo.processes import environment, write_config
from ingester.spark.java import java_home
from tests.worlds.ports import free_port

_MARK = "DSTREAM_TEST_LEFT"
_SECONDS = 15.0
"""After which no JVM may be left, on a machine that has other work."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")


@dataclass(frozen=True)
class _Mute:
    """Services whose port takes connections and never answers: a start lasts until it is ended."""

    port: int
    management_endpoint: str = field(default="")

    @property
    def db_connection_string(self) -> str:
        return f"sqlserver://sa:test-Password-1@127.0.0.1:{self.port}?database=demo&encrypt=disable"

    @property
    def bus_connection_string(self) -> str:
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )


class Starts:
    """Starts of the ingester, whose processes all have a mark of their own in their environment."""

    def __init__(self, folder: Path, port: int) -> None:
        services = _Mute(port)
        self.health, self.health_of_the_router = free_port(), free_port()
        self.config = write_config(folder, services, "500ms", tasks=2, routing="workers = 1")
        text = self.config.read_text()
        for stage, at in (("ingester", self.health), ("router", self.health_of_the_router)):
            block = f'health {{\nport = {at}\nhost = "127.0.0.1"\n}}'
            text = text.replace(f"{stage} {{", f"{stage} {{\n{block}", 1)
        self.config.write_text(text)
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.mark = uuid4().hex
        self._log = folder / "log"
        own = {_MARK: self.mark, "TMPDIR": str(self.temporary)}
        self._environment = {**os.environ, **environment(services), **own}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, stage: str, variables: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dstream", stage, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self._environment, **variables},
            )
        self._started.append(process)
        return process

    def marked(self) -> dict[int, str]:
        """The processes that are there with the mark, and their command lines."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # it has just ended, or is another user's
                if entry.name.isdigit() and f"{_MARK}={self.mark}\0".encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
        return found

    def nothing_is_left(self) -> None:
        until(lambda: not self.marked(), _SECONDS, lambda: f"{self.marked()}\n{self._log.read_text()}")

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        for pid in self.marked():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until(holds: Callable[[], object], seconds: float = 60.0, told: Callable[[], object] = lambda: None) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        made = Starts(tmp_path, mute.getsockname()[1])
        yield made
        made.end()


_SLOW = """\
#!/bin/bash
case "$*" in -version|*launcher.Main*) exec {real} "$@";; esac
arguments=()
for argument in "$@"; do
  file="${{argument#@}}"
  case "$file" in
    /*/java.arguments|/*/spark.properties) cp "$file" {folder}; argument="${{argument%/*}}"; argument="${{argument%%/*}}{folder}/${{file##*/}}";;
  esac
  arguments+=("$argument")
done
touch {folder}/begun
while [ ! -e {folder}/let ]; do sleep 0.1; done
exec {real} "${{arguments[@]}}"
"""


class SlowJava:
    """A JAVA_HOME whose Java says at once which one it is, and has read its settings at once. The rest it does when it is let."""

    def __init__(self, folder: Path) -> None:
        home = java_home()
        real = Path(home, "bin", "java") if home is not None else Path(shutil.which("java") or "java")
        self.home = folder / "java"
        self._begun, self._let = folder / "begun", folder / "let"
        script = self.home / "bin" / "java"
        script.parent.mkdir(parents=True)
        script.write_text(_SLOW.format(real=real, folder=folder))
        script.chmod(0o755)

    def begun(self) -> None:
        until(self._begun.exists)

    def let(self) -> None:
        self._let.touch()


@contextmanager
def taken(port: int) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", port)):
        yield


DIRECT: Mapping[str, str] = {}
BY_SPARKS_LAUNCHER = {"SPARK_SUBMIT_OPTS": "-Ddstream.test=1"}
"""A variable that Spark's launcher alone understands."""


@pytest.mark.parametrize("way", [DIRECT, BY_SPARKS_LAUNCHER], ids=["direct", "by Spark's launcher"])
def test_a_start_that_fails_leaves_no_jvm(way: Mapping[str, str], starts: Starts, tmp_path: Path) -> None:
    """The JVM is not so far yet that it could see the end of its standard input, and then lacks the folder to say where it listens."""
    java = SlowJava(tmp_path)
    with taken(starts.health):
        assert starts.start("ingester", {"JAVA_HOME": str(java.home), **way}).wait(60) == 1
    java.let()
    starts.nothing_is_left()
    assert list(starts.temporary.iterdir()) == []


def test_a_server_whose_stages_find_their_ports_taken_leaves_no_jvm(starts: Starts, tmp_path: Path) -> None:
    java = SlowJava(tmp_path)
    with taken(starts.health), taken(starts.health_of_the_router):
        assert starts.start("server", {"JAVA_HOME": str(java.home)}).wait(60) == 1
    java.let()
    starts.nothing_is_left()


def _killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait(60) == -signal.SIGKILL


def _stopped(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert process.wait(60) == 0


def _impatient(process: subprocess.Popen[bytes]) -> None:
    """The second signal ends it with os._exit, unless the first has ended it by then."""
    process.terminate()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


@pytest.mark.parametrize(
    ("end", "way"),
    [(_killed, DIRECT), (_killed, BY_SPARKS_LAUNCHER), (_stopped, DIRECT), (_impatient, DIRECT)],
    ids=["killed", "killed, by Spark's launcher", "stopped", "by two signals"],
)
def test_a_jvm_that_hangs_while_it_starts_ends_with_the_ingester(
    end: Callable[[subprocess.Popen[bytes]], None], way: Mapping[str, str], starts: Starts, tmp_path: Path
) -> None:
    java = SlowJava(tmp_path)
    process = starts.start("ingester", {"JAVA_HOME": str(java.home), **way})
    java.begun()
    end(process)
    starts.nothing_is_left()


@pytest.mark.soak
@pytest.mark.parametrize("end", [_killed, _stopped, _impatient])
@pytest.mark.parametrize("stage", ["ingester", "server"])
def test_at_no_moment_of_its_start_does_an_end_leave_a_jvm(
    stage: str, end: Callable[[subprocess.Popen[bytes]], None], starts: Starts
) -> None:
    for moment in range(30):
        process = starts.start(stage)
        time.sleep(moment / 10)
        with suppress(AssertionError):  # before its signals are handled, the status is another one
            end(process)
        starts.nothing_is_left()
