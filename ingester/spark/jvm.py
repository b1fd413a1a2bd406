"""The JVM of Spark's driver: a child process that starts within a deadline, and ends even if it does not cooperate.

Its settings go through a file that only this user can read, never over its command line, which everybody on the machine can read.
PySpark's own start (pyspark.java_gateway.launch_gateway) puts every setting on the command line, and waits without a limit, even when
Java has ended with status 0. So the process is started here, and PySpark connects to it as to an existing one. Where nothing asks for Spark's
own launcher, Java is started directly (launch.py), with an archive of its classes if there is one (kept/archive.py).

PySpark is imported when the JVM is connected to, and not before: the JVM starts meanwhile.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO, Any

import structlog

from common.errors import PermanentError
from common.observability.logs import MASK
from common.observability.stacks import is_stack
from ingester.spark import launch
from ingester.spark.conf import properties
from ingester.spark.group import Group, ended
from ingester.spark.kept import archive
from ingester.spark.reasons import ending

log = structlog.get_logger("spark")

END_SECONDS = 1.0
"""How long a JVM may take to end after its standard input; usually it ends at once."""
_LOOK = 0.02
"""Seconds between two looks whether it listens."""
_LAST_SECONDS = 1.0
"""For the last lines of one that has ended; a process that it has left behind may hold its output open."""
_LOGGED = re.compile(r"(?:ERROR|WARN) [\w.$]+: (.+)")
_FRAME = re.compile(r"\s+(?:at |\.\.\. \d+ more)")
_THROWN = re.compile(r"Exception in thread |Caused by: ")
_ARENAS = "MALLOC_ARENA_MAX"
"""Of glibc. By default each thread of the JVM may get an arena of its own, and what was freed there stays."""
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class Jvm:
    """Starts on creation. `folder`: only for this JVM. `masked`: texts to mask in its output. `environment`: variables in addition to ours.

    Raises PermanentError when it cannot be started.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        folder: Path,
        *,
        environment: Mapping[str, str],
        masked: Sequence[str],
        direct: bool = False,
        training: Path | None = None,
    ) -> None:
        """`direct`: without Spark's launcher. `training`: where this JVM leaves an archive of its classes at its end; with `direct` alone."""
        _refuse_foreign()
        self._masked = masked
        self._said: deque[str] = deque(maxlen=100)
        self._folder = folder
        self._told = folder / "gateway"
        self._conf = conf = folder / "spark.properties"
        conf.touch(mode=0o600)
        conf.write_text(properties(settings), encoding="utf-8")
        self._environment = {
            _ARENAS: "2",
            **os.environ,
            **environment,
            "SPARK_CONNECT_MODE": "0",
            "PYTHONSAFEPATH": "1",  # Python workers take no module from the folder where the ingester was started
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told),
        }
        arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        self._spark = ["--properties-file", str(conf), "--load-spark-defaults", *shlex.split(arguments)]
        self._submit = [str(spark_home() / "bin" / "spark-submit"), *self._spark]
        self._guard = threading.Lock()
        self._connected = self._ended = False
        self._archive: Path | None = None
        self.kind: str | None = None
        """Which archive of classes fits this JVM; None if it takes none."""
        self.given: Path | None = None
        """The archive that this JVM was given, whether or not it could use it."""
        self._relaying: threading.Thread | None = None
        command = self._submit
        if direct:
            with suppress(OSError):  # no folder of jars, for example: Spark's scripts say so
                command = self._direct(settings, training)
        self._group: Group | None = None
        self._process = self._launched(command, grouped=training is None)

    def _direct(self, settings: Mapping[str, str], training: Path | None) -> list[str]:
        home, java = spark_home(), java_binary()
        options = _options(home, settings)
        given: list[str] = []
        self.kind = _kind(home, java, options)
        if training is not None:
            base = training / archive.BASE
            given = [f"-XX:SharedArchiveFile={base}"] if base.exists() else []
            given += [f"-XX:ArchiveClassesAtExit={training / archive.CLASSES}", archive.QUIET]
        elif self.kind is not None:
            self.given = self._archive = archive.found(self.kind, os.environ)
            given = [] if self._archive is None else archive.use(self._archive)
        self._environment |= {"SPARK_HOME": str(home), "PYTHONHASHSEED": "0"}  # as Spark's scripts have it
        told = self._folder / "java.arguments"
        told.write_text(launch.argument_file([*options, *given]))
        return [str(java), f"@{told}", launch.MAIN, *self._spark]

    def _launched(self, command: Sequence[str], *, grouped: bool) -> Popen[bytes]:
        """`grouped`: a terminal's Ctrl-C does not reach a group of its own, and a kill ends everything that its scripts started. A JVM that makes
        an archive has no scripts, and ends with whoever started it, as one group."""
        try:
            self._group = Group() if grouped else None
            return self._popen(command)
        except OSError as error:
            if self._group is not None:
                self._group.kill()
            raise _unlaunched(error) from error

    def _popen(self, command: Sequence[str]) -> Popen[bytes]:
        """Raises OSError."""
        process = Popen(
            command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            process_group=None if self._group is None else self._group.number,
            env=self._environment,
        )
        self._relaying = None
        return process

    def listen(self) -> None:
        """Pass on what it prints, in a thread. Not from its start on: a process with one thread can be forked. A second call does nothing."""
        if self._relaying is None:
            assert self._process.stdout is not None
            self._relaying = threading.Thread(
                target=self._relay, args=(self._process.stdout,), name="spark-output", daemon=True
            )
            self._relaying.start()

    def awaited(self, seconds: float) -> None:
        """Wait until PySpark can connect to it, for so long at most, or until it has ended."""
        self.listen()
        deadline = time.monotonic() + seconds
        while not self._told.exists() and self.alive and time.monotonic() < deadline:
            time.sleep(_LOOK)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def ending(self) -> tuple[str, str]:
        """How it has ended, and what to do about it; see `reasons.ending`."""
        return ending(self._process.wait())

    @property
    def serves(self) -> bool:
        """Whether the archive that it was given, if any, is of use to it; so it is assumed where nobody can say."""
        return self.given is None or archive.mapped(self.given, self._process.pid) is not False

    @property
    def last_words(self) -> str | None:
        """The last line of its log, which contains errors and few warnings; None if there is none."""
        logged = (_LOGGED.match(line) for line in reversed(list(self._said)))
        return next((found.group(1) for found in logged if found is not None), None)

    def connected(self) -> Any:
        """PySpark's gateway to it, once it listens. Waits as long as it lives. Raises PermanentError when it ends first."""
        self.listen()
        while not self._told.exists():
            if not self.alive:
                if self._archive is not None:
                    self._again_without()
                    continue
                self._heard_out()
                raise self._unstarted()
            time.sleep(_LOOK)
        self._conf.unlink(missing_ok=True)  # it was read: however this process ends, no secret is left behind
        with self._told.open("rb") as told:
            port, length = struct.unpack("!ii", told.read(8))
            os.environ |= {_PORT: str(port), _SECRET: told.read(length).decode()}
        try:
            from pyspark import java_gateway

            connect: Any = java_gateway.launch_gateway  # PySpark does not type it
            gateway = connect()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]
            self._told.unlink()
        gateway.proc = self._process
        self._connected = True
        return gateway

    def _unstarted(self) -> PermanentError:
        how, remedy = self.ending
        if "status" in how:
            remedy = (
                f"check {java_binary()}, which JAVA_HOME or the path names, and spark.driver.memory; "
                "--log-level debug shows everything that it printed"
            )
        return PermanentError(f"starting Spark: its JVM {how}: {self._last_line()}", hint=remedy)

    def _again_without(self) -> None:
        """An archive may only ever help. Spark's own launcher is the way that is tried now."""
        log.debug(
            "starting Spark again, without its archive of classes",
            status=self._process.returncode,
            archive=str(self._archive),
        )
        self._archive = None
        with self._guard:
            if not self._ended:
                try:
                    self._process = self._popen(self._submit)
                except OSError as error:
                    raise _unlaunched(error) from error
                self.listen()

    def kill(self) -> None:
        """Kill it. Python workers on this machine end with it, executors elsewhere a little later."""
        if self._group is None:
            self._process.kill()
        else:
            self._group.kill()
        ended(self._process)

    def end(self, *, seconds: float = END_SECONDS) -> None:
        """End it, and return when it has ended."""
        with self._guard:
            self._ended = True
        assert self._process.stdin is not None
        self._process.stdin.close()  # it ends with its standard input once it listens
        with suppress(TimeoutExpired):  # it has no state to lose, and a stop has no more time
            self._process.wait(timeout=seconds if self._connected else 0.0)
        self.kill()

    def _heard_out(self) -> None:
        """It has ended: wait for what it has printed."""
        if self._relaying is not None:
            self._relaying.join(_LAST_SECONDS)

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
    try:
        own = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise _lacking() from None
    if own not in versions:
        found = f"Spark {versions[0]}" if versions else "no Spark"
        raise PermanentError(
            f"starting Spark: SPARK_HOME names {home}, which holds {found}, and PySpark here is {own}",
            hint="unset SPARK_HOME: PySpark brings its own Spark; or install the PySpark of that version",
        )


def _unlaunched(error: OSError) -> PermanentError:
    return PermanentError(f"starting Spark: {error}", hint="Spark needs bash on the path")


def _lacking() -> PermanentError:
    return PermanentError("starting Spark: PySpark is not installed", hint="pip install 'dstream-cdc[ingester]'")


def spark_home() -> Path:
    """Where Spark is: SPARK_HOME, or PySpark's own folder. Raises PermanentError without PySpark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = util.find_spec("pyspark")  # which does not import it
    if found is None or not found.submodule_search_locations:
        raise _lacking()
    own = Path(found.submodule_search_locations[0])
    downloaded = own / "spark-distribution"  # where PySpark's setup puts another build of Spark
    return downloaded if (downloaded / "bin" / "spark-submit").is_file() else own


def _options(home: Path, settings: Mapping[str, str]) -> list[str]:
    """Java's, where it is started directly. Raises OSError."""
    path = launch.class_path(home, (entry.name for entry in (home / "jars").iterdir()))
    conf = home / "conf"
    return launch.java_options(settings, [str(conf), *path] if conf.is_dir() else path)


def _kind(home: Path, java: Path, options: Sequence[str]) -> str | None:
    if (home / "conf").is_dir():  # an archive allows for no folder of files in the class path
        return None
    try:
        return archive.key(java, options)
    except OSError:
        return None


def kind_of(settings: Mapping[str, str], java_home: Path | None) -> str | None:
    """Which archive of classes fits a JVM with these settings; None if it takes none. `java_home`: what JAVA_HOME would be."""
    home = spark_home()
    try:
        return _kind(home, java_binary(java_home), _options(home, settings))
    except OSError:
        return None


def java_binary(java_home: Path | None = None) -> Path:
    """The Java that Spark's scripts would take. `java_home`: as if JAVA_HOME had this value. Raises PermanentError if there is none."""
    home = java_home or os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else shutil.which("java")
    if found is None:
        raise PermanentError("starting Spark: no Java was found", hint="install a JRE and set JAVA_HOME")
    return Path(found)


def final_words(said: Sequence[str]) -> str:
    """Why a JVM ended, as far as the last lines that it printed say so: its exception instead of the stack below it."""
    telling = [line.strip() for line in said if line.strip() and not _FRAME.match(line)]
    thrown = [line for line in telling if _THROWN.match(line)]
    return (thrown or telling or ["it printed nothing"])[-1]
