"""Why a Spark job failed, in one line: Py4J's text begins with the call that failed, and the reason stands further down. Pure."""

from __future__ import annotations

import re

_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+\w*(?:Exception|Error|Throwable): ")
_TASK = re.compile(r".*most recent failure: (?:Lost task [\d.]+ in stage [\d.]+ )?(?:\(TID \d+\) )?")
_CAUSED = "Caused by: "
_LONGEST = 400

_NO_MASTER = (
    "spark.master does not answer: check its address, that it runs, and that spark.authenticate.secret is its own"
)
"""Spark says it in one of two ways, by what gives up first."""
_DIED = ("crashed", "exited unexpectedly")
_EXECUTOR_DIED = "ExecutorLost"
_HINTS = (
    ("unresponsive", _NO_MASTER),
    ("not yet connected to master", _NO_MASTER),
    (
        "different version",
        "the executors' Python must be the driver's minor version: spark.pyspark.python in spark.conf",
    ),
    (
        "No module named",
        "the executors' Python must have dstream-cdc[ingester] installed: spark.pyspark.python in spark.conf",
    ),
    (
        "Cannot run program",
        "the executors have no such Python: set spark.pyspark.python in spark.conf to one that they have",
    ),
    *(
        (sign, "a Python worker died: usually memory; raise the container's memory, or have fewer slots")
        for sign in _DIED
    ),
    (
        _EXECUTOR_DIED,
        "an executor died or its machine is gone; if it repeats raise spark.executor.memoryOverhead and see its log",
    ),
    ("executor", "see the executors' logs; --log-level debug shows what Spark prints here"),
)


def reason(text: str) -> str:
    """The reason within the text of an exception, without a stack."""
    lines = [line for line in text.splitlines() if line.strip()]
    stated = [line[2:] for line in lines if line.startswith(": ")]
    said = stated[0] if stated else lines[0] if lines else "no reason was given"
    if "Traceback (most recent call last)" in said:
        said = _python_reason(lines) or said
    said = _CLASS.sub("", _TASK.sub("", _CLASS.sub("", said)))
    caused = [_CLASS.sub("", line.removeprefix(_CAUSED)) for line in lines if line.startswith(_CAUSED)]
    if caused and caused[-1] not in said and "Traceback" not in caused[-1]:
        said = f"{said} ({caused[-1]})"
    return said[:_LONGEST].strip()


def hint_for(why: str) -> str | None:
    """What to do about it, where that is known."""
    return next((hint for sign, hint in _HINTS if sign.lower() in why.lower()), None)


def worker_died(why: str) -> bool:
    """Whether a task ran and its worker died, which a task's own doing may be the reason for."""
    return any(sign in why for sign in (*_DIED, _EXECUTOR_DIED))


def _python_reason(lines: list[str]) -> str | None:
    """The last line of a worker's traceback: the first unindented one behind it."""
    begun = next(i for i, line in enumerate(lines) if "Traceback (most recent call last)" in line)
    return next((line for line in lines[begun + 1 :] if not line[0].isspace()), None)
