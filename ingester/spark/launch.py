"""The command line of Spark's JVM on this machine, without Spark's launcher: that is a shell script and a JVM of its own, one second of a core.

Pure. Builds what the launcher would build where nothing is set that only the launcher knows (`plain`), and refuses everything else: a cluster,
Spark's environment scripts and default files, class paths of the user's own. Those start as Spark starts them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ingester.spark.conf import is_local

MAIN = "org.apache.spark.deploy.SparkSubmit"
FILES = ("spark-env.sh", "spark-defaults.conf", "java-opts")
"""In Spark's folder `conf`: what its launcher reads beside the settings."""
_LAUNCHERS = re.compile(
    r"spark\.driver\.(extraClassPath|extraLibraryPath|defaultJavaOptions|extraJavaOptions|userClassPathFirst)$"
    r"|spark\.(driver|executor)\.resource\."
)
_OURS = frozenset(
    (
        *("SPARK_HOME", "SPARK_USER", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_HOSTNAME"),
        *("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"),
    )
)
"""Variables that Spark's own code reads, and its launcher does not. PySpark sets the last two in a process that has started it, so the process
that makes an archive has them."""
_FOREIGN = re.compile(r"SPARK_|HADOOP_CONF_DIR$|YARN_CONF_DIR$|PYSPARK_SUBMIT_ARGS$")
_FIRST = "slf4j-api-"
"""A jar that must come before those that bring classes of the same names, as Spark's launcher has it."""
_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic"),
)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""What Spark's launcher adds for Java 17 and newer; a test compares. Its Vector API is left out: only the library for machine learning uses it."""


def plain(master: str, conf: Mapping[str, str], environment: Mapping[str, str], files: Iterable[str] = ()) -> bool:
    """Whether the JVM can be started without Spark's launcher. `conf`: the user's part of the settings. `files`: names in Spark's folder `conf`."""
    return (
        is_local(master)
        and not any(_LAUNCHERS.match(key) for key in conf)
        and not any(_FOREIGN.match(name) and name not in _OURS for name in environment)
        and not set(FILES).intersection(files)
    )


def class_path(home: Path, jars: Iterable[str]) -> list[str]:
    """In an order that is always the same: an archive of classes is for one class path. `jars`: the names in Spark's folder of them."""
    known = sorted(
        (name for name in jars if name.endswith(".jar")), key=lambda name: (not name.startswith(_FIRST), name)
    )
    return [str(home / "jars" / name) for name in known]


def java_options(settings: Mapping[str, str], path: Sequence[str]) -> list[str]:
    """Everything before the name of the main class."""
    own = shlex.split(settings["spark.driver.extraJavaOptions"])
    return ["-cp", ":".join(path), f"-Xmx{settings['spark.driver.memory']}", *own, *_OPTIONS]


def argument_file(options: Iterable[str]) -> str:
    """The text of a file that Java reads as `@file`: one argument a line."""
    return "".join('"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for option in options)
