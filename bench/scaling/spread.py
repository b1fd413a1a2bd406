"""An ingester whose tasks run on executors of their own machines, far from both servers: how fast a backlog is drained once every slot works.

Machines are network namespaces (tests/worlds/machines); the processors are those of this machine, whatever the number of executors.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.ingestion import system
from bench.ingestion.ground import Ground
from bench.ingestion.whole import Running
from bench.scaling.model import Terms
from common.names import TableName
from dstream.demo.processes import Service
from tests.worlds.machines.network import Machine, Network
from tests.worlds.machines.spark import SparkMachines

CORES: Final = 4
"""Of an executor."""
PAGE_ROWS: Final = 50
_HEALTH_PORT: Final = 8080
_PATIENCE: Final = 900.0
_LOOK: Final = 0.25
_FROM, _TO = 0.35, 0.85
"""Shares of the backlog between which is measured: before, workers start; after, tables have none left."""
_IDLE_SECONDS: Final = 15.0

_CONFIG: Final = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{db}"
    poll_interval_defaults {{
        poll_interval     = "500ms"
        max_poll_interval = "500ms"
    }}
    queue {{
        type                = "azure_service_bus"
        name                = "{queue}"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    locks {{
        type = "local"
    }}
    health {{
        host = "{driver}"
        port = {health}
    }}
    tables    = {tables}
    page_rows = {rows}
    spark {{
        master = "{master}"
        conf   = {{
{conf}
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What was there at an instant: counts so far, and seconds of processor time of each kind of process."""

    at: float
    changes: float
    pages: float
    slices: float
    passes: float
    processor: dict[str, float]


@dataclass(frozen=True, slots=True)
class Drained:
    """Between two looks while every slot worked, and of an idle time after that."""

    slots: int
    rate: float
    slices: float
    pages: float
    seconds: float
    processor: dict[str, float]
    idle: float
    """Seconds of processor time of the driver for a pass over idle tables."""

    def terms(self, commit: float) -> Terms:
        """`commit`: seconds of SQL Server's for one."""
        changes = self.rate * self.seconds
        return Terms(
            slot=self.rate / (self.slots - 1),
            slice=changes / self.slices,
            page=changes / self.pages,
            driver=self.processor["driver"] / self.slices,
            jvm=self.processor["jvm"] / self.slices,
            commit=commit,
            change=sum(self.processor.values()) / changes,
        )


class Spread(Running):
    """`dstream ingester` over `tables` on its machine, with `cluster` for its tasks."""

    def __init__(
        self,
        ground: Ground,
        cluster: SparkMachines,
        ways: Sequence[int],
        host: str,
        folder: Path,
        tables: Sequence[TableName],
    ) -> None:
        """`ways`: the ports on `host` of SQL Server, Service Bus and its management."""
        emulators = ground.emulators
        self._ground, self._cluster = ground, cluster
        self._driver: Machine = cluster.drivers[0]
        sql, bus, management = ways
        conf = cluster.conf(self._driver)
        config = folder / "spread.hcl"
        config.write_text(
            _CONFIG.format(
                db=emulators.db_connection_string.replace(f"localhost:{emulators.login.port}", f"{host}:{sql}"),
                bus=f"Endpoint=sb://{host}:{bus};{emulators.bus_connection_string.partition(';')[2]}",
                management=f"http://{host}:{management}",
                queue=f"queue-{len(cluster.workers)}",
                driver=self._driver.address,
                health=_HEALTH_PORT,
                tables=json.dumps([table.key for table in tables]),
                rows=PAGE_ROWS,
                master=cluster.url,
                conf="\n".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in conf.items()),
            )
        )
        service = Service("ingester", config, self._driver.variables, folder / "spread.log")
        service._command = self._driver.command(service._command)
        super().__init__(service)

    def look(self) -> Look:
        """Zeros while it starts."""
        self.check()
        counts = dict.fromkeys(
            ("changes_total", "pages_total", "slice_seconds_count", "pass_seconds_count", "slots"), 0.0
        )
        for name, value in self._metrics():
            if name in counts:
                counts[name] += value
        self.slots = int(counts.pop("slots"))
        return Look(time.monotonic(), *counts.values(), self._processor())

    def _metrics(self) -> Iterator[tuple[str, float]]:
        try:
            with urllib.request.urlopen(f"http://{self._driver.address}:{_HEALTH_PORT}/metrics", timeout=10) as page:
                lines = page.read().decode().splitlines()
        except OSError:  # it starts
            return
        for line in lines:
            if line.startswith("dstream_ingester_"):
                name, _, value = line.rpartition(" ")
                yield name.partition("{")[0].removeprefix("dstream_ingester_"), float(value)

    def _processor(self) -> dict[str, float]:
        parts = system.ingester_processes(self._service.pid)
        spent = {name: sum(map(system.processor_seconds, parts[name])) for name in ("driver", "jvm")}
        tasks, executors = self._cluster.tasks(), self._cluster.executors()
        emulators = self._ground.emulators
        return spent | {
            "workers": sum(map(system.processor_seconds, tasks)),
            "executors' JVMs": sum(map(system.processor_seconds, executors)),
            **{name: system.processor_seconds(emulators.pid(name)) for name in ("sqlserver", "servicebus")},
        }


@contextmanager
def far(network: Network, ground: Ground, delay: float) -> Iterator[list[int]]:
    """The ports on the network's address by which both servers are reached, `delay` seconds away each way."""
    emulators = ground.emulators
    bus = int(emulators.bus_connection_string.partition(";")[0].rpartition(":")[2])
    behind = [emulators.login.port, bus, int(emulators.management_endpoint.rpartition(":")[2])]
    command = [sys.executable, "-m", "bench.scaling.far", network.address, str(delay), *map(str, behind)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout is not None
        try:
            yield json.loads(relay.stdout.readline())
        finally:
            relay.terminate()


def drained(spread: Spread, rows: int) -> Drained:
    """From the look at which so much of the backlog was gone that all slots work, to one at which all have work still; then idle."""
    first = _await(spread, rows * _FROM)
    last = _await(spread, rows * _TO)
    seconds = last.at - first.at
    slots = spread.slots
    done = _await(spread, rows)
    time.sleep(_IDLE_SECONDS)
    idle = spread.look()
    return Drained(
        slots,
        (last.changes - first.changes) / seconds,
        last.slices - first.slices,
        last.pages - first.pages,
        seconds,
        {part: last.processor[part] - first.processor[part] for part in last.processor},
        (idle.processor["driver"] - done.processor["driver"]) / max(1.0, idle.passes - done.passes),
    )


def _await(spread: Spread, changes: float) -> Look:
    deadline = time.monotonic() + _PATIENCE
    while (look := spread.look()).changes < changes:
        if time.monotonic() > deadline:
            raise SystemExit(f"{look.changes:.0f} changes of {changes:.0f} after {_PATIENCE:.0f} s")
        time.sleep(_LOOK)
    return look


def jobs(cluster: SparkMachines, count: int, threads: int) -> dict[str, Any]:
    """See `bench.scaling.jobs`, on the driver's machine."""
    driver = cluster.drivers[0]
    command = [sys.executable, "-m", "bench.scaling.jobs", cluster.url, json.dumps(cluster.conf(driver))]
    ran = subprocess.run(
        driver.command(
            [
                "env",
                *(f"{name}={value}" for name, value in driver.variables.items()),
                *command,
                str(count),
                str(threads),
            ]
        ),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(ran.stdout.splitlines()[-1]))
