"""The JVM of Spark's driver: a child process that starts within a deadline, and ends even if it does not cooperate.

Its settings go through a file that only this user can read, never over its command line, which everybody on the machine can read.
PySpark's own start (pyspark.java_gateway.launch_gateway) puts every setting on the command line, and waits without a limit, even when
Java has ended with status 0. So the process is started here, and PySpark connects to it as to an existing one.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO, Any

import pyspark
import structlog
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from common.errors import PermanentError
from common.observability.logs import MASK
from common.observability.stacks import is_stack
from ingester.spark.conf import properties

log = structlog.get_logger("spark")

_END_SECONDS = 1.0
"""How long a JVM may take to end after its standard input; usually it ends at once."""
_LOGGED = re.compile(r"(?:ERROR|WARN) [\w.$]+: (.+)")
_FRAME = re.compile(r"\s+(?:at |\.\.\. \d+ more)")
_THROWN = re.compile(r"Exception in thread |Caused by: ")
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class Jvm:
    """Starts on creation. `folder`: only for this JVM. `masked`: texts to mask in its output. `environment`: variables in addition to ours.

    Raises PermanentError when it cannot be started.
    """

    def __init__(
        self, settings: Mapping[str, str], folder: Path, *, environment: Mapping[str, str], masked: Sequence[str]
    ) -> None:
        _refuse_foreign()
        self._masked = masked
        self._said: deque[str] = deque(maxlen=100)
        self._told = folder / "gateway"
        self._conf = conf = folder / "spark.properties"
        conf.touch(mode=0o600)
        conf.write_text(properties(settings), encoding="utf-8")
        arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        spark = ["--properties-file", str(conf), "--load-spark-defaults", *shlex.split(arguments)]
        submit = str(Path(_find_spark_home(), "bin", "spark-submit"))
        try:
            self._process: Popen[bytes] = Popen(
                [submit, *spark],
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,
                # A group of its own: a terminal's Ctrl-C does not reach it, and a kill ends everything that its scripts started.
                process_group=0,
                env={
                    **os.environ,
                    **environment,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told),
                },
            )
        except OSError as error:
            raise PermanentError(f"starting Spark: {error}", hint="Spark needs bash on the path") from error
        assert self._process.stdout is not None
        threading.Thread(target=self._relay, args=(self._process.stdout,), name="spark-output", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def last_words(self) -> str | None:
        """The last line of its log, which contains errors and few warnings; None if there is none."""
        logged = (_LOGGED.match(line) for line in reversed(list(self._said)))
        return next((found.group(1) for found in logged if found is not None), None)

    def connected(self) -> Any:
        """PySpark's gateway to it, once it listens. Waits as long as it lives. Raises PermanentError when it ends first."""
        while not self._told.exists():
            if not self.alive:
                raise PermanentError(
                    f"starting Spark: its JVM ended with status {self._process.returncode}: {self._last_line()}",
                    hint="check the Java in JAVA_HOME and spark.driver.memory; --log-level debug shows everything that it printed",
                )
            time.sleep(0.05)
        self._conf.unlink(missing_ok=True)  # it was read: however this process ends, no secret is left behind
        with self._told.open("rb") as told:
            port, length = struct.unpack("!ii", told.read(8))
            os.environ |= {_PORT: str(port), _SECRET: told.read(length).decode()}
        try:
            connect: Any = launch_gateway  # PySpark does not type it
            gateway = connect()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]
            self._told.unlink()
        gateway.proc = self._process
        return gateway

    def kill(self) -> None:
        """Kill it. Python workers on this machine end with it, executors elsewhere a little later."""
        if self.alive:  # once its leader was waited for, the group's number may belong to another
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """End it, and return when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()  # it ends with its standard input, and so also with this process, however that ends
        try:
            self._process.wait(timeout=_END_SECONDS)
        except TimeoutExpired:  # it has no state to lose, and a stop has no more time
            self.kill()

    def _last_line(self) -> str:
        return final_words(list(self._said))

    def _relay(self, output: IO[bytes]) -> None:
        """Log what the JVM and the Python workers print, at debug level only.

        Errors of tasks come back as values. What is printed is mostly the BrokenPipeError of idle workers that Spark closes.
        Stacks that a worker writes on SIGUSR1 are printed at any level, for the person who sent it.
        """
        with output:
            for line in output:
                text = line.decode("utf-8", "replace").rstrip()
                for secret in self._masked:
                    text = text.replace(secret, MASK)
                if is_stack(text):
                    print(text, file=sys.stderr, flush=True)
                elif text:
                    self._said.append(text)
                    log.debug(text)


def _refuse_foreign() -> None:
    if _PORT in os.environ:
        raise PermanentError(
            f"starting Spark: {_PORT} is set, as spark-submit sets it, so the JVM would not be DStream's own",
            hint="start the ingester as `dstream ingester`, without spark-submit; spark.master and spark.conf say where it runs",
        )
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    versions = [jar.stem.partition("-core_")[2].partition("-")[2] for jar in jars]
    if pyspark.__version__ not in versions:
        found = f"Spark {versions[0]}" if versions else "no Spark"
        raise PermanentError(
            f"starting Spark: SPARK_HOME names {home}, which holds {found}, and PySpark here is {pyspark.__version__}",
            hint="unset SPARK_HOME: PySpark brings its own Spark; or install the PySpark of that version",
        )


def final_words(said: Sequence[str]) -> str:
    """Why a JVM ended, as far as the last lines that it printed say so: its exception instead of the stack below it."""
    telling = [line.strip() for line in said if line.strip() and not _FRAME.match(line)]
    thrown = [line for line in telling if _THROWN.match(line)]
    return (thrown or telling or ["it printed nothing"])[-1]
