"""`dstream ingester` on a Spark cluster of other processes: it says what is wrong with the cluster, goes on when it is well again, and ends when
nothing will run there any more."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from dstream.demo.processes import environment, write_config
from dstream.demo.schema import create
from dstream.emulators import Emulators
from tests.pipeline.test_secrets import holding
from tests.worlds.collector import collector
from tests.worlds.ports import free_port
from tests.worlds.standalone import CONF, SECRET, Cluster, children
from tests.worlds.story import story

WAIT = 150.0
HEADER = "planted-in-a-header"


class Ingester:
    """One on the cluster, with a health page."""

    def __init__(self, folder: Path, emulators: Emulators, master: str, variables: Mapping[str, str]) -> None:
        self._emulators = emulators
        self._port = free_port()
        config = write_config(folder, emulators, "500ms", tasks=4)
        conf = "\n".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in CONF.items())
        health = f'health {{\nport = {self._port}\nhost = "127.0.0.1"\n}}'
        text = config.read_text().replace("ingester {", f"ingester {{\n{health}", 1)
        config.write_text(text.replace('"local[4]"', f'"{master}"\nconf = {{\n{conf}\n}}'))
        self.log = folder / "ingester.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dstream", "ingester", "--config", str(config), "--log-level", "debug"],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment(emulators), **variables},
            )

    def shows_no_secret(self, worker: int, work: Path) -> None:
        """What tasks carry is on no command line, neither here nor below the cluster's `worker`, and in no file that it writes."""
        key = self._emulators.bus_connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
        secrets = [self._emulators.login.password, key, SECRET, HEADER]
        secrets += [base64.b64encode(secret.encode()).decode() for secret in secrets]
        processes = (self.process.pid, *children(self.process.pid), worker, *children(worker))
        lines, files = [Path(f"/proc/{pid}/cmdline") for pid in processes], list(work.rglob("*"))
        assert holding(["CoarseGrainedScheduler"], lines), "the executor's is among them"
        assert any(file.name == "stderr" for file in files)
        assert holding(secrets, [*lines, *files]) == []

    def until(self, met: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not met():
            assert time.monotonic() < deadline, f"{what}:\n{self.log.read_text()}"
            time.sleep(0.2)

    def says(self, text: str) -> None:
        self.until(lambda: text in self.log.read_text(), f"it says {text!r}")

    def tells(self, page: str, text: str) -> None:
        self.until(lambda: text in self._page(page), f"{page} tells {text!r}")

    def insert(self, number: int) -> None:
        with self._emulators.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO dbo.Customers VALUES ({number}, N'Ada', NULL, 0, 1)")

    def _page(self, page: str) -> str:
        client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            client.request("GET", page)
            return client.getresponse().read().decode()
        except OSError:
            return "it does not listen yet"
        finally:
            client.close()


@contextmanager
def ingester(folder: Path, master: str, **variables: str) -> Iterator[Ingester]:
    """`variables`: of its process alone; the cluster's have none of them."""
    with Emulators(database="demo", capture_interval=0.5) as emulators:
        create(emulators.login)
        running = Ingester(folder, emulators, master, variables)
        try:
            yield running
        finally:
            if running.process.poll() is None:
                running.process.kill()
            running.process.wait()


@pytest.mark.timeout(300)
def test_a_master_that_cannot_be_reached_is_an_error_and_no_table_is_taken(tmp_path: Path) -> None:
    """Spark itself asks a master three times, 20 s each."""
    with ingester(tmp_path, "spark://127.0.0.1:1") as running:
        assert running.process.wait(WAIT) == 1
        said = running.log.read_text()
    assert "starting Spark with master 'spark://127.0.0.1:1': " in said
    assert "unresponsive" in said
    assert "spark.master does not answer" in said
    assert "ingester started" not in said
    assert "lock taken" not in said


@pytest.mark.timeout(240)
def test_a_stop_does_not_wait_for_a_start_that_does_not_come_about(tmp_path: Path) -> None:
    with ingester(tmp_path, "spark://127.0.0.1:1") as running:
        running.says("Setting default log level")  # the JVM's: it is looking for its master
        running.process.terminate()
        assert running.process.wait(40) == 0
        assert "ingester started" not in running.log.read_text()


@pytest.mark.timeout(600)
def test_executors_that_are_lost_are_reported_and_followed_until_the_cluster_ends_the_application(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path) as cluster, collector() as seen:
        worker = cluster.worker(2)
        tracing = {**seen.environment, "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={HEADER}"}
        with ingester(tmp_path, cluster.master, **tracing) as running:
            running.says("ingester started")
            running.insert(1)
            running.until(lambda: bool(seen.named("send")), "executors have the driver's variables of tracing")
            running.tells("/metrics", 'dstream_ingester_changes_total{table="dbo.Customers"} 1.0')
            running.tells("/readyz", "ok")
            running.shows_no_secret(worker.pid, tmp_path / "work-1")
            cluster.kill(worker)
            running.tells("/readyz", "nothing can run on Spark: no executor is available")
            worker = cluster.worker(3)
            running.says("Spark runs tasks again")
            running.says("slots changed with the executors")
            running.insert(2)
            running.tells("/metrics", 'dstream_ingester_changes_total{table="dbo.Customers"} 2.0')
            cluster.kill(worker)
            cluster.worker(broken=True)
            assert running.process.wait(WAIT) == 1
            said = running.log.read_text()
        assert "running on Spark: its context has stopped: " in said
        assert "Master removed our application" in said
        assert SECRET not in said
        assert HEADER not in said
        assert SECRET not in cluster.log("worker.Worker")


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_executors_are_added_while_tables_wait_and_slices_have_their_time_from_when_a_worker_begins(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path) as cluster:
        for _ in range(2):
            cluster.worker(2)
        ran = subprocess.run(
            [sys.executable, "-m", "tests.worlds.growing_cluster", cluster.master],
            capture_output=True,
            text=True,
            timeout=350,
        )
    assert ran.returncode == 0, ran.stderr
    seen = story(ran.stdout)
    assert seen["troubles"] == []
    assert seen["slots"] == [2, 4], "from no executor to the most"
    assert seen["leases"] == [30] * 8
