"""The configuration that Spark starts with: DStream's defaults, the user's `conf` over them, and encryption for secrets on a cluster.

Pure: knows neither pyspark nor a JVM. Refuses a cluster without authentication and encryption unless `conf` turns them off by name.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from common.errors import PermanentError
from ingester.blocks.spark import MEMORY, RESULTS_PORT, SIZE
from ingester.spark.forking import DAEMON

_DEFAULTS = {
    "spark.app.name": "dstream-ingester",
    "spark.ui.enabled": "false",  # no open port on a laptop; conf = { "spark.ui.enabled" = "true" } on a cluster
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",  # two owners of one slice would only fence each other
    "spark.task.maxFailures": "1",  # the loop's own back-off retries: one place, visible
    "spark.python.worker.reuse": "true",
    "spark.python.task.killTimeout": "500ms",  # Spark checks every 2 s, so a cancelled worker is gone within 3 s; a stop relies on it
    "spark.python.unix.domain.socket.enabled": "true",  # TCP costs 40 ms a task (Nagle and delayed ACK)
    "spark.broadcast.blockSize": "64k",  # a task is 10 kB, and Spark takes and clears memory of this size for each
    "spark.broadcast.compress": "false",
    # A task of more than this goes by a file that Spark never removes, and that holds its secrets in clear. A bundle of wide tables has some MB.
    "spark.broadcast.UDFCompressionThreshold": "256m",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    # Spark's default, and Azure's words for keys: their values appear neither in the UI nor in the event log.
    "spark.redaction.regex": r"(?i)secret|password|passphrase|token|credential|signature|access[.]?key|account[.]?key|sas",
}
KUBERNETES = "k8s://"
POD_IP = "POD_IP"
_POD = {
    POD_IP: "spark.driver.host",
    "POD_NAME": "spark.kubernetes.driver.pod.name",  # the executors' owner: they are removed with it
    "POD_NAMESPACE": "spark.kubernetes.namespace",
}
"""Variables that a pod's template sets from its own fields (the downward API), and what they are to Spark."""
_PORTS = {"spark.driver.port": "7078", "spark.blockManager.port": "7079", RESULTS_PORT: "7080"}
"""A pod has its ports to itself, and a NetworkPolicy must name them. The first two are Spark's own for a driver in a pod."""
_CONTAINERS = re.compile(r"yarn$|k8s://")
"""Masters that end an executor which takes more memory than it asked for."""
_JVM_MB, _WORKER_MB = 384, 256
"""Spark's least overhead of a JVM; a Python worker, of which each task has one."""
_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_SMALL_HEAP = "-Xms48m -Xmn24m"
"""On this machine rows never enter the JVM, so little of it lives long. Java would begin with a 64th of the machine's memory, fill all of that
before it collects anything, and give nothing back."""
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": DAEMON,  # workers are forked with everything imported
}

GUARDED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""A task carries the password of SQL Server and the key of Service Bus: https://spark.apache.org/docs/latest/security.html."""
_SECRET = "spark.authenticate.secret"
_SECRETS = frozenset((_SECRET, f"{_SECRET}.file", f"{_SECRET}.driver.file"))
_MAKES_SECRETS = re.compile(r"yarn$|k8s://|local(\[|$)")
"""Masters for which Spark creates a secret for each application and gives it to the executors."""

_TEMPORARY = Path("/tmp")
"""Java's own choice on Linux."""
_SOCKETS_FIT = 61
"""Characters of the folder for temporary files, where Spark makes sockets with names of 42: a socket's path has 107 at most."""
_SHORTEST = 8
"""A shorter value of `conf` is a number, a size or a word, and would mask parts of ordinary lines."""
_ADDRESS = re.compile(r"[\d.:]+")


LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
logger.tasks.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.tasks.level = warn
logger.master.name = org.apache.spark.deploy.client
logger.master.level = warn
"""
"""What Spark's JVM prints: errors, and the warnings that say what it waits for."""


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's JVM, so that nothing goes over a network."""
    return re.match(r"local(\[|$)", master) is not None


def spark_settings(
    master: str,
    conf: Mapping[str, str],
    *,
    local_dir: Path,
    log4j: Path,
    temporary: Path = _TEMPORARY,
    environment: Mapping[str, str] = {},
) -> dict[str, str]:
    """Everything that Spark is configured with. `temporary`: for what Java writes elsewhere than in `local_dir`. `environment`: where a pod's
    address and name are found, as POD_IP and POD_NAME.

    Raises PermanentError when secrets would travel unencrypted and `conf` does not allow it.
    """
    settings = _DEFAULTS | (_LOCAL if is_local(master) else GUARDED) | _in_cluster(master, conf, environment)
    options = f"{_JVM_OPTIONS} {_SMALL_HEAP}" if is_local(master) else _JVM_OPTIONS
    settings |= {
        "spark.master": master,
        "spark.local.dir": str(local_dir),
        "spark.driver.extraJavaOptions": f"{options} {shlex.quote(f'-Djava.io.tmpdir={temporary}')} "
        f"-Dlog4j2.configurationFile=file:{quote(str(log4j))}",
        "spark.executor.extraJavaOptions": _JVM_OPTIONS,
    }
    if not sockets_fit(temporary):
        settings["spark.python.unix.domain.socket.enabled"] = "false"
    settings |= conf
    settings |= {key: _for_java(settings[key]) for key in MEMORY}
    if settings.get("spark.authenticate") == "true" and not _MAKES_SECRETS.match(master) and not _SECRETS & conf.keys():
        raise PermanentError(
            f"starting Spark with master {master!r}: tasks carry passwords, and the cluster has no secret to encrypt them with",
            hint=f'set {_SECRET} in spark.conf to the secret that the cluster\'s daemons have, or "spark.authenticate", '
            '"spark.network.crypto.enabled" and "spark.io.encryption.enabled" to false if nobody else can reach its network',
        )
    return settings


def _for_java(size: str) -> str:
    """The same size as Java reads it too, which takes a number by itself for bytes and no unit of two letters: Spark's launcher puts the text
    behind -Xmx as it is."""
    found = SIZE.fullmatch(size)
    assert found is not None
    number, unit, octets = found.groups()
    return f"{int(number) // 1024}k" if octets else f"{number}{(unit or 'm').lower()}"


def sockets_fit(temporary: Path) -> bool:
    return len(os.fsencode(temporary)) <= _SOCKETS_FIT


def _in_cluster(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What executors in containers need: memory for Python, and the way to a driver in a pod."""
    found: dict[str, str] = {}
    if _CONTAINERS.match(master) and "spark.executor.memoryOverheadFactor" not in conf:
        cores, cpus = (_whole(conf, key) for key in ("spark.executor.cores", "spark.task.cpus"))
        found["spark.executor.memoryOverhead"] = f"{_JVM_MB + _WORKER_MB * max(1, cores // cpus)}m"
    if master.startswith(KUBERNETES):
        found |= {key: environment[name] for name, key in _POD.items() if environment.get(name)}
        if environment.get(POD_IP):
            found |= _PORTS
    return found


def _whole(conf: Mapping[str, str], key: str) -> int:
    text = conf.get(key, "")
    return max(1, int(text)) if text.isdecimal() else 1


def local_dirs(settings: Mapping[str, str], environment: Mapping[str, str]) -> list[Path]:
    """Where Spark keeps blocks: in folders of its own in these, of which it takes those that it can use."""
    named = environment.get("SPARK_LOCAL_DIRS") or settings["spark.local.dir"]
    return [Path(folder.strip()) for folder in named.split(",") if folder.strip()]


def results_port(conf: Mapping[str, str]) -> int:
    """The port in `conf`; 0 for any free one."""
    return int(conf.get(RESULTS_PORT, "0"))


def unguarded(master: str, settings: Mapping[str, str]) -> list[str]:
    """The guards of a cluster that are turned off."""
    return [] if is_local(master) else [key for key in GUARDED if settings.get(key) != "true"]


def maskable(conf: Mapping[str, str]) -> list[str]:
    """The values of `conf` to mask in Spark's output, whatever their names."""
    return [value for value in conf.values() if len(value) >= _SHORTEST and not _ADDRESS.fullmatch(value)]


def properties(settings: Mapping[str, str]) -> str:
    """The text of a Java properties file in UTF-8, as java.util.Properties.load reads it."""
    return "".join(f"{_escaped(key, _KEY)}={_escaped(value, _VALUE)}\n" for key, value in settings.items())


_KEY, _VALUE = re.compile(r"[\\=:#! ]"), re.compile(r"\\|^ ")


def _escaped(text: str, special: re.Pattern[str]) -> str:
    text = special.sub(lambda found: "\\" + found.group(), text)
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
