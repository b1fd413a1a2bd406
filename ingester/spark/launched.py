"""Spark's JVM, launched from the settings: the folder that it works in, the key that seals its tasks, and the process.

Its start takes seconds of another core. So this needs nothing but the settings and few imports, and comes before everything else that the
ingester does at its start. Connects to nothing, and knows no PySpark: the executor does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import structlog

from ingester.settings import IngesterSettings
from ingester.spark.conf import (
    LOG4J,
    is_local,
    local_dirs,
    maskable,
    results_port,
    sockets_fit,
    spark_settings,
    unguarded,
)
from ingester.spark.java import JAVA_HOME_HINT, java_home, overruled
from ingester.spark.jvm import Jvm, spark_home
from ingester.spark.launch import plain
from ingester.spark.scratch import Scratch, writable
from ingester.spark.seal import VARIABLE, Seal
from ingester.worker_settings import WorkerSettings

log = structlog.get_logger("spark")


class Launched:
    """`master` and `conf`: the settings of `ingester { spark { ... } }`. `environment`: variables for the JVM, and so for the Python workers on
    this machine. `training`: see Jvm. Close it with `close`. Raises PermanentError.
    """

    def __init__(
        self,
        *,
        master: str,
        conf: Mapping[str, str],
        environment: Mapping[str, str] = {},
        training: Path | None = None,
    ) -> None:
        name_interpreters(conf)
        self.master, self.conf = master, conf
        self.elsewhere = not is_local(master)
        self.scratch = Scratch()
        self.key = Seal.new_key()
        folder = self.scratch.path
        try:
            if not self.elsewhere:
                environment = {**environment, VARIABLE: self.key.decode()}
            log4j = folder / "log4j2.properties"
            log4j.write_text(LOG4J)
            (folder / "spark").mkdir()
            self.settings = spark_settings(
                master,
                conf,
                local_dir=folder / "spark",
                log4j=log4j,
                temporary=_for_java(folder),
                environment=os.environ,
            )
            self._local = writable(local_dirs(self.settings, os.environ))
            self.results_port = results_port(self.settings)
            if off := unguarded(master, self.settings):
                log.warning(
                    "passwords travel in clear between Spark's machines",
                    settings=off,
                    hint="set these settings of spark.conf to true",
                )
            self.jvm = Jvm(
                self.settings,
                folder,
                environment=environment,
                masked=maskable(conf),
                direct=plain(master, conf, os.environ, conf_files()),
                training=training,
            )
        except BaseException:
            self.scratch.close()
            raise

    def blocks(self) -> list[Path]:
        """The folders where Spark, which has started, keeps blocks on this machine, and without which it keeps none. Its own in a folder of
        the user's have unknown names."""
        return [
            *(self._local if len(self._local) == 1 else ()),  # Spark goes on without one of several
            *(self.scratch.path / "spark").glob("blockmgr-*"),
        ]

    def close(self) -> None:
        """A second call does nothing, and neither does one after the executor's, which ends both as well."""
        self.jvm.end()
        self.scratch.close()


def _for_java(folder: Path) -> Path:
    """Where Java keeps temporary files, and Spark its sockets: in `folder`, which goes with its owner, unless sockets fit only beside it.
    They are faster than TCP. Where they fit nowhere, there are none."""
    return folder.parent if sockets_fit(folder.parent) and not sockets_fit(folder) else folder


def launched(settings: IngesterSettings) -> Launched:
    """The JVM for an ingester with these settings. Raises PermanentError, and ConfigurationError for a variable that is not set."""
    spark = settings.spark
    workers = WorkerSettings.of(settings).environment() if is_local(spark.master) else {}
    return Launched(master=spark.master, conf=spark.conf, environment=workers)


def conf_files() -> list[str]:
    """In the folder of Spark's own settings."""
    folder = spark_home() / "conf"
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def name_interpreters(conf: Mapping[str, str]) -> None:
    """The Java and the Pythons that Spark takes, in the variables where it looks for them."""
    home = java_home()
    if (why := overruled(home)) is not None:
        log.warning("another Java than JAVA_HOME names is used", why=why, hint=JAVA_HOME_HINT)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python", os.environ.get("PYSPARK_PYTHON", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
