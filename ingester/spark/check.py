"""`dstream check` of Spark's settings: what would end a start on a cluster, or go wrong there later. Starts no Spark, connects to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from common.check import BY_EDITING, Finding, ok, warn
from common.errors import PermanentError
from ingester.spark.conf import (
    KUBERNETES,
    POD_IP,
    is_local,
    local_dirs,
    spark_settings,
    unguarded,
)
from ingester.spark.scratch import temporary, writable

_SUBJECT = "Spark"
NOWHERE = Path("unused")
"""For settings that start nothing."""
_IMAGE = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")
_HERE = ("localhost", "127.0.0.1", "::1")


def findings(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Finding]:
    """Nothing for a local Spark that can start. Raises PermanentError for what would end a start."""
    if is_local(master):
        return
    settings = spark_settings(master, conf, local_dir=NOWHERE, log4j=NOWHERE, environment=environment)
    if master.startswith(KUBERNETES) and not any(key in conf for key in _IMAGE):
        raise PermanentError(
            "the executors have no image", hint=f"set {_IMAGE[0]} in spark.conf to the image of this ingester"
        )
    warnings = [warn(_SUBJECT, text, hint, fix=BY_EDITING) for text, hint in _doubts(master, settings)]
    yield from warnings or [ok(_SUBJECT, f"{master}, with settings that a cluster can use")]


def written(conf: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether Spark can write where it works on this machine. Raises PermanentError if not. Leaves nothing there."""
    parent = temporary()
    folders = [parent, *local_dirs({"spark.local.dir": str(parent), **conf}, environment)]
    good = [*writable(folders[:1]), *writable(folders[1:])]
    yield ok("Spark's folders", f"{', '.join(dict.fromkeys(map(str, good)))} can be written")


def _doubts(master: str, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(what may go wrong, what to do)"""
    if off := unguarded(master, settings):
        yield f"passwords travel in clear: {', '.join(off)} is not true", "remove it from spark.conf"
    host = settings.get("spark.driver.host")
    if host in _HERE and not any(here in master for here in _HERE):
        yield f"executors on other machines cannot reach spark.driver.host = {host}", "set it to this machine's address"
    if host is None and master.startswith(KUBERNETES):
        yield (
            "executors may not find the driver: Spark gives them the pod's host name, which no DNS has",
            f"set {POD_IP} in the pod from status.podIP, or spark.driver.host in spark.conf",
        )
    if settings.get("spark.speculation", "").lower() == "true":
        yield "spark.speculation runs a slice twice, and one fences the other", "remove it from spark.conf"
    dynamic = settings.get("spark.dynamicAllocation.enabled", "").lower() == "true"
    if dynamic and "spark.dynamicAllocation.maxExecutors" not in settings:
        yield (
            "nothing limits how many executors are started for a large backlog",
            "set spark.dynamicAllocation.maxExecutors in spark.conf to what the cluster can spare",
        )
    if master == "yarn":
        yield "YARN has not been tried with DStream", "report what you find"
