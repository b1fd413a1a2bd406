"""A Spark standalone cluster whose master and workers are machines of their own, and ingesters, which are Spark's drivers, on others.

The servers, the router and the subscriber are on the bridge's own address. Executors can be killed, workers too, and any way be cut. Workers do
not see a driver's scratch directory: what reaches an executor comes over the network.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from tests.jvm_archive import ARCHIVE
from tests.worlds.dump import tree
from tests.worlds.machines.network import Machine, Network
from tests.worlds.standalone import SECRET, daemon_command, daemon_environment
from tests.worlds.world import World, wait_until

_MASTER_PORT, _HEALTH_PORT = 7077, 8080
_PATIENCE = 300.0
_REGISTERED = "Successfully registered with master"
_EXECUTOR_JVM = (
    f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds*=off"
)
"""The default, and an archive of classes, from which a JVM starts sooner."""
_EXECUTOR, _TASKS = b"CoarseGrainedExecutorBackend", b"pyspark.daemon"


class Worker:
    """A machine with a Spark worker, which starts executors there."""

    def __init__(self, machine: Machine, command: Sequence[str], hidden: Sequence[Path]) -> None:
        self.machine = machine
        self._command = machine.command(command, hidden=hidden)
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns at once."""
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**daemon_environment(), **self.machine.variables, "SPARK_LOCAL_DIRS": str(self.machine.temporary)},
                process_group=0,
            )

    @property
    def log(self) -> Path:
        return self.machine.folder / "daemon.log"

    @property
    def running(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    def executors(self) -> list[int]:
        """The process ids of the executors that run here."""
        if self._daemon is None:
            return []
        return [pid for pid in tree(self._daemon.pid)[1:] if _EXECUTOR in _command_line(pid).split(b" -cp ")[-1]]

    def tasks(self) -> list[int]:
        """The Python processes that executors have here, which do the work."""
        return [] if self._daemon is None else [pid for pid in tree(self._daemon.pid) if _TASKS in _command_line(pid)]

    def kill_executors(self) -> int:
        """SIGKILL to each executor and its Python processes; how many executors there were."""
        executors = self.executors()
        for pid in (below for executor in executors for below in tree(executor)):
            _kill(pid)
        return len(executors)

    def kill(self) -> None:
        """SIGKILL to all that runs here, as a machine that loses power."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            for pid in tree(daemon.pid):
                _kill(pid)
            daemon.wait()


class SparkMachines:
    """The master and `workers` machines, with `cores` each. `with` starts and ends everything."""

    def __init__(self, network: Network, *, workers: int = 2, cores: int = 2) -> None:
        self._count, self._cores = workers, cores
        self.drivers = [network.machine(f"driver-{number}") for number in range(2)]
        """Where ingesters start, in turn."""
        self._master = network.machine("master")
        self._machines = [network.machine(f"worker-{number}") for number in range(workers)]

    @property
    def url(self) -> str:
        return f"spark://{self._master.address}:{_MASTER_PORT}"

    @staticmethod
    def conf(driver: Machine) -> dict[str, str]:
        """What an ingester on that machine needs in spark.conf."""
        needed = {"spark.authenticate.secret": SECRET, "spark.driver.host": driver.address}
        return needed | ({"spark.executor.extraJavaOptions": _EXECUTOR_JVM} if ARCHIVE.exists() else {})

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            hidden = [driver.temporary for driver in self.drivers]
            here = ("--host", self._master.address, "--port", str(_MASTER_PORT))
            master = Worker(self._master, daemon_command("master.Master", here), hidden)
            opened.callback(master.kill)
            master.start()
            wait_until(lambda: self._listens(master), f"{self.url} listens", _PATIENCE)
            self.workers = [Worker(each, self._worker(each), hidden) for each in self._machines]
            for worker in self.workers:
                opened.callback(worker.kill)
                worker.start()
            wait_until(self._registered, "the workers are registered", _PATIENCE)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        self._opened.close()

    def executors(self) -> list[int]:
        """Of all workers."""
        return [pid for worker in self.workers for pid in worker.executors()]

    def tasks(self) -> list[int]:
        """Of all workers."""
        return [pid for worker in self.workers for pid in worker.tasks()]

    def _worker(self, machine: Machine) -> list[str]:
        work = str(machine.temporary / "work")
        given = ("--host", machine.address, "--cores", str(self._cores), "--memory", "2g", "--work-dir", work)
        return daemon_command("worker.Worker", [*given, self.url], [f"-Djava.io.tmpdir={machine.temporary}"])

    def _registered(self) -> bool:
        """Without them, an ingester's first task has 120 s until it is given up, whatever the machine is doing."""
        assert all(worker.running for worker in self.workers), [worker.log.read_text() for worker in self.workers]
        return all(_REGISTERED in worker.log.read_text() for worker in self.workers)

    def _listens(self, master: Worker) -> bool:
        assert master.running, master.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex((self._master.address, _MASTER_PORT)) == 0


class ClusterWorld(World):
    """A world whose ingesters are on the cluster's driver machine, one on each, and whose tasks run on the cluster."""

    def __init__(self, folder: Path, network: Network, cluster: SparkMachines, **given: Any) -> None:
        super().__init__(folder, host=network.address, **given)
        self._cluster = cluster

    @property
    def _driver(self) -> Machine:
        return self._cluster.drivers[len(self.ingesters) % len(self._cluster.drivers)]

    def _health_address(self) -> str:
        return f"{self._driver.address}:{_HEALTH_PORT}"

    def _adapted(self, config: str) -> str:
        conf = "\n".join(
            f"{json.dumps(key)} = {json.dumps(value)}" for key, value in self._cluster.conf(self._driver).items()
        )
        return config.replace('"local[2]"', f'"{self._cluster.url}"\nconf = {{\n{conf}\n}}')

    def _where(self, command: Sequence[str]) -> list[str]:
        variables = [f"{name}={value}" for name, value in self._driver.variables.items()]
        return self._driver.command(["env", *variables, *command])


def _command_line(pid: int) -> bytes:
    with suppress(OSError):  # it has just ended
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    return b""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
