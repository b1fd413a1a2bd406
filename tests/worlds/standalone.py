"""A Spark cluster of this machine, out of PySpark's own jars: a master, and workers that come and go. Loopback only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark

from ingester.spark.java import java_home
from tests.worlds.ports import free_port

_HOME = Path(pyspark.__file__).parent
SECRET = "planted-cluster-secret"
CONF = {"spark.authenticate.secret": SECRET, "spark.driver.host": "127.0.0.1"}
"""What a driver needs to be let in, and to be found without leaving the machine."""


def daemon_command(name: str, arguments: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """`name`: of the daemon's class, as in `master.Master`. `options`: of its JVM."""
    home = java_home()
    java = str(home / "bin" / "java") if home is not None else "java"
    lean = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED"]
    guards = ["-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"]
    jars = str(_HOME / "jars" / "*")
    return [java, *lean, *guards, *options, "-cp", jars, f"org.apache.spark.deploy.{name}", *arguments]


def daemon_environment(*, broken: bool = False) -> dict[str, str]:
    """`broken`: executors of a worker cannot start."""
    variables = {"_SPARK_AUTH_SECRET": SECRET} | ({} if broken else {"SPARK_SCALA_VERSION": "2.13"})
    return {**os.environ, **variables, "SPARK_HOME": str(_HOME)}


class Cluster:
    """The master runs on entering; `folder` has the logs and what the workers write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.port = free_port()

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(free_port())]
        self._daemon("master.Master", arguments)
        deadline = time.monotonic() + 120
        while not self._listens():
            assert time.monotonic() < deadline, self.log("master.Master")
            time.sleep(0.2)
        return self

    def __exit__(self, *details: object) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(60)

    def worker(self, cores: int = 2, *, broken: bool = False) -> subprocess.Popen[bytes]:
        """One more; returns at once. `broken`: its executors cannot start, for which the master removes an application in the end."""
        work = self._folder / f"work-{len(self._daemons)}"
        arguments = ["--host", "127.0.0.1", "--webui-port", str(free_port()), "--cores", str(cores), "--memory", "1g"]
        return self._daemon("worker.Worker", [*arguments, "--work-dir", str(work), self.master], broken=broken)

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """The worker and its executors, as a machine that is gone."""
        for pid in (*children(worker.pid), worker.pid):
            with suppress(ProcessLookupError):  # an executor has ended by itself
                os.kill(pid, signal.SIGKILL)
        worker.wait()

    def log(self, daemon: str) -> str:
        return (self._folder / f"{daemon}.log").read_text()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _daemon(self, name: str, arguments: list[str], *, broken: bool = False) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            daemon = subprocess.Popen(
                daemon_command(name, arguments), stdout=log, stderr=log, env=daemon_environment(broken=broken)
            )
        self._daemons.append(daemon)
        return daemon


def children(pid: int) -> list[int]:
    """All processes below `pid`, the nearest first."""
    near: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            near += map(int, task.read_text().split())
    return near + [below for child in near for below in children(child)]
