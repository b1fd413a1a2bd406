"""The executor that a user runs: Spark, one small job a bucket of tables. The only module that imports pyspark.

One-task jobs over the RDD API: rows never enter the JVM, and a slow table holds up nobody. The settings below take away the
25-50 ms that stock PySpark spends on each small task (measured; docs/architecture.md).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import zipimport
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, STDOUT, TimeoutExpired
from typing import IO, Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from common.errors import PermanentError, TransientError
from common.stacks import is_stack
from ingester.executor import Early
from ingester.java import java_home
from ingester.slices import Slice, SliceResult

log = structlog.get_logger("spark")

BucketTask = Callable[[Sequence[Slice], Path], Sequence[SliceResult]]
"""Runs in a Python worker, which imports it by name. The path is that of a file which is there once a stop was asked for."""

_POOL = "dstream"

_JVM_SECONDS = 1.0
"""How long a JVM that was told to end may take; usually it takes none."""

_DEFAULTS = {
    "spark.app.name": "dstream-ingester",
    "spark.ui.enabled": "false",  # no open port on a laptop; conf = { "spark.ui.enabled" = "true" } on a cluster
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",  # two owners of one slice would only fence each other
    "spark.task.maxFailures": "1",  # the loop's own back-off retries: one place, visible
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",  # TCP costs 40 ms a task (Nagle and delayed ACK)
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
}
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
"""


class SparkExecutor:
    """`master` and `conf`: the settings of `ingester { spark { ... } }`; what `conf` names wins over every default here."""

    def __init__(self, task: BucketTask, *, master: str, conf: Mapping[str, str], slots: int | None = None) -> None:
        self._task = task
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = str(home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        self._scratch = tempfile.TemporaryDirectory(prefix="dstream-spark-")
        self._stopping = Path(self._scratch.name) / "stopping"
        self._context = self._start(master, conf)
        self._slots = slots or max(1, self._context.defaultParallelism)

    @property
    def slots(self) -> int:
        return self._slots

    def run(self, bucket: Sequence[Slice], *, number: int, early: Early) -> Sequence[SliceResult]:
        task, stopping = self._task, self._stopping

        def drained(slices: Iterable[Slice]) -> Iterator[SliceResult]:
            results = task(list(slices), stopping)
            settle_worker()
            return iter(results)

        try:
            self._context.setJobGroup(_group(number), f"{len(bucket)} tables")
            return list(self._context.parallelize(bucket, 1).mapPartitions(drained).collect())
        except (Py4JError, PySparkException, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TransientError(f"running a Spark task: {reason}") from error

    def give_up(self, number: int) -> None:
        """The Python worker is killed 2 s later (spark.python.task.killTimeout)."""
        with suppress(Py4JError, OSError):
            self._context.cancelJobGroup(_group(number))

    def check(self) -> str | None:
        gateway: Any = SparkContext._gateway
        if gateway is None or gateway.proc.poll() is not None:
            raise PermanentError(
                "running on Spark: its JVM has ended by itself",
                hint="start the ingester again; if this repeats, give it more memory (spark.driver.memory)",
            )
        return None

    def finish(self) -> None:
        """Seen by workers on this machine; on others a slice ends after its `seconds`."""
        self._stopping.touch()

    def cancel(self) -> None:
        with suppress(Py4JError, OSError):  # a JVM that is gone runs nothing
            self._context.cancelAllJobs()

    def close(self) -> None:
        gateway: Any = SparkContext._gateway
        if gateway is not None:
            if gateway.proc.poll() is None:
                with suppress(Py4JError, OSError):
                    self._context.stop()
                    gateway.shutdown()
            gateway.proc.stdin.close()  # a JVM that outlived its context would keep this process's pipes open
            try:
                gateway.proc.wait(timeout=_JVM_SECONDS)
            except TimeoutExpired:  # it holds no state, and a stop has no more time for it
                gateway.proc.kill()
                gateway.proc.wait()
            SparkContext._gateway = None
            SparkContext._jvm = None
        self._scratch.cleanup()

    def _start(self, master: str, conf: Mapping[str, str]) -> SparkContext:
        scratch = Path(self._scratch.name)
        log4j = scratch / "log4j2.properties"
        log4j.write_text(_LOG4J)
        settings = _DEFAULTS | (_LOCAL if master.startswith("local") else {})
        settings |= {
            "spark.master": master,
            "spark.local.dir": str(scratch),
            "spark.driver.extraJavaOptions": f"{_JVM_OPTIONS} -Dlog4j2.configurationFile=file:{log4j}",
            "spark.executor.extraJavaOptions": _JVM_OPTIONS,
        }
        settings |= conf
        spark_conf = SparkConf(loadDefaults=False)
        for key, value in settings.items():
            spark_conf.set(key, value)
        try:
            launch: Any = launch_gateway  # PySpark does not type it
            gateway = launch(spark_conf, {"stdout": PIPE, "stderr": STDOUT})
            threading.Thread(target=_relay, args=(gateway.proc.stdout,), name="spark-output", daemon=True).start()
            with _own_interrupt_handler():
                return SparkContext(conf=spark_conf, gateway=gateway)
        except (Py4JError, PySparkException, OSError) as error:
            raise PermanentError(
                f"starting Spark with master {master!r}: {str(error).splitlines()[0]}",
                hint="check ingester.spark and the Java that JAVA_HOME names; --log-level debug shows what Spark printed",
            ) from error


def _group(number: int) -> str:
    return f"bucket-{number}"


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """SparkContext takes SIGINT for itself; our own handler drains first, so it is put back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _relay(output: IO[bytes]) -> None:
    """What the JVM and the Python workers print is no log of ours: it is shown at debug level only.

    Errors of tasks come back as values; what is printed is chiefly the BrokenPipeError of idle workers that Spark closes.
    The stacks that a worker was asked for (SIGUSR1) are for whoever asked, at any level.
    """
    with output:
        for line in output:
            text = line.decode("utf-8", "replace").rstrip()
            if is_stack(text):
                print(text, file=sys.stderr, flush=True)
            else:
                log.debug(text)


_settled = False


def settle_worker() -> None:
    """Spare the next task of this worker what PySpark does around each: a full collection, and reading zip files again.

    Called at the end of every task, in the worker.
    """
    global _settled
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
